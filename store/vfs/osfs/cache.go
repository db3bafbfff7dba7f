package osfs

import (
	"io/fs"
	"runtime"

	"golang.org/x/sys/unix"
)

// DropCache makes the next reads come from the disk. After a failed write-back the page cache holds, as clean, bytes
// that the disk does not have, and a second fdatasync finds nothing to do: whoever recovers a file must not believe
// what it reads before this. Only what Sync wrote is dropped; pages that somebody maps, or that wait in a socket, stay.
func (f *file) DropCache() error {
	err := again(func() error { return unix.Fadvise(f.fd, 0, 0, unix.FADV_DONTNEED) })
	runtime.KeepAlive(f)
	if err != nil {
		return &fs.PathError{Op: "fadvise", Path: f.Name(), Err: err}
	}
	return nil
}
