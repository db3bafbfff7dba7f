// Package osfs is the machine's file system as a vfs.FS.
//
//	osfs.go    names: create, open, rename, directories
//	file.go    one open file: vectored writes, preallocation
//	lock.go    the lock of a store's directory
//	ring.go    the flusher on io_uring
//	posix.go   the flusher where there is no ring: a goroutine per flush in flight
//	cache.go   what the page cache holds, and how it is made to drop it
//	direct.go  reads past the page cache
package osfs

import (
	"cmp"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"ringmq/store/vfs"
)

const (
	filePerm = 0o644 // as stock brokers, before the umask
	dirPerm  = 0o755
)

// IOEngine says what flushes a log.
type IOEngine string

const (
	Auto  IOEngine = "auto"  // the ring where the kernel and its policy permit it, else posix
	URing IOEngine = "uring" // the ring, or an error that says why there is none
	POSIX IOEngine = "posix" // fdatasync from goroutines
)

// Options sets up the file system. A zero field means "choose for me".
type Options struct {
	IOEngine IOEngine
	Log      *slog.Logger // told why there is no ring, no fallocate, no O_DIRECT or no cachestat
}

type osFS struct {
	o       Options
	told    *sync.Once // that there is no fallocate
	refused *sync.Once // told that there is no O_DIRECT
	cached  *residency
}

// New returns the machine's file system. All of them are the same one, locks included.
func New(o Options) vfs.FS {
	o.IOEngine = cmp.Or(o.IOEngine, Auto)
	o.Log = cmp.Or(o.Log, slog.Default())
	return osFS{o, new(sync.Once), new(sync.Once), new(residency)}
}

// NewEngine makes the flusher that Options ask for.
func (f osFS) NewEngine() (vfs.Engine, error) {
	switch f.o.IOEngine {
	case POSIX:
		return newPosix(), nil
	case Auto, URing:
		r, err := newRing()
		if err == nil {
			return r, nil
		}
		if f.o.IOEngine == URing {
			return nil, err
		}
		f.o.Log.Info("no io_uring: flushing by fdatasync from goroutines", "reason", err)
		return newPosix(), nil
	}
	return nil, fmt.Errorf("osfs: ioEngine=%q: want %s, %s or %s", f.o.IOEngine, Auto, URing, POSIX)
}

func (f osFS) Create(name string) (vfs.File, error) {
	return f.open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

func (f osFS) Open(name string) (vfs.File, error) { return f.open(name, os.O_RDWR) }

func (f osFS) OpenRead(name string) (vfs.File, error) { return f.open(name, os.O_RDONLY) }

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

// Same reports whether two names lead to one file or directory, by links or mounts.
func (osFS) Same(a, b string) (bool, error) {
	one, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other), err
}

func (osFS) SyncDir(dir string) error {
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync() // fsync: a directory's entries are its contents and its metadata
}

func (osFS) Volume(dir string) (vfs.Volume, error) {
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return volume{d}, nil
}

// volume is an open directory: the kernel keeps for each open file which errors of its file system it has
// told.
type volume struct{ *os.File }

func (v volume) Sync() error {
	if err := again(func() error { return unix.Syncfs(int(v.Fd())) }); err != nil {
		return &fs.PathError{Op: "syncfs", Path: v.Name(), Err: err}
	}
	return nil
}

func (osFS) Space(dir string) (free, total int64, err error) {
	var st unix.Statfs_t
	err = again(func() error { return unix.Statfs(dir, &st) })
	if err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	free = int64(st.Bavail) * st.Frsize
	return free, free + int64(st.Blocks-st.Bfree)*st.Frsize, nil
}

// again repeats a system call that a signal interrupted before it did anything.
func again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
