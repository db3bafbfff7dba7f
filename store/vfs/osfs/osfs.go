// Package osfs is the machine's file system as a vfs.FS.
//
//	osfs.go    names: create, open, rename, directories
//	file.go    one open file: vectored writes, preallocation
//	lock.go    the lock of a store's directory
//	posix.go   the flusher: a goroutine per flush in flight
package osfs

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"ringmq/store/vfs"
)

const (
	filePerm = 0o644 // as stock brokers, before the umask
	dirPerm  = 0o755
)

type osFS struct{}

// New returns the machine's file system. All of them are the same one, locks included.
func New() vfs.FS { return osFS{} }

func (osFS) Create(name string) (vfs.File, error) {
	return open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

func (osFS) Open(name string) (vfs.File, error) { return open(name, os.O_RDWR) }

func (osFS) OpenRead(name string) (vfs.File, error) { return open(name, os.O_RDONLY) }

func (osFS) Remove(name string) error { return os.Remove(name) }

func (osFS) Rename(from, to string) error { return os.Rename(from, to) }

func (osFS) MkdirAll(dir string) error { return os.MkdirAll(dir, dirPerm) }

func (osFS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (osFS) Stat(name string) (vfs.Info, error) {
	info, err := os.Stat(name)
	if err != nil {
		return vfs.Info{}, err
	}
	return vfs.Info{Size: info.Size(), Mod: info.ModTime(), Dir: info.IsDir()}, nil
}

func (osFS) SyncDir(dir string) error {
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync() // fsync: a directory's entries are its contents and its metadata
}

func (osFS) Space(dir string) (free, total int64, err error) {
	var st unix.Statfs_t
	err = again(func() error { return unix.Statfs(dir, &st) })
	if err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(st.Bavail) * st.Frsize, int64(st.Blocks) * st.Frsize, nil
}

// again repeats a system call that a signal interrupted before it did anything.
func again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
