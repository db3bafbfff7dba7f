package pull_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"ringmq/node/pull"
	"ringmq/store"
	"ringmq/store/record"
	"ringmq/store/vfs/memfs"
)

// loop is a pull.Loop whose functions run when the test says so, or on a goroutine of their own.
type loop struct {
	mu    sync.Mutex
	tasks []func()
	bell  chan struct{}
}

func newLoop() *loop { return &loop{bell: make(chan struct{}, 1)} }

func (l *loop) Execute(fn func()) {
	l.mu.Lock()
	l.tasks = append(l.tasks, fn)
	l.mu.Unlock()
	select {
	case l.bell <- struct{}{}:
	default:
	}
}

// run runs what is there and reports whether there was anything.
func (l *loop) run() bool {
	l.mu.Lock()
	tasks := l.tasks
	l.tasks = nil
	l.mu.Unlock()
	for _, fn := range tasks {
		fn()
	}
	return len(tasks) > 0
}

// clock is a pull.Clock with one timer at most, which is all that a Holder needs.
type clock struct {
	now  time.Time
	at   time.Time
	ring func()
}

func (c *clock) Now() time.Time { return c.now }

func (c *clock) AfterFunc(d time.Duration, f func()) func() {
	if c.ring != nil {
		panic("two timers at once")
	}
	c.at, c.ring = c.now.Add(d), f
	return func() { c.ring = nil }
}

// advance moves the clock, and rings if it is time.
func (c *clock) advance(d time.Duration) {
	c.now = c.now.Add(d)
	if ring := c.ring; ring != nil && !c.at.After(c.now) {
		c.ring = nil
		ring()
	}
}

// world is a store with one topic, and a Holder on it.
type world struct {
	t        testing.TB
	store    *store.Store
	arrivals *pull.Arrivals
	loop     *loop
	clock    *clock
	holder   *pull.Holder
	answered []string
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, arrivals: pull.NewArrivals(), loop: newLoop(), clock: &clock{now: time.UnixMilli(0)}}
	var err error
	w.store, err = store.Open(memfs.New(1), store.Options{
		Dir: "/data", SegmentBytes: 1 << 20, QueueFileBytes: 6000, FlushSync: true, OnArrive: w.arrivals.Arrived,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
	})
	w.holder = pull.NewHolder(w.loop, w.clock, w.store, w.arrivals)
	return w
}

func (w *world) queue(id int32) *store.Queue { return w.store.OpenQueue("T", id) }

