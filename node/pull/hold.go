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
	if h.hasMatch(p) {
		h.forget(p)
		p.Answer(p)
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
	for _, q := range news {
		h.wake(q)
	}
}

// wake answers the polls on q that have a match. While some stay, the next arrival is asked for,
// and then they look once more: see Arrivals.ask.
func (h *Holder) wake(q *store.Queue) {
	h.answerMatching(q)
	if len(h.queues[q]) > 0 {
		h.arrivals.ask(q, h)
		h.answerMatching(q)
	}
}

// answerMatching first takes the polls out and then answers them, because an answer may hold its
// connection's next poll at once.
func (h *Holder) answerMatching(q *store.Queue) {
	for _, p := range h.queues[q] {
		if h.hasMatch(p) {
			h.batch = append(h.batch, p)
		}
	}
	h.answerBatch()
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

// hasMatch reports whether a pull at p.Offset has something to say: a message, or an error. It
// moves p.Offset over what does not match, so that no entry is looked at twice.
func (h *Holder) hasMatch(p *Poll) bool {
	for p.Queue.Max() != p.Offset {
		if p.Match == nil {
			return p.Queue.Max() > p.Offset
		}
		g := store.Get{Offset: p.Offset, MaxCount: 1, MaxBytes: 1, Match: p.Match}
		if err := h.source.Get(p.Queue, g, &h.got); err != nil {
			return true // the pull's second look answers with it
		}
		switch h.got.Status {
		case store.NoMatchedMessage:
			p.Offset = h.got.Next
		case store.OffsetOverflowOne, store.OffsetOverflowBadly, store.OffsetFoundNull,
			store.NoMessageInQueue, store.NoMatchedLogicQueue:
			return false
		default:
			return true
		}
	}
	return false
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
