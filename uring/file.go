package uring

import (
	"io"
	"sync/atomic"
)

// File is an open file with a count of its users, so that bytes of it may wait in a socket's queue
// while its owner has already decided to remove it. It is closed when the last user is gone.
type File struct {
	// Set by NewFile, constant afterwards.
	fd     int
	r      io.ReaderAt
	onLast func()

	// Set by Maps.NewFile, constant afterwards; without maps the file is never mapped.
	maps    *Maps
	size    int64
	windows []atomic.Pointer[Mapping] // stored under the lock of maps

	users atomic.Int64 // 0 is final
}

// NewFile wraps an open file with one user: the caller, who must Release once. fd is -1 where the
// file system has no descriptors; then bytes are copied through r. onLast runs once, in the
// goroutine of the last Release; it closes what is behind fd and r.
func NewFile(fd int, r io.ReaderAt, onLast func()) *File {
	f := &File{fd: fd, r: r, onLast: onLast}
	f.users.Store(1)
	return f
}

// Acquire adds a user, unless the last one is already gone: then it reports false and the caller
// must not touch the file. Any goroutine may call it.
func (f *File) Acquire() bool {
	for {
		n := f.users.Load()
		if n == 0 {
			return false
		}
		if f.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release takes one user away. Any goroutine may call it; once per Acquire, and once for NewFile.
func (f *File) Release() {
	switch n := f.users.Add(-1); {
	case n == 0:
		if f.maps != nil {
			f.maps.remove(f)
		}
		f.onLast()
	case n < 0:
		panic("uring: File released more often than acquired")
	}
}
