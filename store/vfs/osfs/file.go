package osfs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"ringmq/store/vfs"
)

const iovMax = 1024 // buffers per system call: IOV_MAX of Linux

// file is an os.File with what os.File lacks. Its descriptor is in blocking mode, as for all regular
// files; fd is kept because os.File.Fd costs a lock.
type file struct {
	*os.File
	fd int
	fs osFS
}

func (fsys osFS) open(name string, flags int) (vfs.File, error) {
	f, err := os.OpenFile(name, flags|unix.O_CLOEXEC, filePerm)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() { // opening one for reading succeeds
		err = &fs.PathError{Op: "open", Path: name, Err: unix.EISDIR}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &file{File: f, fd: int(f.Fd()), fs: fsys}, nil
}

func (f *file) Fd() int { return f.fd }

func (f *file) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// WriteVec goes on where a short write ended.
func (f *file) WriteVec(bufs [][]byte, off int64) (int, error) {
	n, err := writeVec(f.fd, 0, bufs, off)
	runtime.KeepAlive(f)
	if err != nil {
		return n, &fs.PathError{Op: "pwritev", Path: f.Name(), Err: err}
	}
	return n, nil
}

func writeVec(fd, flags int, bufs [][]byte, off int64) (int, error) {
	return writeAll(func(bufs [][]byte, at int64) (int, error) { return unix.Pwritev2(fd, bufs, at, flags) }, bufs, off)
}

// writeAll gives a system call up to 1024 buffers at a time until all are written: it goes on after short
// writes, and after a signal.
func writeAll(write func(bufs [][]byte, at int64) (int, error), bufs [][]byte, off int64) (done int, err error) {
	total := 0
	for _, b := range bufs {
		total += len(b)
	}
	rest := bufs
	for done < total {
		n, err := write(rest[:min(len(rest), iovMax)], off+int64(done))
		if n > 0 {
			done += n
			rest = advance(rest, n)
			continue
		}
		switch {
		case err == unix.EINTR:
		case err == nil && len(rest) > iovMax: // a whole window of empty buffers
			rest = rest[iovMax:]
		case err == nil:
			return done, io.ErrShortWrite
		default:
			return done, err
		}
	}
	return done, nil
}

// advance drops n written bytes from the front of bufs, which it does not change: a buffer that was
// written in part is shortened in a copy.
func advance(bufs [][]byte, n int) [][]byte {
	for len(bufs) > 0 && n >= len(bufs[0]) {
		n -= len(bufs[0])
		bufs = bufs[1:]
	}
	if n > 0 {
		bufs = append([][]byte{bufs[0][n:]}, bufs[1:]...)
	}
	return bufs
}

// Preallocate uses fallocate. Where the file system has none, or a policy forbids it, zeros are written behind
// the file's end, which reserves blocks as well; holes below it stay.
func (f *file) Preallocate(n int64) error {
	err := again(func() error { return unix.Fallocate(f.fd, 0, 0, n) })
	runtime.KeepAlive(f)
	if f.cannot(err) {
		return f.appendZeros(n)
	}
	if err != nil {
		return &fs.PathError{Op: "fallocate", Path: f.Name(), Err: err}
	}
	return nil
}

// cannot reports whether fallocate was refused for a reason that stays: the file system or the kernel has
// none, or a policy forbids it. The log is told of the first time.
func (f *file) cannot(err error) bool {
	if err != unix.EOPNOTSUPP && err != unix.ENOSYS && err != unix.EPERM {
		return false
	}
	f.fs.told.Do(func() {
		f.fs.o.Log.Warn("no fallocate: files are made by writing zeros, which takes longer", "file", f.Name(), "reason", err)
	})
	return true
}

// appendZeros makes the file n bytes long, unless it is longer.
func (f *file) appendZeros(n int64) error {
	at, err := f.Size()
	if err != nil {
		return err
	}
	return f.writeZeros(at, n)
}

func (f *file) writeZeros(at, end int64) error {
	zeros := make([]byte, 1<<20)
	for at < end {
		wrote, err := f.WriteAt(zeros[:min(int64(len(zeros)), end-at)], at)
		if err != nil {
			return err
		}
		at += int64(wrote)
	}
	return nil
}

func (f *file) Sync() error {
	return fdatasync(f.File, f.Name())
}

func fdatasync(f *os.File, name string) error {
	err := again(func() error { return unix.Fdatasync(int(f.Fd())) })
	runtime.KeepAlive(f)
	if err != nil {
		return &fs.PathError{Op: "fdatasync", Path: name, Err: err}
	}
	return nil
}

// slot is an open file description that only its engine syncs on.
type slot struct {
	file *os.File
	name string // of the file; the descriptor's own may be a path in /proc

	// err is the first error of a flush; the one flush in flight owns it.
	err error
}

// Slot opens the file again.
func (f *file) Slot() (vfs.Slot, error) {
	g, err := f.reopen(os.O_RDWR)
	if err != nil {
		return nil, err
	}
	return &slot{file: g, name: f.Name()}, nil
}

// reopen makes another open file description, by the descriptor, which works also after a rename. Without /proc it opens
// the name and makes sure that it is the same file.
func (f *file) reopen(flags int) (*os.File, error) {
	g, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.fd), flags|unix.O_CLOEXEC, 0)
	runtime.KeepAlive(f)
	if err == nil || errors.Is(err, unix.EINVAL) { // these flags are not for this file
		return g, err
	}
	if g, err = os.OpenFile(f.Name(), flags|unix.O_CLOEXEC, 0); err != nil {
		return nil, err
	}
	mine, err1 := f.Stat()
	other, err2 := g.Stat()
	if err := errors.Join(err1, err2); err != nil || !os.SameFile(mine, other) {
		g.Close()
		return nil, &fs.PathError{Op: "open again", Path: f.Name(), Err: cmp.Or(err, error(unix.ESTALE))}
	}
	return g, nil
}

func (s *slot) Close() error { return s.file.Close() }

// WriteDurable fails like a flush: what a short write left durable does not count.
func (s *slot) WriteDurable(bufs [][]byte, off int64) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := writeVec(int(s.file.Fd()), unix.RWF_DSYNC, bufs, off)
	runtime.KeepAlive(s)
	if n == 0 && (err == unix.EOPNOTSUPP || err == unix.ENOSYS) {
		return 0, errors.ErrUnsupported
	}
	if err != nil {
		s.err = &fs.PathError{Op: "pwritev2(RWF_DSYNC)", Path: s.name, Err: err}
	}
	return n, s.err
}

// flush syncs, unless an earlier flush failed: the kernel would say OK then, for pages that it lost.
func (s *slot) flush() error {
	if s.err == nil {
		s.err = fdatasync(s.file, s.name)
	}
	return s.err
}
