package rigtest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"ringmq/store"
	"ringmq/store/record"
	"ringmq/store/vfs"
	"ringmq/store/vfs/osfs"
)

// job is what a child does; it comes as JSON in the environment.
type job struct {
	Dir          string
	Load         bool // append until something ends it; else only read all that is there
	Engine       osfs.IOEngine
	Deny         bool // forbid io_uring before anything else
	Async        bool // ASYNC_FLUSH
	SegmentBytes int64
	Seed         uint64
}

const (
	topic  = "T"
	queues = 4

	// stagingBytes bound what is not yet acknowledged, and so how far a child is ahead of its reports.
	stagingBytes = 256 << 10
)

func (j job) options() store.Options {
	return store.Options{
		Dir: j.Dir, SegmentBytes: j.SegmentBytes, QueueFileBytes: 20 * 500, FlushSync: !j.Async, FlushDepth: 1 + int(j.Seed%2), // two ways to flush
		StagingBytes: stagingBytes, MaxMessageBytes: stagingBytes / 2,
		QueueFlushInterval: 5 * time.Millisecond, // a checkpoint each 300 ms, so that faults meet some
	}
}

// child is the process that has the store. What it says, a line each:
//
//	log TEXT              a log line of the store
//	engine NAME           what flushes
//	refused TEXT          the store does not open
//	open END              recovery has ended, the log ends there
//	ack Q OFFSET HASH END a message was acknowledged
//	late Q OFFSET         ... although its append began after the cut
//	seen Q OFFSET HASH    the reader was shown a message
//	read COUNT            the reader has seen all that there is: of a child without load at its start, of a
//	                      loaded one in each pause and after its log has failed
//	wrong TEXT            the store broke a promise that the child can judge alone
//	unreadable TEXT       a read failed; after a cut that is no wonder
//	full TEXT             appends are refused for want of room
//	paused END            all that was appended is acknowledged; the log ends there
//	failed AT NOW         the log failed: what was visible then, and some time and refused appends later
//	closed TEXT           the store was closed, with that error
//
// What it is told is one byte each: c the power was cut, p pause, r resume, q close. At the end of its
// input it exits: the test is gone.
type child struct {
	job   job
	out   *bufio.Writer
	outMu sync.Mutex
	store *store.Store
	queue [queues]*store.Queue

	// mu guards what follows. steps counts marks that moved and ticks of a clock: no wait is without end.
	mu       sync.Mutex
	moved    *sync.Cond
	steps    uint64
	owed     []owed
	cut      bool
	pause    bool
	quit     bool
	failedAt store.Marks
}

// owed is a message that was appended and is not yet acknowledged.
type owed struct {
	queue    int32
	at, end  int64
	hash     uint64
	afterCut bool
}

func childMain(text string) int {
	c := &child{out: bufio.NewWriter(os.Stdout)}
	c.moved = sync.NewCond(&c.mu)
	if err := c.run(text); err != nil {
		c.say("wrong child: %v", err)
		return 1
	}
	return 0
}

func (c *child) run(text string) error {
	if err := json.Unmarshal([]byte(text), &c.job); err != nil {
		return err
	}
	if c.job.Deny {
		if err := denyRing(); err != nil {
			return err
		}
	}
	log := slog.New(slog.NewTextHandler(logLines{c}, nil))
	o := c.job.options()
	o.Log = log
	o.OnMarks = func(store.Marks) { c.step() }
	o.OnFail = c.onFail
	s, err := store.Open(tellEngine{osfs.New(osfs.Options{IOEngine: c.job.Engine, Log: log}), c}, o)
	if err != nil {
		c.say("refused %v", err)
		return nil
	}
	c.store = s
	for id := range c.queue {
		c.queue[id] = s.OpenQueue(topic, int32(id))
	}
	c.say("open %d", s.Marks().Written)
	go c.tick()
	go c.listen()
	if !c.job.Load {
		c.readAll()
	} else {
		go c.acknowledge()
		go c.follow()
		c.load()
	}
	return c.await(func() bool { return c.quit }, c.close)
}

// close ends the store as a node does.
func (c *child) close() error {
	text := "ok"
	if err := c.store.Close(); err != nil {
		text = err.Error()
	}
	c.say("closed %s", text)
	return nil
}

