package log

import (
	"sync/atomic"

	"ringmq/uring"
)

// stagingSlack is staging that Reserve never gives: room for the blank records that the log itself
// stages, eight bytes at each end of a segment.
const stagingSlack = pageBytes

// staging is the memory between the appender's lock and the file: an off-heap ring of which every
// part is one contiguous slice.
//
//	     first unwritten            pos
//	+----+--------------------------+---- ... ----+
//	| .. | staged, not yet written  | free        |    reserved = promised + unwritten <= limit
//	+----+--------------------------+---- ... ----+
type staging struct {
	mem   *uring.Mirror
	limit int64 // most bytes that may be reserved at a time

	// Any goroutine.
	reserved  atomic.Int64 // promised by reserve, not yet written or given back
	unwritten atomic.Int64 // staged, not yet written; part of reserved

	pos int64 // guarded by the log's lock: where the next byte goes
}

func newStaging(bytes int) (*staging, error) {
	mem, err := uring.NewMirror(bytes)
	if err != nil {
		return nil, err
	}
	return &staging{mem: mem, limit: int64(bytes) - stagingSlack}, nil
}

// reserve promises n bytes, or reports that there is no room.
func (s *staging) reserve(n int64) bool {
	if s.reserved.Add(n) > s.limit {
		s.reserved.Add(-n)
		return false
	}
	return true
}

// release gives back n bytes: written, or never staged.
func (s *staging) release(n int64) { s.reserved.Add(-n) }

// takeLocked returns the next n bytes and where they are. An empty ring starts again at its front, so
// that a quiet log touches few pages.
func (s *staging) takeLocked(n int) (dst []byte, pos int64) {
	if s.unwritten.Load() == 0 {
		s.pos = 0
	}
	pos = s.pos
	s.pos += int64(n)
	s.unwritten.Add(int64(n))
	return s.mem.At(pos, n), pos
}

// written frees n staged bytes; blanks of them were never reserved.
func (s *staging) written(n, blanks int64) {
	s.reserved.Add(blanks - n)
	s.unwritten.Add(-n)
}
