package vfs

import "io"

// Direct is a file open for reads that leave the page cache alone, where the file system can do that. Any goroutine may call
// any method, except that nothing may be called during or after Close.
type Direct interface {
	// ReadAt follows io.ReaderAt. Offset, length and memory of p are whole pages.
	io.ReaderAt
	io.Closer
	// Fd is the descriptor to read from by other means, or -1 on a file system that has none.
	Fd() int
	// Past reports whether reads go past the page cache. Else each one is followed by Forget.
	Past() bool
	// Forget drops n bytes from off from the page cache.
	Forget(off, n int64)
	// Again reports whether a read that was begun while Past and failed with err may do better now: the file system has
	// turned out not to read past its cache.
	Again(err error) bool
}

// OpenDirect opens f once more, for such reads. The caller must close it before f. A file system in memory has no cache to
// leave alone: there it reads from f.
func OpenDirect(f File) (Direct, error) {
	if d, ok := f.(interface{ Direct() (Direct, error) }); ok {
		return d.Direct()
	}
	return plain{f}, nil
}

type plain struct{ File }

func (plain) Close() error        { return nil }
func (plain) Fd() int             { return -1 }
func (plain) Past() bool          { return true }
func (plain) Forget(int64, int64) {}
func (plain) Again(error) bool    { return false }

// Cached reports whether reads of n bytes from off of f do not wait for a disk; not known where the kernel does not tell. A
// file system in memory has no disk.
func Cached(f File, off, n int64) (cached, known bool) {
	if c, ok := f.(interface {
		Cached(off, n int64) (cached, known bool)
	}); ok {
		return c.Cached(off, n)
	}
	return true, true
}
