// Package delay delivers messages that were sent with a delay level.
//
// Such a message is stored in a queue of SCHEDULE_TOPIC_XXXX, one for each level, with its own topic and queue
// as properties; the queue's entry holds the time at which it is due (stock broker 5.5.0). All messages of a
// level wait equally long, so that the first in its queue is the first that is due:
//
//	level 1: |done ..... | on the way ... | next: due?  .  .  .  . |
//	              |              |             `-- its entry is looked at when its time has come
//	              |              `-- appended to their own topics, not durable yet
//	              `-- delayOffset.json: delivered and durable
//
// One goroutine (schedule.go) copies what is due to its own topic (deliver.go) in batches, of which two may be
// on their way to the disk: a flood of due messages does not fill the log's staging, and makes no flush larger than by
// these. While others write to the log a flood is spread, and one small batch is on its way (pace.go). What is pending takes no memory; table.go keeps how far each level is.
//
// Times are those of the machine's clock; level.go tells what happens when it is set.
package delay

import (
	"context"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"ringmq/node/topic"
	"ringmq/store"
)

// Clock tells and waits for time.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f once after d, on any goroutine, unless stop was called in time. It counts the time that
	// goes by, also when the clock is set meanwhile.
	AfterFunc(d time.Duration, f func()) (stop func())
}

// Options is what a Schedule is made of; all are needed.
type Options struct {
	Store  *store.Store
	Table  *Table
	Levels store.Levels // how long each level waits
	Clock  Clock
	Log    *slog.Logger
}

const (
	// maxFlying batches are on their way to the disk: one is flushed while the next one is made. Beside others it is one.
	maxFlying = 2

	// A batch is a flush of moderate size: other senders wait for it at most as long as for their own.
	batchBytes = 256 << 10
	batchCount = 256

	// lookEvery bounds how late it is noticed that the machine's clock was set forward.
	lookEvery = time.Second

	// The log has no room: right now, or for longer.
	busyWait = 5 * time.Millisecond
	failWait = 100 * time.Millisecond
)

// Schedule delivers the messages of all levels.
type Schedule struct {
	// Set by New, constant afterwards.
	opts Options
	bell chan struct{} // one place: a pass is wanted

	// wants is the end of the log that Advance rings for; stored by Run's goroutine, loaded by any.
	wants atomic.Int64

	delivered, dropped, lateMs atomic.Int64

	// Run's goroutine only.
	levels  []*level
	turn    int // the level that is served next
	pace    pacer
	flying  []int64 // ends of batches that are not visible yet
	failing bool    // the last append was refused
	entries []store.Entry
	buf     []byte
	puts    []store.Put
	ends    []int64 // by put: the queue offset after its message
	name    string  // of the topic of the last put
}

// New returns a Schedule that goes on where the table says. An offset outside of its queue is moved to the
// queue's nearer end, so that a wrong one stops no level.
func New(o Options) *Schedule {
	s := &Schedule{opts: o, bell: make(chan struct{}, 1)}
	s.wants.Store(math.MaxInt64)
	count := len(o.Levels)
	o.Store.Queues(func(q *store.Queue) {
		if q.Topic() == topic.Schedule { // a level that is configured no more still has its messages
			count = max(count, int(q.ID())+1)
		}
	})
	for n := 1; n <= count; n++ {
		l := &level{n: n}
		if n <= len(o.Levels) {
			l.delay = o.Levels[n-1]
		}
		s.levels = append(s.levels, l)
		s.begin(l)
	}
	return s
}

// begin puts a level where it goes on.
func (s *Schedule) begin(l *level) {
	q := s.queue(l)
	if q == nil {
		if at := s.opts.Table.get(l.n); at != 0 {
			s.opts.Log.Warn("delay: there is no queue for an offset", "level", l.n, "was", at, "is", 0)
			s.opts.Table.set(l.n, 0)
		}
		return
	}
	at := s.opts.Table.get(l.n)
	next := min(max(at, q.Min()), q.Max())
	l.next.Store(next)
	if at < 0 || at > q.Max() {
		s.opts.Log.Warn("delay: an offset was outside of its queue", "level", l.n, "was", at, "is", next)
	}
	s.opts.Table.set(l.n, next)
}

// queue returns the queue of a level, nil before its first message.
func (s *Schedule) queue(l *level) *store.Queue {
	return s.opts.Store.Queue(topic.Schedule, int32(l.n-1))
}