// put stores a message with a tag and waits until it is visible.
func (w *world) put(id int32, tag string) {
	w.t.Helper()
	q := w.queue(id)
	m := record.Message{Topic: "T", QueueID: id, Body: []byte("x"), BodyCRC: record.BodyCRC([]byte("x")), Store: netip.MustParseAddrPort("127.0.0.1:1")}
	if tag != "" {
		m.Props = record.AppendProp(nil, "TAGS", tag)
	}
	n, err := w.store.RecordBytes(&m)
	if err == nil {
		err = w.store.Reserve(n)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	puts := []store.Put{{Message: m, Queue: q, Bytes: n}}
	w.store.Append(puts)
	if puts[0].Err != nil {
		w.t.Fatal(puts[0].Err)
	}
	for q.Max() <= puts[0].QueueOffset {
		runtime.Gosched()
	}
}

// hold holds a pull that notes its name when it is answered.
func (w *world) hold(o *pull.Owner, name string, id int32, from int64, tag string, wait time.Duration) *pull.Poll {
	p := &pull.Poll{
		Queue: w.queue(id), Offset: from, Deadline: w.clock.now.Add(wait),
		Answer: func(*pull.Poll) { w.answered = append(w.answered, name) },
	}
	if tag != "" {
		p.Match = func(code int64) bool { return code == record.TagsCode([]byte(tag)) }
	}
	w.holder.Hold(o, p)
	return p
}

// want compares who was answered since the last look, in any order.
func (w *world) want(names ...string) {
	w.t.Helper()
	for w.loop.run() {
	}
	got := w.answered
	w.answered = nil
	slices.Sort(got)
	if !slices.Equal(got, names) {
		w.t.Fatalf("answered %q, want %q", got, names)
	}
}

// awaitNews waits until the writer has told the loop of an arrival.
func (w *world) awaitNews() { <-w.loop.bell }

// TestWake: only the polls of the queue that match are answered, and the others stay.
func TestWake(t *testing.T) {
	w := newWorld(t)
	var o pull.Owner
	w.hold(&o, "all", 0, 0, "", time.Minute)
	w.hold(&o, "a", 0, 0, "a", time.Minute)
	b := w.hold(&o, "b", 0, 0, "b", time.Minute)
	w.hold(&o, "other queue", 1, 0, "", time.Minute)
	w.want()
	w.put(0, "a")
	w.awaitNews()
	w.want("a", "all")
	if b.Offset != 1 {
		t.Errorf("the poll that waits looks at %d next, want 1", b.Offset)
	}
	w.put(0, "a")
	w.awaitNews()
	w.want()
	w.put(0, "b")
	w.awaitNews()
	w.want("b")
	if b.Offset != 2 || o.Len() != 1 || w.holder.Len() != 1 || w.arrivals.Held() != 1 {
		t.Errorf("offset %d; %d, %d and %d polls are left, want one", b.Offset, o.Len(), w.holder.Len(), w.arrivals.Held())
	}
}

// TestWakeByProperties: a poll that looks at the messages themselves is answered by one that matches, and only then.
func TestWakeByProperties(t *testing.T) {
	w := newWorld(t)
	var o pull.Owner
	looks := 0
	p := &pull.Poll{
		Queue: w.queue(0), Deadline: w.clock.now.Add(time.Minute),
		MatchProps: func(props []byte) bool {
			looks++
			tag, _ := record.Prop(props, "TAGS")
			return string(tag) == "b"
		},
		Answer: func(*pull.Poll) { w.answered = append(w.answered, "b") },
	}
	w.holder.Hold(&o, p)
	for range 3 {
		w.put(0, "a")
		w.awaitNews()
		w.want()
	}
	w.put(0, "b")
	w.awaitNews()
	w.want("b")
	if looks != 4 || p.Offset != 3 {
		t.Errorf("%d looks at 4 messages, next at %d", looks, p.Offset)
	}
}

// TestLongWayIsSliced: polls that have many entries before them do not hold the loop; each moves on from task to task, and
// finds what is at the end.
func TestLongWayIsSliced(t *testing.T) {
	const entries, polls = 3000, 5
	w := newWorld(t)
	for range entries {
		w.put(0, "a")
	}
	w.put(0, "b")
	var o pull.Owner
	all := make([]*pull.Poll, polls)
	for i := range all {
		all[i] = w.hold(&o, "b", 0, 0, "b", time.Minute)
	}
	moved := func() (sum int64) {
		for _, p := range all {
			sum += p.Offset
		}
		return sum
	}
	const slice = 2000 + 800 // a Get that begins within the budget ends with its slice
	if far := moved(); far > polls*slice {
		t.Fatalf("holding them looked at %d entries", far)
	}
	tasks := 0
	for before := moved(); w.loop.run(); before = moved() {
		tasks++
		if far := moved() - before; far > slice {
			t.Fatalf("one task looked at %d entries, want %d at most", far, slice)
		}
	}
	if tasks < 2 {
		t.Errorf("%d tasks", tasks)
	}
	w.want("b", "b", "b", "b", "b")
}

// TestNobodyStarves: where looking at all polls takes several tasks, and messages keep coming, each poll gets its turn.
func TestNobodyStarves(t *testing.T) {
	const polls = 3000
	w := newWorld(t)
	var o pull.Owner
	all := make([]*pull.Poll, polls)
	for i := range all {
		all[i] = w.hold(&o, "never", 0, 0, "never", time.Minute)
	}
	for i := range int64(10) {
		w.put(0, "a") // one task at a time between two messages
		if i == 0 {
			w.awaitNews()
		}
		w.loop.run()
	}
	for i, p := range all {
		if p.Offset == 0 {
			t.Fatalf("poll %d has looked at nothing", i)
		}
	}
}

// TestMessageBeforeHold: between a pull's look and its hold a message may come; it is found.
func TestMessageBeforeHold(t *testing.T) {
	w := newWorld(t)
	var o pull.Owner
	w.put(0, "b")
	w.hold(&o, "b", 0, 0, "a", time.Minute)
	w.want()
	if n := w.arrivals.Raced(); n != 0 {
		t.Errorf("%d pulls raced with their message, and none did", n)
	}
	w.hold(&o, "late", 0, 0, "", time.Minute)
	w.want("late")
	if n := w.arrivals.Raced(); n != 1 {
		t.Errorf("%d pulls raced with their message, want 1", n)
	}
}

// TestDeadlines: polls end exactly at their time, whatever the order in which they came.
func TestDeadlines(t *testing.T) {
	w := newWorld(t)
	var o pull.Owner
	for _, seconds := range rand.New(rand.NewPCG(1, 2)).Perm(20) {
		w.hold(&o, fmt.Sprintf("%02d", seconds+1), int32(seconds%3), 0, "", time.Duration(seconds+1)*time.Second)
	}
	for second := 1; second <= 20; second++ {
		w.clock.advance(time.Second - time.Millisecond)
		w.want()
		w.clock.advance(time.Millisecond)
		w.want(fmt.Sprintf("%02d", second))
	}
	if w.holder.Len() != 0 || w.clock.ring != nil {
		t.Errorf("%d polls are left", w.holder.Len())
	}
}

// TestDrop: the polls of a connection that is gone are not answered, those of others are.
func TestDrop(t *testing.T) {
	w := newWorld(t)
	var gone, stays pull.Owner
	for id := range int32(4) {
		w.hold(&gone, "gone", id, 0, "", time.Second)
		w.hold(&stays, "stays", id, 0, "", 2*time.Second)
	}
	w.holder.Drop(&gone)
	w.put(2, "")
	w.awaitNews()
	w.want("stays")
	w.clock.advance(time.Second)
	w.want()
	w.clock.advance(time.Second)
	w.want("stays", "stays", "stays")
}

// TestAnswerHoldsAgain: a client answers with its next pull at once.
func TestAnswerHoldsAgain(t *testing.T) {
	w := newWorld(t)
	var o pull.Owner
	var next func(from int64)
	next = func(from int64) {
		w.holder.Hold(&o, &pull.Poll{Queue: w.queue(0), Offset: from, Deadline: w.clock.now.Add(time.Hour), Answer: func(p *pull.Poll) {
			w.answered = append(w.answered, fmt.Sprint(p.Offset))
			next(p.Offset + 1)
		}})
	}
	next(0)
	for i := range 5 {
		w.put(0, "")
		w.awaitNews()
		w.want(fmt.Sprint(i))
	}
}

// TestNoLostWakeUp lets a producer race with a consumer that holds a pull for each message: if one
// arrival got lost, the consumer would wait for ever.
func TestNoLostWakeUp(t *testing.T) {
	const messages = 2000
	w := newWorld(t)
	var producer sync.WaitGroup
	producer.Go(func() {
		for range messages {
			w.put(0, "")
		}
	})
	var o pull.Owner
	for at := range int64(messages) {
		done := false
		w.holder.Hold(&o, &pull.Poll{Queue: w.queue(0), Offset: at, Deadline: w.clock.now.Add(time.Hour), Answer: func(*pull.Poll) { done = true }})
		for !done {
			if !w.loop.run() {
				w.awaitNews()
			}
		}
	}
	producer.Wait()
}
