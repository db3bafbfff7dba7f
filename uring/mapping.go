package uring

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// windowBytes of a file are mapped at a time: taking away a whole GiB at once would hold a loop for 5 ms.
	windowBytes = 64 << 20

	// MappedRangeMax is how long a range may be to be mapped. Windows overlap by as much, so that each such range lies
	// in one.
	MappedRangeMax = 1 << 20
)

// Maps keeps parts of some files mapped, so that short ranges can be pieces of a Vec. Nobody else may look at mapped
// bytes: a page that cannot be read kills a process that touches it, while sendmsg(2) returns unix.EFAULT.
//
// A window of a file is mapped when a range in it is first asked for. It stays mapped until the file's last user is
// gone, or until so many others were mapped after it. Any goroutine may use it.
type Maps struct {
	most  int
	bytes atomic.Int64

	mu      sync.Mutex // leaf; guards what follows, and changes of File.windows
	windows []window   // what is mapped, the oldest in front
}

type window struct {
	file *File
	i    int
}

// NewMaps returns one that keeps at most so many windows of 64 MiB mapped, and those that are in use.
func NewMaps(most int) *Maps { return &Maps{most: most} }

// Bytes is how many bytes of address space are mapped right now.
func (m *Maps) Bytes() int64 { return m.bytes.Load() }

// NewFile is the function of that name, for a file of size bytes that may be mapped.
func (m *Maps) NewFile(fd int, size int64, r io.ReaderAt, onLast func()) *File {
	f := NewFile(fd, r, onLast)
	if fd >= 0 {
		f.maps, f.size, f.windows = m, size, make([]atomic.Pointer[Mapping], (size+windowBytes-1)/windowBytes)
	}
	return f
}

// Mapping is one window of a file, with a count of its users.
type Mapping struct {
	mem   unsafe.Pointer
	from  int64 // in the file
	bytes int
	maps  *Maps
	users atomic.Int64 // the File is one; 0 is final
}

// Map returns the bytes of the range as a piece for Vec.Add, and what keeps them mapped until its Release, which must
// come before that of the range. ErrNoDescriptor says that the file is none that is mapped.
func (r FileRange) Map() ([]byte, *Mapping, error) {
	f := r.File
	if f.maps == nil {
		return nil, nil, ErrNoDescriptor
	}
	if r.Off < 0 || r.Len < 0 || r.Len > MappedRangeMax || r.Off > f.size-int64(r.Len) {
		return nil, nil, fmt.Errorf("uring: map %d+%d of a file of %d bytes: outside, or more than %d", r.Off, r.Len, f.size, MappedRangeMax)
	}
	i := min(int(r.Off/windowBytes), len(f.windows)-1) // an empty range may begin at the file's end
	m := f.windows[i].Load()
	if m == nil || !m.acquire() {
		var err error
		if m, err = f.maps.add(f, i); err != nil {
			return nil, nil, err
		}
	}
	return unsafe.Slice((*byte)(unsafe.Add(m.mem, r.Off-m.from)), r.Len), m, nil
}

// Beside returns the bytes of a range, as Map does, if it lies in the window of m, of which file is. m is used no more
// often than before.
func (m *Mapping) Beside(file *File, r FileRange) ([]byte, bool) {
	if m == nil || file != r.File || r.Off < m.from || r.Len > int(min(int64(MappedRangeMax), m.from+int64(m.bytes)-r.Off)) {
		return nil, false
	}
	return unsafe.Slice((*byte)(unsafe.Add(m.mem, r.Off-m.from)), r.Len), true
}

// add maps a window of f, whose caller is a user of it, and returns the mapping with a use for him.
func (m *Maps) add(f *File, i int) (*Mapping, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if there := f.windows[i].Load(); there != nil { // it has a use of its own, which ends under the lock
		there.users.Add(1)
		return there, nil
	}
	from := int64(i) * windowBytes
	n := int(min(windowBytes+MappedRangeMax, f.size-from))
	mem, err := unix.MmapPtr(f.fd, from, nil, uintptr(n), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("uring: map %d+%d of a file: %w", from, n, err)
	}
	made := &Mapping{mem: mem, from: from, bytes: n, maps: m}
	made.users.Store(2) // f and the caller
	m.bytes.Add(int64(n))
	f.windows[i].Store(made)
	if m.windows = append(m.windows, window{f, i}); len(m.windows) > m.most {
		m.dropLocked(m.windows[0])
		m.windows = slices.Delete(m.windows, 0, 1)
	}
	return made, nil
}

func (m *Maps) dropLocked(w window) { w.file.windows[w.i].Swap(nil).Release() }

// remove ends the mappings of a file that has no users, and so no range that uses them.
func (m *Maps) remove(f *File) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.windows = slices.DeleteFunc(m.windows, func(w window) bool {
		if w.file == f {
			m.dropLocked(w)
		}
		return w.file == f
	})
}

func (m *Mapping) acquire() bool {
	for {
		n := m.users.Load()
		if n == 0 {
			return false
		}
		if m.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release ends one use. A nil Mapping has nothing to release. Any goroutine.
func (m *Mapping) Release() {
	if m == nil {
		return
	}
	switch n := m.users.Add(-1); {
	case n == 0:
		if err := unix.MunmapPtr(m.mem, uintptr(m.bytes)); err != nil {
			panic(fmt.Sprintf("uring: munmap: %v", err)) // EINVAL: our own bug
		}
		m.maps.bytes.Add(-int64(m.bytes))
	case n < 0:
		panic("uring: Mapping released more often than acquired")
	}
}
