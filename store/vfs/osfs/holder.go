package osfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// LockHolder describes who holds the lock of that name, "" when nobody does; it takes none and changes
// nothing. A missing file is held by nobody.
func (osFS) LockHolder(name string) (string, error) {
	held.Lock()
	defer held.Unlock()

	var st unix.Stat_t
	err := unix.Stat(name, &st)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	if held.by[inode{st.Dev, st.Ino}] { // opening and closing it would drop the lock
		return fmt.Sprintf("this process (pid %d)", os.Getpid()), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	holder := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 0, Len: 1}
	if err := again(func() error { return unix.FcntlFlock(f.Fd(), unix.F_GETLK, &holder) }); err != nil {
		return "", &fs.PathError{Op: "fcntl", Path: name, Err: err}
	}
	switch {
	case holder.Type == unix.F_UNLCK:
		return "", nil
	case holder.Pid <= 0: // of another container
		return "another process", nil
	}
	return fmt.Sprintf("process %d", holder.Pid), nil
}
