package store

import (
	"ringmq/store/internal/derive"
	"ringmq/store/internal/derive/queue"
)

// Marks are ends of the log: physical offsets, each the end of a record or of a segment. They only
// grow. Durable and Visible never exceed Written. (A fourth, what slaves have, will bound Visible too.)
type Marks struct {
	Written int64 // given to the kernel
	Durable int64 // on the disk
	Visible int64 // shown to readers: Durable with FlushSync, else Written
}

// Marks returns the marks. Any goroutine may call it.
func (s *Store) Marks() Marks {
	visible := s.visible.Load() // first: the others may only have grown since
	durable := s.log.Durable()
	return Marks{Written: s.log.Written(), Durable: durable, Visible: visible}
}

// entry is an appended message on its way into its queue: 48 bytes. At most (2 + FlushDepth) *
// StagingBytes are appended and not yet visible (see the log's writer), and no record is smaller than
// 92 bytes, so entries take at most about half of that again, twice while they change slices.
type entry struct {
	queue *Queue // nil if it has no place in a queue
	at    int64  // queue offset
	queue.Entry
	storeMs int64
}

// advanced runs on the log's writer goroutine when marks moved, or when there is room again. Before
// the marks are published the queues show every message below them.
func (s *Store) advanced(written, durable int64) {
	visible := written
	if s.o.FlushSync {
		visible = durable
	}
	if visible > s.visible.Load() {
		s.readable.Store(visible)
		s.dispatch(visible)
		s.visible.Store(visible)
		s.index.Dispatched()
	}
	for i, q := range s.arrived {
		s.arrived[i] = nil
		if s.o.OnArrive != nil {
			s.o.OnArrive(q)
		}
	}
	s.arrived = s.arrived[:0]
	if s.o.OnMarks != nil {
		s.o.OnMarks(Marks{Written: written, Durable: durable, Visible: visible})
	}
}

// dispatch puts all entries below visible into their queues.
func (s *Store) dispatch(visible int64) {
	s.log.Lock()
	s.taken = append(s.taken, s.pending...)
	s.pending = s.pending[:0]
	s.log.Unlock()
	n := 0
	for ; n < len(s.taken) && s.taken[n].End() <= visible; n++ {
		if e := &s.taken[n]; e.queue != nil {
			s.dispatchOne(e)
		}
	}
	s.position.Lock()
	s.position.End = visible
	if n > 0 {
		s.position.Last, s.position.StoreMs = s.taken[n-1].Offset, s.taken[n-1].storeMs
	}
	s.position.Unlock()
	s.keeper.Dispatched(visible)
	s.taken = s.taken[:copy(s.taken, s.taken[n:])]
}

func (s *Store) dispatchOne(e *entry) {
	change, err := e.queue.entries.Put(e.at, e.Entry)
	if err != nil {
		panic(err) // offsets are given in order, under one lock: our own bug
	}
	s.keeper.Note(e.queue.entries, change)
	if e.queue.watched.Load() && e.queue.watched.Swap(false) {
		s.arrived = append(s.arrived, e.queue)
	}
}

// dispatched is the position that a checkpoint may name.
func (s *Store) dispatched() derive.Position {
	s.position.Lock()
	defer s.position.Unlock()
	return s.position.Position
}
