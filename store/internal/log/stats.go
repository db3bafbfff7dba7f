package log

import "sync/atomic"

// counters count since Start; any goroutine adds and reads.
type counters struct {
	busy, writes, flushes, inline, segments, dropped atomic.Int64
}

// Stats are counters since Start.
type Stats struct {
	Busy     int64 // refusals for want of staging or of a segment
	Writes   int64
	Flushes  int64 // begun
	Inline   int64 // of them, done by the call that wrote the bytes
	Segments int64 // prepared
	Dropped  int64 // segments
	Staged   int64 // bytes reserved now
}

// Stats returns the counters. Any goroutine may call it.
func (l *Log) Stats() Stats {
	c := &l.counters
	s := Stats{c.busy.Load(), c.writes.Load(), c.flushes.Load(), c.inline.Load(), c.segments.Load(), c.dropped.Load(), 0}
	if l.staging != nil { // nil on a log that takes no appends: Hold
		s.Staged = l.staging.reserved.Load()
	}
	return s
}
