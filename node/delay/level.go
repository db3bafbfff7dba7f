package delay

import (
	"sync/atomic"
	"time"

	"ringmq/store"
)

// level is one delay level. Run's goroutine only, but for next.
//
// A message is due when the machine's clock is past the time in its entry: its store time and the delay. If the
// clock is set forward, messages are due earlier by as much. If it is set back they would be due later by as
// much, and so would those that are sent next, because store times do not go back. Such messages are known by
// being due in more than their whole delay, which nothing else explains but a level that became shorter. They
// are held for their delay and then delivered, whatever the clock says: never early, and late by what the
// clock was set back or by their delay, whichever is less.
type level struct {
	n     int           // from 1 on
	delay time.Duration // 0 if the level is configured no more

	next  atomic.Int64 // queue offset of the next message to be delivered; loaded by any goroutine
	known bool         // head is that of next
	head  int64        // when the next message is due, in ms

	held hold
}

// hold says that the messages below a queue offset are due when it is over.
type hold struct {
	below int64
	over  *atomic.Bool
	stop  func()
}

// idle is for how long a level without a message has none that is due.
func (l *level) idle() time.Duration {
	if l.delay == 0 {
		return lookEvery
	}
	return min(l.delay, lookEvery)
}

// goOn makes the message at a queue offset the next one.
func (l *level) goOn(next int64) {
	l.next.Store(next)
	l.known = false
}

// after is the first moment that is past a time in whole ms: times of messages are cut to these.
func after(ms int64) time.Time { return time.UnixMilli(ms + 1) }

// isDue reports whether the message at a queue offset, which says that it is due at a time in ms, is.
func (l *level) isDue(at, ms int64, now time.Time) bool {
	return !now.Before(after(ms)) || at < l.held.below && l.held.over.Load()
}

// due reports whether the next message of a level is due; if not, for how long.
func (s *Schedule) due(l *level, q *store.Queue, now time.Time) (due bool, wait time.Duration) {
	if l.isDue(l.next.Load(), l.head, now) {
		return true, 0
	}
	wait = after(l.head).Sub(now)
	if l.delay > 0 && wait > l.delay+time.Millisecond && l.next.Load() >= l.held.below {
		l.release()
		over := new(atomic.Bool)
		l.held = hold{below: q.Max(), over: over}
		l.held.stop = s.opts.Clock.AfterFunc(l.delay, func() {
			over.Store(true)
			s.ring()
		})
		s.opts.Log.Warn("delay: messages are due in more than their delay, was the clock set back? They are held for their delay from now on",
			"level", l.n, "delay", l.delay, "due_in", wait, "messages", l.held.below-l.next.Load())
	}
	return false, min(wait, lookEvery)
}

// release ends the hold of a level.
func (l *level) release() {
	if l.held.stop != nil {
		l.held.stop()
	}
	l.held = hold{}
}

// dueCount is how many of the entries from the next on are due, one after the other.
func (l *level) dueCount(entries []store.Entry, now time.Time) int {
	n := 0
	for n < len(entries) && l.isDue(l.next.Load()+int64(n), entries[n].Tags, now) {
		n++
	}
	return n
}
