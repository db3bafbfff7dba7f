package log

import (
	"fmt"

	"ringmq/store/internal/filename"
	"ringmq/store/vfs"
)

// A recycled segment is the file of a dropped one under a new name. All its blocks were written once, so
// that a flush of it writes records and nothing about the file: twice as quick as a new one, and half the
// bytes. What it held is still there behind what is written, eight zero bytes or more after the last
// record. Whoever looks for the end of the log stops at these; should a power cut lose them, an old
// record says another offset than its own, and one that is glued from an old and a new one fails the
// check that every record carries, without which nothing is recycled. Recovery and a clean stop put
// zeros over it.

// recycledMax is how many files wait in a directory to be used again: one for its next segment and one
// behind it.
const recycledMax = 2

// pinned is a file that can tell whether bytes of it are still on their way to somebody.
type pinned interface {
	// Pinned drops what the page cache holds of the file, and reports whether something stays: a page
	// that somebody maps, or that waits in a socket's queue. Writing to it would change what they get.
	Pinned() (bool, error)
}

// keepForReuse keeps the file of a dropped segment, unless bytes of it are on their way. On a file system
// without descriptors they never are: readers copy. Preparer goroutine only.
func (l *Log) keepForReuse(g *segment) (bool, error) {
	if !g.reuse {
		return false, l.dropRecycled() // space is wanted
	}
	if len(l.spare.recycled[g.dir]) == recycledMax {
		return false, nil
	}
	if p, ok := g.file.(pinned); ok {
		if held, err := p.Pinned(); held || err != nil {
			l.cfg.Log.Debug("store: a dropped file of the log is not used again: it is still read", "segment", filename.Of(g.base), "err", err)
			return false, nil
		}
	} else if g.file.Fd() >= 0 {
		return false, nil
	}
	l.spare.recycled[g.dir] = append(l.spare.recycled[g.dir], g.spareName())
	return true, nil
}

// dropRecycled gives back the space of what waits to be used again.
func (l *Log) dropRecycled() error {
	for dir, names := range l.spare.recycled {
		for _, name := range names {
			if err := l.cfg.FS.Remove(name); err != nil {
				return err
			}
		}
		delete(l.spare.recycled, dir)
	}
	return nil
}

// takeRecycled makes one of the files in a directory ready to get the name of a segment: its first page is zeros on the
// disk, so that nobody finds a record where the segment begins. It returns "" if there is none.
func (l *Log) takeRecycled(dir string) (draft string, err error) {
	names := l.spare.recycled[dir]
	n := len(names)
	if n == 0 {
		return "", nil
	}
	draft = names[n-1]
	l.spare.recycled[dir] = names[:n-1]
	f, err := l.cfg.FS.Open(draft)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if _, err := f.WriteAt(zeros[:pageBytes], 0); err != nil {
		return draft, err
	}
	return draft, f.Sync()
}

// zeroer is a file that can make zeros without writing them.
type zeroer interface{ Zero(off, n int64) error }

// zeroFile puts zeros over n bytes of a file.
func zeroFile(f vfs.File, off, n int64) error {
	if z, ok := f.(zeroer); ok {
		return z.Zero(off, n)
	}
	return writeZeros(f, off, n)
}

// zeroRest puts zeros over what a recycled last segment held before, on a clean stop: a stock broker that
// goes on there would take it for records.
func (l *Log) zeroRest() error {
	g := l.current
	if g == nil || !g.recycled {
		return nil
	}
	from := min(roundUp(l.tail-g.base+blankBytes, pageBytes), g.size)
	err := zeroFile(g.file, from, g.size-from)
	if err == nil {
		err = g.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("store: zero the rest of segment %s: %w", filename.Of(g.base), err)
	}
	return nil
}
