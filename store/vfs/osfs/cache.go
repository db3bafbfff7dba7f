package osfs

import (
	"errors"
	"io/fs"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"ringmq/uring"
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

// Pinned drops the file's pages from the cache and reports whether some stay: those that somebody maps, or
// that wait in a socket's queue. A kernel that cannot tell (before Linux 6.5) counts as yes.
func (f *file) Pinned() (bool, error) {
	if err := f.DropCache(); err != nil {
		return true, err
	}
	var got unix.Cachestat_t
	err := again(func() error { return unix.Cachestat(uint(f.fd), &unix.CachestatRange{}, &got, 0) }) // of length 0: to the end
	runtime.KeepAlive(f)
	if errors.Is(err, unix.ENOSYS) {
		return true, nil
	}
	if err != nil {
		return true, &fs.PathError{Op: "cachestat", Path: f.Name(), Err: err}
	}
	return got.Cache > 0, nil
}

// residency is how this kernel tells what is cached, found with the first file that is asked about.
type residency struct {
	once sync.Once
	way  uring.Residency
}

// Cached is what vfs.Cached asks.
func (f *file) Cached(off, n int64) (cached, known bool) {
	r := f.fs.cached
	r.once.Do(func() {
		var why error
		if r.way, why = uring.ProbeResidency(f.fd); why != nil {
			f.fs.o.Log.Info("what the page cache holds is asked for in another way than by cachestat", "way", r.way, "reason", why)
		}
	})
	if r.way == uring.NoResidency {
		return false, false
	}
	cached = r.way.Cached(f.fd, off, n)
	runtime.KeepAlive(f)
	return cached, true
}
