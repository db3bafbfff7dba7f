package osfs

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"ringmq/store/vfs"
)

// inode names a file apart from its paths.
type inode struct{ dev, ino uint64 }

// held are the locks of this process. POSIX record locks belong to the process: the kernel would grant
// the same lock twice, and drops it when any descriptor of the file is closed. So a second Lock must be
// refused before it opens the file.
var held = struct {
	sync.Mutex
	by map[inode]bool
}{by: map[inode]bool{}}

// Lock takes an fcntl write lock on the file's first byte, as a stock broker does; flock is another kind
// of lock that stock brokers do not see.
func (osFS) Lock(name string) (io.Closer, error) {
	held.Lock()
	defer held.Unlock()

	var st unix.Stat_t
	if unix.Stat(name, &st) == nil && held.by[inode{st.Dev, st.Ino}] {
		return nil, fmt.Errorf("lock %s: %w by this process (pid %d)", name, vfs.ErrLocked, os.Getpid())
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, filePerm)
	if err != nil {
		return nil, err
	}
	if err := lockFirstByte(f); err != nil {
		f.Close()
		return nil, err
	}
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		f.Close()
		return nil, &fs.PathError{Op: "fstat", Path: name, Err: err}
	}
	id := inode{st.Dev, st.Ino}
	held.by[id] = true
	return &lock{file: f, id: id}, nil
}

func lockFirstByte(f *os.File) error {
	want := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 0, Len: 1}
	err := again(func() error { return unix.FcntlFlock(f.Fd(), unix.F_SETLK, &want) })
	if err == nil {
		return nil
	}
	if err != unix.EAGAIN && err != unix.EACCES {
		return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	holder := want
	if unix.FcntlFlock(f.Fd(), unix.F_GETLK, &holder) == nil && holder.Type != unix.F_UNLCK {
		return fmt.Errorf("lock %s: %w by process %d", f.Name(), vfs.ErrLocked, holder.Pid)
	}
	return fmt.Errorf("lock %s: %w by another process", f.Name(), vfs.ErrLocked)
}

type lock struct {
	file *os.File
	id   inode
}

// Close drops the lock. A second Close is an error of os.File and drops nothing.
func (l *lock) Close() error {
	held.Lock()
	defer held.Unlock()
	if err := l.file.Close(); err != nil {
		return err
	}
	delete(held.by, l.id)
	return nil
}

// LockDir takes a flock on the directory, which needs no right to write there.
func (osFS) LockDir(dir string) (io.Closer, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	err = again(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
	switch err {
	case nil, unix.EBADF, unix.EINVAL, unix.ENOLCK, unix.EOPNOTSUPP: // NFS wants a file that is open for writing
		return f, nil
	case unix.EWOULDBLOCK:
		err = fmt.Errorf("lock %s: %w", dir, vfs.ErrLocked)
	default:
		err = &fs.PathError{Op: "flock", Path: dir, Err: err}
	}
	f.Close()
	return nil, err
}
