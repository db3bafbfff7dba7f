package store

import (
	"sync/atomic"

	"ringmq/store/vfs"
	"ringmq/uring/hist"
)

// Stats are counters since Open, and what Open found.
type Stats struct {
	Appended      int64 // records
	AppendedBytes int64
	Busy          int64 // refusals for want of staging or of a segment
	Writes        int64 // of the log
	Flushes       int64 // of the log, begun
	FlushedInline int64 // found good: by the call that wrote the bytes
	FlushedByRing int64 // in io_uring
	FlushedByCall int64 // by an engine that calls fdatasync
	Segments      int64 // prepared
	Recycled      int64 // of them, from removed ones
	MappedBytes   int64 // of the log's files, now
	StagedBytes   int64 // reserved now: promised or not yet written
	StagingBytes  int64 // the most that can be
	WaitingBytes  int64 // queue entries in memory only, now
	ClockBackMs   int64 // most that the clock was back behind the last store time
	Indexed       int64 // the index has the messages up to here
	Checkpoint    int64 // position of the one on the disk: a restart reads the log from there
	Failed        int64 // 1 when a write or flush has failed or the log is damaged: nothing is stored
	Ring          int64 // 1 when flushes go through io_uring, 0 when through fdatasync
	Recovered     Recovered

	// Of the log's writes: see log.Stats.
	StagedTimes, WriteTimes, FlushTimes, FlushBytes, PrepareTimes hist.Snapshot

	// Of messages that the page cache did not have: what was read past it.
	ColdReads    int64 // pieces of the log
	ColdBytes    int64 // of them
	ColdAhead    int64 // of the pieces, those read before anybody asked
	ColdBuffered int64 // of the pieces, those read through the page cache after all: the file system has no O_DIRECT
	ColdFailed   int64 // of the pieces, those that could not be read
	ColdFound    int64 // times that bytes were wanted which had been read already
	ColdWaits    int64 // times that somebody waited for room
	ColdCopied   int64 // bytes that were copied because too many pieces were on their way to sockets
	ColdHeld     int64 // bytes of memory in use now

	// Of retention, see Retain. The disk is as it was last seen.
	MinOffset         int64 // first physical offset of the log
	LogBytes          int64 // length of the log's files
	SegmentsRemoved   int64
	SegmentsForced    int64 // of those, before their age because the disk was full
	QueueFilesRemoved int64
	DiskUsedBytes     int64 // of the fuller disk
	DiskFreeBytes     int64
	DiskUsedPercent   int64
	OldestAgeMs       int64 // of the oldest message, 0 if there is none
	Refusing          int64 // 1 while no message is taken, see Store.Refusing
}

// counters are added to and read by any goroutine.
type counters struct {
	appended, appendedBytes, clockBehindMs atomic.Int64
}

// clockBehind notes how far the clock is behind the last store time. The append lock is held.
func (c *counters) clockBehind(ms int64) {
	if ms > c.clockBehindMs.Load() {
		c.clockBehindMs.Store(ms)
	}
}

// Appended is how many records were appended since Open. Any goroutine may call it.
func (s *Store) Appended() int64 { return s.counters.appended.Load() }

// Stats returns the counters. Any goroutine may call it.
func (s *Store) Stats() Stats {
	l, k, c := s.log.Stats(), &s.retention, s.cold.Stats()
	first := s.log.Min()
	var age, refusing, byRing, byCall, failed, ring int64
	if byCall = l.Completed; l.Engine == vfs.RingEngine {
		byRing, byCall, ring = byCall, 0, 1
	}
	if ms := k.oldestMs.Load(); ms > 0 {
		age = max(s.o.Now().UnixMilli()-ms, 0)
	}
	if s.Refusing() != nil {
		refusing = 1
	}
	if s.Err() != nil {
		failed = 1
	}
	return Stats{
		Appended:      s.counters.appended.Load(),
		AppendedBytes: s.counters.appendedBytes.Load(),
		Busy:          l.Busy,
		Writes:        l.Writes,
		Flushes:       l.Flushes,
		FlushedInline: l.Inline,
		FlushedByRing: byRing,
		FlushedByCall: byCall,
		Segments:      l.Segments,
		Recycled:      l.Recycled,
		MappedBytes:   l.Mapped,
		StagedBytes:   l.Staged,
		StagingBytes:  int64(s.o.StagingBytes),
		WaitingBytes:  s.keeper.Waiting(),
		ClockBackMs:   s.counters.clockBehindMs.Load(),
		Indexed:       s.index.Position(),
		Checkpoint:    s.keeper.Checkpointed(),
		Failed:        failed,
		Ring:          ring,
		Recovered:     s.found,

		StagedTimes: l.StagedTimes, WriteTimes: l.WriteTimes, FlushTimes: l.FlushTimes, FlushBytes: l.FlushBytes, PrepareTimes: l.PrepareTimes,

		ColdReads: c.Reads, ColdBytes: c.Bytes, ColdAhead: c.Ahead, ColdBuffered: c.Buffered, ColdFailed: c.Failed,
		ColdFound: c.Found, ColdWaits: c.Waits, ColdCopied: c.Copied, ColdHeld: c.Held,

		MinOffset:         first,
		LogBytes:          max(s.log.End()-first, 0),
		SegmentsRemoved:   k.segments.Load(),
		SegmentsForced:    k.segmentsForced.Load(),
		QueueFilesRemoved: k.files.Load(),
		DiskUsedBytes:     k.used.Load(),
		DiskFreeBytes:     k.free.Load(),
		DiskUsedPercent:   k.percent.Load(),
		OldestAgeMs:       age,
		Refusing:          refusing,
	}
}
