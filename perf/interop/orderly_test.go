package interop

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// takeoverPatience is how long the queues of a consumer may stay with it: the Go client does not give back what it
// loses to a new member, so that its locks live for their minute, and asks for new ones every 20 s.
const takeoverPatience = patience + 80*time.Second

// orderBook looks at the messages of one topic as orderly consumers handle them: those of a queue one at a time, each
// after the one before. Whoever takes a queue over may begin again with what the other had not committed.
// Any goroutine may use it.
type orderBook struct {
	// mu guards what follows.
	mu     sync.Mutex
	queues map[int]*orderedQueue
	dead   map[*member]bool
	again  int // messages that were handled again
	faults []string
}

// orderedQueue is one queue and who is at it.
type orderedQueue struct {
	by   *member // nil: nobody handles a message right now
	at   int64   // the message that by handles
	next int64   // nobody has handled this one
}

func newOrderBook() *orderBook {
	return &orderBook{queues: map[int]*orderedQueue{}, dead: map[*member]bool{}}
}

// handle puts a message on record while do runs. Messages of the dead do not count: what a process is doing when it is
// killed ends with it.
func (b *orderBook) handle(m *member, g got, do func()) {
	if b.begin(m, g) {
		do()
		b.end(m, g)
	}
}

func (b *orderBook) begin(m *member, g got) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dead[m] {
		return false
	}
	q := b.queues[g.Queue]
	if q == nil {
		q = &orderedQueue{}
		b.queues[g.Queue] = q
	}
	switch {
	case q.by != nil:
		b.faults = append(b.faults, fmt.Sprintf("queue %d: %s begins with %d while %s is at %d", g.Queue, m.library, g.Offset, q.by.library, q.at))
	case g.Offset > q.next:
		b.faults = append(b.faults, fmt.Sprintf("queue %d: %s begins with %d before anybody has handled %d", g.Queue, m.library, g.Offset, q.next))
	case g.Offset < q.next:
		b.again++
	}
	q.by, q.at = m, g.Offset
	return true
}

func (b *orderBook) end(m *member, g got) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queues[g.Queue]
	q.next = max(q.next, g.Offset+1)
	if q.by == m {
		q.by = nil
	}
}

// killing must be called before a member's process is killed.
func (b *orderBook) killing(m *member) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dead[m] = true
	for _, q := range b.queues {
		if q.by == m {
			q.by = nil
		}
	}
}

func (b *orderBook) check(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.faults {
		t.Error(f)
	}
	t.Logf("%d messages were handled again", b.again)
}

// TestOrderBook: the book sees what it is there to see, and does not see it where it is not.
func TestOrderBook(t *testing.T) {
	a, b := &member{library: "a"}, &member{library: "b"}
	type step func(book *orderBook)
	begin := func(m *member, queue int, at int64) step {
		return func(book *orderBook) { book.begin(m, got{Queue: queue, Offset: at}) }
	}
	end := func(m *member, queue int, at int64) step {
		return func(book *orderBook) { book.end(m, got{Queue: queue, Offset: at}) }
	}
	whole := func(m *member, queue int, at int64) step {
		return func(book *orderBook) { book.handle(m, got{Queue: queue, Offset: at}, func() {}) }
	}
	kill := func(m *member) step { return func(book *orderBook) { book.killing(m) } }
	for name, tc := range map[string]struct {
		steps []step
		want  int
	}{
		"in order, two queues":        {[]step{whole(a, 0, 0), begin(a, 0, 1), whole(b, 1, 0), end(a, 0, 1), whole(a, 0, 2)}, 0},
		"taken over, some again":      {[]step{whole(a, 0, 0), whole(a, 0, 1), whole(b, 0, 1), whole(b, 0, 2)}, 0},
		"one is left out":             {[]step{whole(a, 0, 0), whole(a, 0, 2)}, 1},
		"left out at a takeover":      {[]step{whole(a, 0, 0), whole(b, 0, 2)}, 1},
		"two at the same time":        {[]step{whole(a, 0, 0), begin(a, 0, 1), whole(b, 0, 1)}, 1},
		"one member, two at a time":   {[]step{begin(a, 0, 0), begin(a, 0, 0)}, 1},
		"the next begins too early":   {[]step{begin(a, 0, 0), begin(b, 0, 1)}, 1},
		"killed while at it":          {[]step{begin(a, 0, 0), kill(a), whole(b, 0, 0)}, 0},
		"killed, its last words late": {[]step{kill(a), whole(b, 0, 0), begin(a, 0, 0), whole(b, 0, 1)}, 0},
	} {
		book := newOrderBook()
		for _, s := range tc.steps {
			s(book)
		}
		if len(book.faults) != tc.want {
			t.Errorf("%s: %q, want %d faults", name, book.faults, tc.want)
		}
	}
}

// TestOrderly: under load a consumer that comes gets its share of the queues, and those of one that is killed go to the
// others; however often they change hands, the messages of a queue are handled one after the other, in their order, and
// none is lost.
func TestOrderly(t *testing.T) {
	eachClient(t, func(t *testing.T, c client) {
		n := sharedNode(t)
		g := newGroup(t, n, c, 4)
		g.sub.orderly = true
		l, book := g.ledger.Load(), newOrderBook()
		b := startLoad(t, l, c.producer(t, n), g.sub.topic)
		join := func(c client) *member {
			t.Helper()
			m := &member{library: c.name()}
			m.consumer = c.consume(t, n, g.sub, func(x got) {
				book.handle(m, x, func() {
					if x.Offset%100 == 0 { // long enough for somebody who may not to take the queue
						b.pass(300)
					}
					m.handled.Add(1)
					l.handle(x)
				})
			})
			eventually(t, takeoverPatience, "work for the new "+m.library+" consumer", m.busy)
			b.more(t, 100)
			return m
		}
		jvm := needJVM(t)
		crashing := join(&javaClient{own: jvm, label: "crashing java"})
		join(c)
		book.killing(crashing)
		jvm.p.kill()
		b.more(t, 100)
		join(clients[1])
		b.finish()
		eventually(t, takeoverPatience, "all messages", l.allHandled)
		l.checkFaults(t)
		book.check(t)
		if b.failed.Load() > 0 {
			t.Errorf("%d sends failed, the last with: %v", b.failed.Load(), b.lastErr.Load())
		}
	})
}
