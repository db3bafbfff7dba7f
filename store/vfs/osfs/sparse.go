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
