package pull

import (
	"container/heap"
	"sync"
	"time"

	"ringmq/store"
)

// Loop runs functions on the goroutine that owns some connections. *netio.Loop fits.
type Loop interface {
	// Execute runs fn on the loop, later. Any goroutine may call it; it does not block.
	Execute(fn func())
}

// Clock tells and waits for time.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f once after d, on any goroutine, unless stop was called in time.
	AfterFunc(d time.Duration, f func()) (stop func())
}

// Source is where a Holder looks for messages. *store.Store fits.
type Source interface {
	Get(q *store.Queue, g store.Get, out *store.Got) error
}

// Holder keeps the polls of one loop. All methods run on that loop.
type Holder struct {
	// Set by NewHolder, constant afterwards.
	loop     Loop
	clock    Clock
	source   Source
	arrivals *Arrivals

	// The loop only.
	queues  map[*store.Queue][]*Poll
	due     deadlines
	stop    func()    // of the timer that runs, if any
	timerAt time.Time // when it rings
	got     store.Got
	batch   []*Poll // those being answered
	budget  int     // entries at which this task may still look
	first   int     // where the next round over a queue's polls begins, so that none is always the last
	bytes   int64   // of the polls that wait

	// mu guards what follows; leaf lock, taken by the store's writer.
	mu     sync.Mutex
	news   []*store.Queue
	posted bool // a task that takes the news is on its way
}

// NewHolder returns an empty Holder of loop.
func NewHolder(loop Loop, clock Clock, source Source, arrivals *Arrivals) *Holder {
	return &Holder{loop: loop, clock: clock, source: source, arrivals: arrivals, queues: make(map[*store.Queue][]*Poll)}
}

// Len returns how many polls wait.
func (h *Holder) Len() int { return len(h.due) }

// Bytes returns the sum of Poll.Bytes of the polls that wait.
func (h *Holder) Bytes() int64 { return h.bytes }

// Hold keeps p for o until a message matches or its deadline is there. A message that came between
// the pull's look at the queue and this call is found here, and p is answered before Hold returns.
func (h *Holder) Hold(o *Owner, p *Poll) {
	o.add(p)
	polls := h.queues[p.Queue]
	p.inQueue = len(polls)
	h.queues[p.Queue] = append(polls, p)
	heap.Push(&h.due, p)
	h.bytes += p.Bytes
	h.setTimer()
	h.arrivals.ask(p.Queue, h)
	h.arrivals.held.Add(1) // last: whoever sees it knows that the deadline is set
	h.budget = lookedPerTask
	switch match, more := h.look(p); {
	case match:
		h.arrivals.raced.Add(1)
		h.forget(p)
		p.Answer(p)
	case more:
		h.tell(p.Queue)
	}
}

// Drop ends all polls of o without an answer: their connection is gone.
func (h *Holder) Drop(o *Owner) {
	for len(o.polls) > 0 {
		h.forget(o.polls[len(o.polls)-1])
	}
}

// forget takes p out of every list.
func (h *Holder) forget(p *Poll) {
	p.owner.remove(p)
	heap.Remove(&h.due, p.inHeap)
	h.arrivals.held.Add(-1)
	h.bytes -= p.Bytes
	polls := h.queues[p.Queue]
	last := len(polls) - 1
	polls[p.inQueue] = polls[last]
	polls[p.inQueue].inQueue = p.inQueue
	polls[last] = nil
	if last == 0 {
		delete(h.queues, p.Queue)
		return
	}
	h.queues[p.Queue] = polls[:last]
}

// tell notes that q has news. Any goroutine; one task takes all news that gathered.
func (h *Holder) tell(q *store.Queue) {
	h.mu.Lock()
	h.news = append(h.news, q)
	post := !h.posted
	h.posted = true
	h.mu.Unlock()
	if post {
		h.loop.Execute(h.takeNews)
	}
}

func (h *Holder) takeNews() {
	h.mu.Lock()
	news := h.news
	h.news, h.posted = nil, false
	h.mu.Unlock()
	h.budget = lookedPerTask
	for _, q := range news {
		h.wake(q)
	}
}

// lookedPerTask bounds at how many entries a Holder looks in one task of its loop: about two milliseconds where the
// messages themselves must be looked at.
const lookedPerTask = 2000

// wake answers the polls on q that have a match. While some stay, the next arrival is asked for, and then they look once
// more: see Arrivals.ask. Where there is too much to look at, the rest is done later, as if it were news.
func (h *Holder) wake(q *store.Queue) {
	more := h.answerMatching(q)
	if !more && len(h.queues[q]) > 0 {
		h.arrivals.ask(q, h)
		more = h.answerMatching(q)
	}
	if more {
		h.tell(q)
	}
}

// answerMatching first takes the polls out and then answers them, because an answer may hold its
// connection's next poll at once. more: some have not looked at all entries.
func (h *Holder) answerMatching(q *store.Queue) (more bool) {
	polls := h.queues[q]
	for i := range polls {
		at := (h.first + i) % len(polls)
		match, unfinished := h.look(polls[at])
		if match {
			h.batch = append(h.batch, polls[at])
		}
		if unfinished {
			h.first, more = at, true
			break
		}
	}
	h.answerBatch()
	return more
}

func (h *Holder) answerBatch() {
	batch := h.batch
	h.batch = nil
	for _, p := range batch {
		h.forget(p)
	}
	for _, p := range batch {
		p.Answer(p)
	}
	clear(batch)
	h.batch = batch[:0]
}

// look reports whether a pull at p.Offset has something to say (match): a message, or an error. It moves p.Offset over
// what does not match, so that no entry is looked at twice. more: it stopped because the budget of entries is used up.
func (h *Holder) look(p *Poll) (match, more bool) {
	for p.Queue.Max() != p.Offset {
		if p.Match == nil && p.MatchProps == nil {
			return p.Queue.Max() > p.Offset, false
		}
		if h.budget <= 0 {
			return false, true
		}
		g := store.Get{Offset: p.Offset, MaxCount: 1, MaxBytes: 1, Match: p.Match, MatchProps: p.MatchProps, Access: store.NoWait}
		if err := h.source.Get(p.Queue, g, &h.got); err != nil {
			return true, false // the pull's second look answers with it, or waits for the disk elsewhere
		}
		h.budget -= 1 + int(max(0, h.got.Next-p.Offset))
		switch h.got.Status {
		case store.NoMatchedMessage:
			p.Offset = h.got.Next
		case store.OffsetOverflowOne, store.OffsetOverflowBadly, store.OffsetFoundNull,
			store.NoMessageInQueue, store.NoMatchedLogicQueue:
			return false, false
		default:
			return true, false
		}
	}
	return false, false
}

// setTimer makes the timer ring at the earliest deadline.
func (h *Holder) setTimer() {
	if len(h.due) == 0 {
		return
	}
	at := h.due[0].Deadline
	if h.stop != nil {
		if !at.Before(h.timerAt) {
			return // it rings early enough; ringing early only sets it again
		}
		h.stop()
	}
	h.timerAt = at
	h.stop = h.clock.AfterFunc(at.Sub(h.clock.Now()), func() { h.loop.Execute(h.expire) })
}

// expire answers the polls whose time is over. A timer that was stopped too late brings one extra
// call, which finds nothing due.
func (h *Holder) expire() {
	now := h.clock.Now()
	if h.stop != nil {
		h.stop()
		h.stop = nil
	}
	for len(h.due) > 0 && !h.due[0].Deadline.After(now) {
		p := h.due[0]
		h.forget(p)
		p.Answer(p)
	}
	h.setTimer()
}
