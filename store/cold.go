package store

import (
	"errors"
	"fmt"

	"ringmq/store/internal/cold"
	"ringmq/store/internal/derive/queue"
	"ringmq/uring"
)

// What the page cache does not have is never read by an event loop, and not through the page cache: see Access, and
// package cold for how it is read. A pull that meets such bytes goes like this:
//
//	loop:    Get(NoWait), Cached or Lookup ──ok──► answer
//	            │ ErrCold, or neither
//	worker:  Get(Past), Fetch ──► answer, in the loop

func (s *Store) coldOptions() cold.Options {
	o := cold.Options{
		Bytes: s.o.ColdBytes, Span: s.log.Span, Durable: s.log.Durable, Log: s.o.Log,
		Acquire: func(base int64) (cold.Segment, bool) { return s.log.Keep(base) },
	}
	if d, ok := s.fs.(interface {
		NewRing(entries uint32) (*uring.Ring, error)
	}); ok {
		o.Ring = d.NewRing
	}
	return o
}

// reach is how a Get may read the log, and what of it was last found to be cached.
type reach struct {
	access   Access
	from, to int64
}

// reachBytes are asked for at once: records of a queue lie close together mostly.
const reachBytes = 256 << 10

// inReach reports whether reading n bytes at off does not wait for a disk.
func (s *Store) inReach(r *reach, off int64, n int) bool {
	if r.from <= off && off+int64(n) <= r.to {
		return true
	}
	from, to := off, min(off+reachBytes, s.readable.Load())
	if _, end, ok := s.log.Span(off); ok {
		to = min(to, end)
	}
	if to > off+int64(n) && s.cached(from, int(to-from)) {
		r.from, r.to = from, to
		return true
	}
	return s.cached(off, n)
}

// cached reports whether n bytes from off, all in one segment, are in the page cache. Where the kernel does not tell, the end of
// the log is.
func (s *Store) cached(off int64, n int) bool {
	cached, known := s.log.Cached(off, n)
	if !known {
		return s.readable.Load()-off <= s.o.CacheBytes
	}
	return cached
}

// readBy is ReadAt in the way that a Get asks for.
func (s *Store) readBy(by *reach, p []byte, off int64) error {
	if by == nil || by.access == Through {
		return s.ReadAt(p, off)
	}
	r, err := s.Range(off, len(p))
	if err != nil {
		return err
	}
	defer r.Release()
	switch {
	case s.cold.Copy(p, off):
		return nil
	case s.inReach(by, off, len(p)):
	case by.access == NoWait:
		return ErrCold
	default:
		if err := s.cold.ReadAt(p, off); !errors.Is(err, cold.ErrFresh) {
			return ofStore(err)
		}
	}
	if n, err := r.ReadAt(p, 0); n < len(p) {
		return fmt.Errorf("store: read %d bytes at %d: %w", len(p), off, err)
	}
	return nil
}

// Cached reports whether sending the records of g from their files, see Range, does not wait for a disk. Any goroutine.
func (s *Store) Cached(g *Got) bool {
	for _, r := range g.Runs {
		if !s.inReach(&g.reach, r.Offset, r.Bytes) {
			return false
		}
	}
	return true
}

// Lookup adds the records of g to into, if all of them were read past the page cache lately and are still there; each MemRange
// must be released. It does not wait. Any goroutine.
func (s *Store) Lookup(into []uring.MemRange, g *Got) ([]uring.MemRange, bool) {
	had := len(into)
	for _, r := range g.Runs {
		var ok bool
		if into, ok = s.cold.Lookup(into, r.Offset, r.Bytes); !ok {
			for _, m := range into[had:] {
				m.Release()
			}
			return into[:had], false
		}
	}
	return into, true
}

// Fetch reads the records of g past the page cache. It returns them as memory that is lent out, each MemRange to be released, or
// as copied bytes. It waits for the disk; four goroutines may call it at once. ErrOffset means that they are gone from the
// log: a new Get tells where the queue begins now.
func (s *Store) Fetch(g *Got) (lent []uring.MemRange, copied []byte, err error) {
	ranges := make([]cold.Range, len(g.Runs))
	for i, r := range g.Runs {
		held, err := s.Range(r.Offset, r.Bytes)
		if err != nil {
			return nil, nil, err
		}
		held.Release()
		ranges[i] = cold.Range{Offset: r.Offset, Bytes: r.Bytes}
	}
	lent, copied, err = s.cold.Take(ranges)
	if errors.Is(err, cold.ErrFresh) { // the end of the log: the page cache has it
		copied, err = s.copyRuns(g)
	}
	return lent, copied, ofStore(err)
}

// ofStore gives errors of package cold the names that callers know.
func ofStore(err error) error {
	switch {
	case errors.Is(err, cold.ErrGone):
		return fmt.Errorf("%w: %w", ErrOffset, err)
	case errors.Is(err, cold.ErrClosed):
		return ErrClosed
	}
	return err
}

// expect has the records read past the page cache that a Get will look at and give: they come at once, and not one after the
// other.
func (s *Store) expect(g Get, entries []byte) {
	var ranges []cold.Range
	for bytes := 0; len(entries) > 0 && len(ranges) < g.MaxCount; entries = entries[queue.EntryBytes:] {
		e := queue.Parse(entries)
		if !s.inLog(e) || g.Match != nil && !e.Extended() && !g.Match(e.Tags) {
			continue
		}
		if bytes += int(e.Size); bytes > g.MaxBytes && len(ranges) > 0 {
			break
		}
		ranges = append(ranges, cold.Range{Offset: e.Offset, Bytes: int(e.Size)})
	}
	s.cold.Expect(ranges)
}

// copyRuns reads the records of g, each from where it is.
func (s *Store) copyRuns(g *Got) ([]byte, error) {
	body, at := make([]byte, g.Bytes), 0
	past := reach{access: Past}
	for _, r := range g.Runs {
		if err := s.readBy(&past, body[at:at+r.Bytes], r.Offset); err != nil {
			return nil, err
		}
		at += r.Bytes
	}
	return body, nil
}
