package osfs

import (
	"io/fs"
	"runtime"

	"golang.org/x/sys/unix"
)

// SeekData returns the first offset from off on that may hold anything but zeros, the file's size if there
// is none. What was allocated and never written is passed over without being read.
func (f *file) SeekData(off int64) (int64, error) {
	var at int64
	err := again(func() (err error) {
		at, err = unix.Seek(f.fd, off, unix.SEEK_DATA) // no reader here uses the position that this moves
		return err
	})
	runtime.KeepAlive(f)
	switch err {
	case nil:
		return at, nil
	case unix.ENXIO:
		return f.Size()
	case unix.EINVAL, unix.EOPNOTSUPP: // a file system that cannot tell
		return off, nil
	}
	return 0, &fs.PathError{Op: "lseek", Path: f.Name(), Err: err}
}
