package uring

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Mirror is off-heap memory of n bytes that is mapped twice in a row, so that any n bytes from any
// start are one contiguous slice: a ring buffer whose records never wrap.
//
//	address   base            base+n          base+2n
//	          +---------------+---------------+
//	          | memory 0..n   | the same again|
//	          +---------------+---------------+
//	               ^ At(pos, k) starts at pos mod n and may cross base+n
//
// The memory is no Go heap: the collector neither scans nor moves nor counts it, so the kernel may
// hold its address. It is accounted to the process as shared memory. The two copies are one memory:
// a store through one is seen through the other. Mirror itself holds no lock; who may touch which
// bytes is for its users to agree on.
type Mirror struct {
	mem []byte // both copies; nil after Close
	n   int
}

// NewMirror maps n bytes, which must be a positive multiple of the page size. Pages are given by
// the kernel when they are first touched.
func NewMirror(n int) (*Mirror, error) {
	if page := unix.Getpagesize(); n <= 0 || n%page != 0 {
		return nil, fmt.Errorf("uring: mirror of %d bytes: want a positive multiple of %d", n, page)
	}
	fd, err := unix.MemfdCreate("ringmq-mirror", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("uring: mirror of %d bytes: memfd_create: %w", n, err)
	}
	defer unix.Close(fd) // the mappings keep the memory
	if err := unix.Ftruncate(fd, int64(n)); err != nil {
		return nil, fmt.Errorf("uring: mirror of %d bytes: ftruncate: %w", n, err)
	}
	// Reserve an address range for both copies, then map each half of it over the reservation.
	base, err := unix.MmapPtr(-1, 0, nil, uintptr(2*n), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("uring: mirror of %d bytes: reserve: %w", n, err)
	}
	for _, at := range []unsafe.Pointer{base, unsafe.Add(base, n)} {
		if _, err := unix.MmapPtr(fd, 0, at, uintptr(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
			_ = unix.MunmapPtr(base, uintptr(2*n))
			return nil, fmt.Errorf("uring: mirror of %d bytes: map: %w", n, err)
		}
	}
	return &Mirror{mem: unsafe.Slice((*byte)(base), 2*n), n: n}, nil
}

// At returns the n bytes at position pos of an endless stream that the mirror holds the latest
// Len() bytes of. It panics when pos is negative or n exceeds Len(): both are bugs of the caller.
func (m *Mirror) At(pos int64, n int) []byte {
	if pos < 0 || n < 0 || n > m.n {
		panic(fmt.Sprintf("uring: mirror of %d bytes: At(%d, %d)", m.n, pos, n))
	}
	from := int(pos % int64(m.n))
	return m.mem[from : from+n : from+n]
}

// Len returns the size in bytes of one copy.
func (m *Mirror) Len() int { return m.n }

// Close gives the memory back. Slices from At are dead afterwards: touching one is a fault. A second
// Close does nothing.
func (m *Mirror) Close() error {
	if m.mem == nil {
		return nil
	}
	base := unsafe.Pointer(unsafe.SliceData(m.mem))
	m.mem = nil
	if err := unix.MunmapPtr(base, uintptr(2*m.n)); err != nil {
		return fmt.Errorf("uring: mirror of %d bytes: munmap: %w", m.n, err)
	}
	return nil
}
