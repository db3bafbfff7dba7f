package log

import "sync/atomic"

// counters count since Start; any goroutine adds and reads.
type counters struct {
	busy, writes, flushes, inline, completed, segments, recycled, dropped atomic.Int64
}

// Stats are counters since Start.
type Stats struct {
	Busy     int64 // refusals for want of staging or of a segment
	Writes   int64
	Flushes  int64 // begun
	Inline   int64 // of them, done by the call that wrote the bytes
	Segments int64 // prepared
	Recycled int64 // of them, from dropped ones
	Dropped  int64 // segments
	Staged   int64 // bytes reserved now

	Mapped int64 // bytes of the log's files that are mapped now

	Engine    string // what does the flushes that are not inline
	Completed int64  // by it, and found good
}

// Stats returns the counters. Any goroutine may call it.
func (l *Log) Stats() Stats {
	c := &l.counters
	s := Stats{
		Busy: c.busy.Load(), Writes: c.writes.Load(), Flushes: c.flushes.Load(), Inline: c.inline.Load(),
		Completed: c.completed.Load(), Segments: c.segments.Load(), Recycled: c.recycled.Load(), Dropped: c.dropped.Load(),
	}
	s.Mapped = l.maps.Bytes()
	if l.staging != nil { // nil on a log that takes no appends: Hold
		s.Staged, s.Engine = l.staging.reserved.Load(), l.engine.Name()
	}
	return s
}