// Run delivers until ctx ends.
func (s *Schedule) Run(ctx context.Context) {
	for {
		began := s.opts.Clock.Now()
		rest := s.pass()
		stop := s.opts.Clock.AfterFunc(rest, s.ring)
		if s.opts.Clock.Now().Sub(began) >= rest {
			s.ring() // it took so long that the timer comes late
		}
		select {
		case <-s.bell:
		case <-ctx.Done():
			stop()
			for _, l := range s.levels {
				l.release()
			}
			return
		}
		stop()
	}
}

func (s *Schedule) ring() {
	select {
	case s.bell <- struct{}{}:
	default:
	}
}

// Advance is told the store's marks when they move. It does not block. Any goroutine may call it.
func (s *Schedule) Advance(m store.Marks) {
	if m.Visible >= s.wants.Load() {
		s.ring()
	}
}

// pass delivers what is due, the levels in turn, and returns for how long there is nothing to do unless the
// bell rings.
func (s *Schedule) pass() time.Duration {
	idle, rest := 0, lookEvery
	for {
		if wait := s.room(); wait > 0 {
			return wait
		}
		l := s.levels[s.turn%len(s.levels)]
		s.turn++
		delivered, wait := s.serve(l)
		if delivered {
			idle, rest = 0, lookEvery
			continue
		}
		rest = min(rest, wait)
		if idle++; idle == len(s.levels) {
			return rest
		}
	}
}

// room is for how long no other batch may be on its way, 0 if one may. The bell rings earlier if it may earlier.
func (s *Schedule) room() time.Duration {
	for {
		now := s.opts.Clock.Now()
		m := s.opts.Store.Marks()
		s.opts.Table.settle(m.Durable)
		n := 0
		for n < len(s.flying) && s.flying[n] <= m.Visible {
			n++
		}
		s.flying = s.flying[:copy(s.flying, s.flying[n:])]
		most := maxFlying
		if s.pace.look(s.opts.Store.Appended(), now); s.pace.beside(now) {
			most = 1
		}
		if len(s.flying) < most {
			s.wants.Store(math.MaxInt64)
			if most == 1 {
				return max(paceLeast-s.pace.have(now), 0)
			}
			return 0
		}
		s.wants.Store(s.flying[0])
		if s.opts.Store.Marks().Visible < s.flying[0] {
			return lookEvery // it moves after wants was stored: Advance sees it
		}
	}
}

// serve delivers one batch of a level if one is due. Without, it returns for how long there is none.
func (s *Schedule) serve(l *level) (delivered bool, wait time.Duration) {
	q := s.queue(l)
	if q == nil {
		return false, l.idle()
	}
	next := l.next.Load()
	if first := q.Min(); next < first {
		s.opts.Log.Error("delay: messages were removed from the log before they were due", "level", l.n, "count", first-next)
		s.dropped.Add(first - next)
		s.opts.Table.deliver(l.n, first, 0)
		l.goOn(first)
		next = first
	}
	if next >= q.Max() {
		return false, l.idle()
	}
	now := s.opts.Clock.Now()
	if l.known {
		if due, wait := s.due(l, q, now); !due {
			return false, wait
		}
	}
	var err error
	most := batchCount
	if s.pace.beside(now) {
		most = min(most, s.pace.most(now))
	}
	s.entries, err = s.opts.Store.Entries(s.entries[:0], q, next, most)
	if err != nil || len(s.entries) == 0 {
		s.trouble(err)
		return false, failWait
	}
	l.known, l.head = true, s.entries[0].Tags
	if due, wait := s.due(l, q, now); !due {
		return false, wait
	}
	return s.deliver(l, s.entries[:l.dueCount(s.entries, now)], now)
}

// trouble logs that nothing can be delivered for now, once until it can.
func (s *Schedule) trouble(err error) {
	if err != nil && !s.failing {
		s.opts.Log.Error("delay: delayed messages wait, they cannot be delivered right now", "error", err)
	}
	s.failing = s.failing || err != nil
}

// Stats tell what a Schedule does.
type Stats struct {
	Delivered int64 // messages, since the start
	Dropped   int64 // messages that could not be delivered, ever: each has a line in the log
	Pending   int64 // messages that wait now
	LateMs    int64 // by how much the last batch was late when it was begun
}

// Stats returns the counters. Any goroutine may call it.
func (s *Schedule) Stats() Stats {
	st := Stats{Delivered: s.delivered.Load(), Dropped: s.dropped.Load(), LateMs: s.lateMs.Load()}
	for _, l := range s.levels {
		if q := s.queue(l); q != nil {
			st.Pending += max(q.Max()-max(l.next.Load(), q.Min()), 0)
		}
	}
	return st
}
