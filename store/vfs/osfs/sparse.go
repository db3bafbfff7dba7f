package osfs

import (
	"io/fs"
	"runtime"

	"golang.org/x/sys/unix"
)

// NextData returns the first range from off on that may hold anything but zeros; from is the file's size
// if there is none. What was allocated and never written is passed over without being read. Ask for all
// ranges before reading any: what the page cache holds counts as data.
func (f *file) NextData(off int64) (from, to int64, err error) {
	size, err := f.Size()
	if err != nil {
		return 0, 0, err
	}
	from, err = f.seek(off, unix.SEEK_DATA)
	if err == unix.ENXIO {
		return size, size, nil
	}
	if err == nil {
		to, err = f.seek(from, unix.SEEK_HOLE)
	}
	if err == unix.EINVAL || err == unix.EOPNOTSUPP { // a file system that cannot tell
		return off, size, nil
	}
	if err != nil {
		return 0, 0, &fs.PathError{Op: "lseek", Path: f.Name(), Err: err}
	}
	return from, to, nil
}

// seek moves the descriptor's position, which no reader or writer here uses.
func (f *file) seek(off int64, whence int) (at int64, err error) {
	err = again(func() (err error) {
		at, err = unix.Seek(f.fd, off, whence)
		return err
	})
	runtime.KeepAlive(f)
	return at, err
}

// Zero makes n bytes from off read as zeros without writing them; where the file system cannot, it writes
// them. The blocks stay reserved.
func (f *file) Zero(off, n int64) error {
	if n <= 0 {
		return nil
	}
	err := again(func() error {
		return unix.Fallocate(f.fd, unix.FALLOC_FL_ZERO_RANGE|unix.FALLOC_FL_KEEP_SIZE, off, n)
	})
	runtime.KeepAlive(f)
	if f.cannot(err) {
		return f.writeZeros(off, off+n)
	}
	if err != nil {
		return &fs.PathError{Op: "fallocate", Path: f.Name(), Err: err}
	}
	return nil
}
