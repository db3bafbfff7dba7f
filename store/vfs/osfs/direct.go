package osfs

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"ringmq/store/vfs"
	"ringmq/uring"
)

// NewRing returns a ring for reads, or says why there is none.
func (f osFS) NewRing(entries uint32) (*uring.Ring, error) {
	if f.o.IOEngine == POSIX {
		return nil, fmt.Errorf("osfs: ioEngine=%s", POSIX)
	}
	return uring.NewRing(entries)
}

// direct is an open file description of its own, with O_DIRECT where the file system has it.
type direct struct {
	*os.File
	fs osFS
	fd int

	buffered atomic.Bool // without O_DIRECT
}

// Direct is what vfs.OpenDirect asks for.
func (f *file) Direct() (vfs.Direct, error) {
	g, err := f.reopen(os.O_RDONLY | unix.O_DIRECT)
	refused := errors.Is(err, unix.EINVAL)
	if refused {
		g, err = f.reopen(os.O_RDONLY)
	}
	if err != nil {
		return nil, err
	}
	d := &direct{File: g, fs: f.fs, fd: int(g.Fd())}
	if refused {
		d.withoutDirect(unix.EINVAL)
	}
	return d, nil
}

// withoutDirect notes that reads go through the page cache. The kernel is told not to read ahead: more would have to be
// forgotten than was asked for.
func (d *direct) withoutDirect(why error) {
	d.buffered.Store(true)
	_ = unix.Fadvise(d.fd, 0, 0, unix.FADV_RANDOM) // only dearer without
	d.fs.refused.Do(func() {
		d.fs.o.Log.Info("no O_DIRECT on this file system: old messages are read through the page cache, and dropped from it", "file", d.Name(), "reason", why)
	})
}

func (d *direct) Fd() int { return d.fd }

func (d *direct) Past() bool { return !d.buffered.Load() }

func (d *direct) Forget(off, n int64) {
	_ = unix.Fadvise(d.fd, off, n, unix.FADV_DONTNEED) // what stays is only memory of the kernel
	runtime.KeepAlive(d)
}

// Again takes O_DIRECT off the description where a device wants another alignment than pages.
func (d *direct) Again(err error) bool {
	if !errors.Is(err, unix.EINVAL) {
		return false
	}
	if d.buffered.Load() { // another read was first
		return true
	}
	flags, failed := unix.FcntlInt(uintptr(d.fd), unix.F_GETFL, 0)
	if failed == nil {
		_, failed = unix.FcntlInt(uintptr(d.fd), unix.F_SETFL, flags&^unix.O_DIRECT)
	}
	if failed != nil {
		return false
	}
	d.withoutDirect(err)
	return true
}