// say writes one line at once: the next moment may be the last.
func (c *child) say(format string, args ...any) {
	c.outMu.Lock()
	defer c.outMu.Unlock()
	fmt.Fprintln(c.out, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; "))
	if c.out.Flush() != nil {
		os.Exit(1)
	}
}

// logLines makes log lines of the store reports.
type logLines struct{ c *child }

func (l logLines) Write(p []byte) (int, error) {
	l.c.say("log %s", bytes.TrimSpace(p))
	return len(p), nil
}

// tellEngine reports the engine that a store got.
type tellEngine struct {
	vfs.FS
	c *child
}

func (f tellEngine) NewEngine() (vfs.Engine, error) {
	e, err := f.FS.NewEngine()
	if err == nil {
		f.c.say("engine %s", e.Name())
	}
	return e, err
}

// step ends waits, so that what they wait for is looked at again.
func (c *child) step() {
	c.mu.Lock()
	c.steps++
	c.moved.Broadcast()
	c.mu.Unlock()
}

// tick steps by the clock: room on the disk comes back without a word from the store.
func (c *child) tick() {
	for range time.Tick(10 * time.Millisecond) {
		c.step()
	}
}

// await runs then once cond holds. cond is called with mu held.
func (c *child) await(cond func() bool, then func() error) error {
	c.mu.Lock()
	for !cond() {
		c.moved.Wait()
	}
	c.mu.Unlock()
	return then()
}

// awaitSteps returns when n steps were made since since.
func (c *child) awaitSteps(since, n uint64) {
	_ = c.await(func() bool { return c.steps >= since+n }, func() error { return nil })
}

func (c *child) now() (steps uint64, cut, pause, quit bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.steps, c.cut, c.pause, c.quit
}

// listen does what the test says.
func (c *child) listen() {
	in := bufio.NewReader(os.Stdin)
	for {
		b, err := in.ReadByte()
		if err != nil {
			os.Exit(0)
		}
		c.mu.Lock()
		switch b {
		case 'c':
			c.cut = true
		case 'p':
			c.pause = true
		case 'r':
			c.pause = false
		case 'q':
			c.quit = true
		}
		c.moved.Broadcast()
		c.mu.Unlock()
	}
}

func (c *child) onFail(error) {
	at := c.store.Marks()
	c.mu.Lock()
	c.failedAt = at
	c.mu.Unlock()
	c.step()
}

// load appends until the log fails or the test has enough. Batches differ in size, and in whether the
// next one waits for their acknowledgement.
func (c *child) load() {
	rng := rand.New(rand.NewPCG(c.job.Seed, 1))
	var serial uint64
	var told bool // that there is no room
	for {
		step, cut, pause, quit := c.now()
		switch {
		case quit:
			return
		case pause:
			c.doPause()
			continue
		}
		puts, total := c.batch(rng, &serial)
		err := c.store.Reserve(total)
		if err == nil {
			c.store.Append(puts)
			err = c.owe(puts, cut)
		}
		switch {
		case err == nil:
			told = false
			if rng.IntN(8) == 0 {
				c.awaitAcknowledged()
			}
		case errors.Is(err, store.ErrBusy):
			c.awaitSteps(step, 1)
		case errors.Is(err, store.ErrNoSpace):
			if !told {
				told = true
				c.say("full %v", err)
			}
			c.awaitSteps(step, 1)
		default:
			c.afterFailure()
			return
		}
	}
}

func (c *child) doPause() {
	c.awaitAcknowledged()
	c.say("paused %d", c.store.Marks().Written)
	c.readAll()
	_ = c.await(func() bool { return !c.pause }, func() error { return nil })
}

// awaitAcknowledged waits until nothing is owed, or never will be acknowledged.
func (c *child) awaitAcknowledged() {
	_ = c.await(func() bool { return len(c.owed) == 0 || c.store.Err() != nil }, func() error { return nil })
}

// batch makes one to eight messages, a few of them large, some joined to the one before.
func (c *child) batch(rng *rand.Rand, serial *uint64) (puts []store.Put, total int) {
	puts = make([]store.Put, 1+rng.IntN(8))
	id := rng.IntN(queues)
	joined := rng.IntN(3) == 0
	for i := range puts {
		if !joined {
			id = rng.IntN(queues)
		}
		*serial++
		n := rng.IntN(2000)
		if rng.IntN(200) == 0 {
			n = rng.IntN(16 << 10)
		}
		body := makeBody(c.job.Seed, *serial, n)
		puts[i] = store.Put{Queue: c.queue[id], Joined: joined && i > 0, Message: record.Message{
			Topic: topic, QueueID: int32(id), BornMs: int64(*serial), Born: host, Store: host,
			Body: body, BodyCRC: record.BodyCRC(body), Props: []byte("TAGS\x01a\x02"),
		}}
		size, err := c.store.RecordBytes(&puts[i].Message)
		if err != nil {
			panic(err) // not with these sizes
		}
		puts[i].Bytes = size
		total += size
	}
	return puts, total
}

var host = netip.MustParseAddrPort("127.0.0.1:10911")

// owe notes what was appended, and returns why the rest was not.
func (c *child) owe(puts []store.Put, afterCut bool) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range puts {
		p := &puts[i]
		if p.Err != nil {
			err = p.Err
			continue
		}
		c.owed = append(c.owed, owed{queue: p.Queue.ID(), at: p.QueueOffset, end: p.End, hash: hashOf(p.Body), afterCut: afterCut})
	}
	return err
}

// acknowledge reports what the marks cover, in order, also after the log has failed: then they must not
// move.
func (c *child) acknowledge() {
	var covered []owed
	for {
		c.mu.Lock()
		visible := c.store.Marks().Visible
		for len(c.owed) == 0 || c.owed[0].end > visible {
			c.moved.Wait()
			visible = c.store.Marks().Visible
		}
		covered = covered[:0]
		for len(c.owed) > 0 && c.owed[0].end <= visible {
			covered = append(covered, c.owed[0])
			c.owed = c.owed[1:]
		}
		c.mu.Unlock()
		c.reportAcks(covered)
		c.step() // nothing may be owed now
	}
}

