package log

import (
	"sync/atomic"

	"ringmq/uring/hist"
)

// counters count since Start; any goroutine adds and reads.
type counters struct {
	busy, writes, flushes, inline, completed, segments, recycled, dropped atomic.Int64
}

// times say how long the stages of a write took, in µs, and how large it was. The writer adds, but for prepare, which
// is the preparer's.
type times struct {
	staged  hist.Hist // from the first byte of a write to its taking
	write   hist.Hist
	flush   hist.Hist // from its begin until all before it were back too; with the write where both are one call
	batch   hist.Hist // bytes that a flush covers
	prepare hist.Hist // of one segment
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

	StagedTimes, WriteTimes, FlushTimes, FlushBytes, PrepareTimes hist.Snapshot // µs, but for FlushBytes
}

// Stats returns the counters. Any goroutine may call it.
func (l *Log) Stats() Stats {
	c := &l.counters
	t := &l.times
	s := Stats{
		StagedTimes: t.staged.Read(), WriteTimes: t.write.Read(), FlushTimes: t.flush.Read(), FlushBytes: t.batch.Read(), PrepareTimes: t.prepare.Read(),
		Busy: c.busy.Load(), Writes: c.writes.Load(), Flushes: c.flushes.Load(), Inline: c.inline.Load(),
		Completed: c.completed.Load(), Segments: c.segments.Load(), Recycled: c.recycled.Load(), Dropped: c.dropped.Load(),
	}
	s.Mapped = l.maps.Bytes()
	if l.staging != nil { // nil on a log that takes no appends: Hold
		s.Staged, s.Engine = l.staging.reserved.Load(), l.engine.Name()
	}
	return s
}