func (c *child) reportAcks(covered []owed) {
	c.outMu.Lock()
	defer c.outMu.Unlock()
	for _, o := range covered {
		fmt.Fprintf(c.out, "ack %d %d %d %d\n", o.queue, o.at, o.hash, o.end)
		if o.afterCut {
			fmt.Fprintf(c.out, "late %d %d\n", o.queue, o.at)
		}
	}
	if c.out.Flush() != nil {
		os.Exit(1)
	}
}

// refusals that must follow, and steps that may pass, before a failed log counts as silent.
const (
	refusalsAfterFailure = 100
	stepsAfterFailure    = 5
)

// afterFailure tries on, waits for flushes that may still complete, and tells what became visible.
func (c *child) afterFailure() {
	_ = c.await(func() bool { return c.failedAt != store.Marks{} }, func() error { return nil })
	for range refusalsAfterFailure {
		if err := c.store.Reserve(1000); err == nil || errors.Is(err, store.ErrBusy) {
			c.say("wrong: after the log failed Reserve said %v", err)
			return
		}
	}
	step, _, _, _ := c.now()
	c.awaitSteps(step, stepsAfterFailure)
	c.mu.Lock()
	at := c.failedAt.Visible
	c.mu.Unlock()
	c.say("failed %d %d", at, c.store.Marks().Visible)
	c.readAll()
}

// makeBody makes a body that tells whether it is whole.
func makeBody(seed, serial uint64, n int) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 24+n), seed)
	b = binary.BigEndian.AppendUint64(b, serial)
	rng := rand.NewPCG(seed, serial)
	for len(b) < 16+n {
		b = binary.BigEndian.AppendUint64(b, rng.Uint64())
	}
	return b[:16+n]
}

// isBody reports whether makeBody made b.
func isBody(b []byte) bool {
	return len(b) >= 16 && bytes.Equal(b, makeBody(binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), len(b)-16))
}

func hashOf(body []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(body)
	return h.Sum64()
}

// A reader reads all queues from their first message on.
type reader struct {
	c    *child
	next [queues]int64
	got  store.Got
	buf  []byte
	rec  record.Record
}

// follow reports whatever becomes visible.
func (c *child) follow() {
	r := reader{c: c}
	for {
		step, _, _, _ := c.now()
		if _, err := r.round(); err != nil {
			c.say("unreadable %v", err)
			return
		}
		c.awaitSteps(step, 1)
	}
}

// readAll reports all that is visible, and that it is all.
func (c *child) readAll() {
	r, count := reader{c: c}, 0
	for {
		n, err := r.round()
		if err != nil {
			c.say("unreadable %v", err)
			return
		}
		if count += n; n == 0 {
			c.say("read %d", count)
			return
		}
	}
}

// round reports the next messages of each queue; 0 if there are none.
func (r *reader) round() (count int, err error) {
	for id := range r.next {
		n, err := r.some(id)
		if err != nil {
			return count, err
		}
		count += n
	}
	return count, nil
}

func (r *reader) some(id int) (int, error) {
	q := r.c.queue[id]
	if err := r.c.store.Get(q, store.Get{Offset: r.next[id], MaxCount: 64, MaxBytes: 256 << 10}, &r.got); err != nil {
		return 0, err
	}
	switch r.got.Status {
	case store.Found:
	case store.NoMessageInQueue, store.OffsetOverflowOne:
		return 0, nil
	default:
		r.c.say("wrong: queue %d at %d of [%d, %d): %v", id, r.next[id], r.got.Min, r.got.Max, r.got.Status)
		return 0, io.ErrUnexpectedEOF
	}
	for _, run := range r.got.Runs {
		r.buf = append(r.buf[:0], make([]byte, run.Bytes)...)
		if err := r.c.store.ReadAt(r.buf, run.Offset); err != nil {
			return 0, err
		}
		for at := 0; at < run.Bytes; at += r.rec.Size {
			if err := r.judge(id, r.buf[at:], run.Offset+int64(at)); err != nil {
				return 0, err
			}
		}
	}
	return r.got.Count, nil
}

// judge reports the record at the start of b, which stands at off.
func (r *reader) judge(id int, b []byte, off int64) error {
	err := record.Verify(b, off, &r.rec)
	switch {
	case err != nil:
	case string(r.rec.Topic) != topic || r.rec.QueueID != int32(id) || r.rec.QueueOffset != r.next[id]:
		err = fmt.Errorf("it is %s/%d@%d", r.rec.Topic, r.rec.QueueID, r.rec.QueueOffset)
	case !isBody(r.rec.Body):
		err = errors.New("its body was never sent")
	default:
		r.c.say("seen %d %d %d", id, r.next[id], hashOf(r.rec.Body))
		r.next[id]++
		return nil
	}
	r.c.say("wrong: message %d of queue %d, at %d: %v", r.next[id], id, off, err)
	return err
}
