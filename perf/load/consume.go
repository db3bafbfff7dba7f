package load

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"ringmq/netio/remoting"
	"ringmq/netio/wire"
	"ringmq/store/record"
)

// Mode is what a consumer does at the end of a queue.
type Mode int

const (
	Again  Mode = iota // begins anew: catching up all the time
	Once               // is done with it
	Follow             // waits for what comes: a long poll
)

// Consume pulls from all queues of some topics, and holds each message to what was sent: its checksum, its place, and
// its body if a load of this package sent it. A zero field means "choose for me".
type Consume struct {
	Addr   string
	Topic  string
	Topics int
	Queues int
	Group  string
	Conns  int // connection i has the queues i, i + Conns, …; with more connections than queues, i mod queues
	Most   int // messages wanted by one pull
	Mode   Mode
	Newest bool          // begin at the queues' ends, not at their beginnings
	RunID  uint32        // if given, only messages of this run count for Delivery
	Hold   time.Duration // of a long poll
	Plain  bool          // look at no message: the reader costs least
	Warm   time.Duration
	For    time.Duration // counted, after Warm; with Once the longest time that it may take
	Live   *Live

	// OnMessage is called for each message that a load sent, one call at a time for each connection. It may be nil.
	OnMessage func(conn int, s Stamp)
	// Ready is called when all queues' ends are known and all connections have sent their first pulls. It may be nil.
	Ready func()
}

// Consumed is what came in the counted time.
type Consumed struct {
	Messages, Bytes, Pulls int64 // Bytes are those of the records
	Foreign                int64 // messages that no load sent
	Wrong                  int64 // messages that are not what was sent, or not where they belong
	FirstWrong             error
	Refused                map[wire.Code]int64 // answers that are no messages and no "nothing new"
	Elapsed                time.Duration
	Pull                   *hdrhistogram.Histogram // how long an answer took, ns; nil if there was none
	Delivery               *hdrhistogram.Histogram // from when a message should have been sent, ns; nil if there was none
}

// PerSecond is the rate of messages.
func (c Consumed) PerSecond() float64 { return float64(c.Messages) / c.Elapsed.Seconds() }

// P99 is how long 99 in a hundred of the pulls took at most.
func (c Consumed) P99() time.Duration {
	if c.Pull == nil {
		return 0
	}
	return time.Duration(c.Pull.ValueAtQuantile(99))
}

// Fill sets defaults.
func (c *Consume) Fill() {
	c.Topic = cmp.Or(c.Topic, "LoadTopic")
	c.Topics = cmp.Or(c.Topics, 1)
	c.Queues = cmp.Or(c.Queues, 8)
	c.Group = cmp.Or(c.Group, "load")
	c.Conns = cmp.Or(c.Conns, 8)
	c.Most = cmp.Or(c.Most, 32)
	c.Hold = cmp.Or(c.Hold, 15*time.Second)
	c.For = cmp.Or(c.For, 5*time.Second)
	if c.Live == nil {
		c.Live = new(Live)
	}
}

// Run consumes until the time is over, ctx ends, or with Once everything was read. A connection that breaks ends the run.
func (c Consume) Run(ctx context.Context) (Consumed, error) {
	c.Fill()
	sum := Consumed{Refused: map[wire.Code]int64{}}
	var starts []int64
	if c.Newest {
		var err error
		if starts, err = c.ends(ctx); err != nil {
			return sum, err
		}
	}
	span := spanOf(c.Warm, c.For)
	ctx, cancel := context.WithDeadline(ctx, span.to)
	defer cancel()
	var mu sync.Mutex // guards sum
	var begun sync.WaitGroup
	begun.Add(c.Conns)
	if c.Ready != nil {
		go func() {
			begun.Wait()
			c.Ready()
		}()
	}
	err := each(ctx, c.Conns, func(ctx context.Context, id int) error {
		r := reader{c: &c, id: id, span: span, begun: sync.OnceFunc(begun.Done), sum: Consumed{Refused: map[wire.Code]int64{}}}
		defer r.begun()
		err := r.run(ctx, c.places(id, starts))
		mu.Lock()
		defer mu.Unlock()
		sum.add(r.sum)
		return err
	})
	sum.Elapsed = c.For
	if c.Mode == Once {
		sum.Elapsed = time.Since(span.from)
	}
	return sum, err
}

func (c *Consumed) add(o Consumed) {
	c.Messages += o.Messages
	c.Bytes += o.Bytes
	c.Pulls += o.Pulls
	c.Foreign += o.Foreign
	c.Wrong += o.Wrong
	if c.FirstWrong == nil {
		c.FirstWrong = o.FirstWrong
	}
	for code, n := range o.Refused {
		c.Refused[code] += n
	}
	merge(&c.Pull, o.Pull)
	merge(&c.Delivery, o.Delivery)
}

func merge(to **hdrhistogram.Histogram, from *hdrhistogram.Histogram) {
	if from == nil {
		return
	}
	if *to == nil {
		*to = newLatency()
	}
	(*to).Merge(from)
}

// lazily records into a histogram that is made for its first value: thousands of idle consumers have none.
func lazily(h **hdrhistogram.Histogram, took time.Duration) {
	if *h == nil {
		*h = newLatency()
	}
	recordTook(*h, took)
}

// place is a queue that a reader reads.
type place struct {
	topic  string
	queue  int32
	offset int64
	began  time.Time // of the pull under way
	done   bool
}

// places are the queues of a connection. starts has the offset of each queue where reading begins, or is nil.
func (c *Consume) places(id int, starts []int64) (list []place) {
	all := c.Topics * c.Queues
	add := func(i int) {
		p := place{topic: topicName(c.Topic, c.Topics, i/c.Queues), queue: int32(i % c.Queues)}
		if starts != nil {
			p.offset = starts[i]
		}
		list = append(list, p)
	}
	if c.Conns >= all {
		add(id % all)
		return list
	}
	for i := id; i < all; i += c.Conns {
		add(i)
	}
	return list
}

// ends asks for the ends of all queues.
func (c *Consume) ends(ctx context.Context) ([]int64, error) {
	conn, err := remoting.Dial(ctx, c.Addr, remoting.Options{})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ends := make([]int64, c.Topics*c.Queues)
	for i := range ends {
		var cmd wire.Command
		cmd.Request(wire.GetMaxOffset, 0)
		q := wire.QueueRequest{Topic: topicName(c.Topic, c.Topics, i/c.Queues), QueueID: int32(i % c.Queues), Committed: true}
		q.Append(&cmd)
		a, err := conn.Call(ctx, &cmd)
		if err == nil && a.Code != wire.Success {
			err = fmt.Errorf("code %d: %s", a.Code, a.Remark)
		}
		var h wire.OffsetAnswer
		if err == nil {
			err = h.Parse(a)
		}
		if err != nil {
			return nil, fmt.Errorf("end of queue %d of %s: %w", q.QueueID, q.Topic, err)
		}
		ends[i] = h.Offset
	}
	return ends, nil
}

// reader is one connection.
type reader struct {
	c      *Consume
	id     int
	span   window
	begun  func()
	places []place
	sum    Consumed
	noise  noise

	// Scratch.
	cmd, answer wire.Command
	head        wire.PullAnswer
	out         []byte
}

func (r *reader) run(ctx context.Context, places []place) error {
	r.places = places
	conn, hangUp, err := dial(ctx, r.c.Addr)
	if err != nil {
		return unlessOver(ctx, err)
	}
	defer hangUp()
	for i := range r.places {
		r.pull(i)
	}
	in := frames{conn: conn, buf: make([]byte, 4<<10)}
	for left := len(r.places); left > 0; {
		if in.waits() && len(r.out) > 0 {
			if err := r.write(conn); err != nil {
				return unlessOver(ctx, err)
			}
		}
		frame, err := in.next()
		if err != nil {
			return unlessOver(ctx, err)
		}
		r.answer.Recycle()
		if err := r.answer.Parse(frame); err != nil {
			return err
		}
		i := int(r.answer.Opaque)
		if i < 0 || i >= len(r.places) || r.places[i].done {
			return fmt.Errorf("answer with opaque=%d, which no pull had", i)
		}
		if err := r.take(&r.places[i]); err != nil {
			return err
		}
		if r.places[i].done {
			left--
			continue
		}
		r.pull(i)
	}
	return nil
}

func (r *reader) write(conn net.Conn) error {
	_, err := conn.Write(r.out)
	r.out = r.out[:0]
	r.begun()
	return err
}

// pull puts the next pull of a queue into the output. It brings its own subscription, so that no heartbeat is needed.
func (r *reader) pull(i int) {
	p, c := &r.places[i], r.c
	h := wire.PullRequest{
		ConsumerGroup: []byte(c.Group), Topic: []byte(p.topic), QueueID: p.queue, QueueOffset: p.offset, MaxMsgNums: int32(c.Most),
		SysFlag: wire.PullSubscription, Subscription: []byte("*"), MaxMsgBytes: -1, RequestSource: -1,
	}
	if c.Mode == Follow {
		h.SysFlag |= wire.PullSuspend
		h.SuspendTimeoutMillis = c.Hold.Milliseconds()
	}
	r.cmd.Recycle()
	r.cmd.Request(wire.PullMessage, int32(i))
	h.Append(&r.cmd)
	r.out = r.cmd.Append(r.out)
	p.began = time.Now()
}

// take counts an answer and decides where its queue goes on.
func (r *reader) take(p *place) error {
	now := time.Now()
	counted := r.span.holds(now)
	switch r.answer.Code {
	case wire.Success:
	case wire.PullNotFound, wire.PullRetryImmediately, wire.PullOffsetMoved:
	default:
		return fmt.Errorf("pull of %s queue %d at %d: code %d: %s", p.topic, p.queue, p.offset, r.answer.Code, r.answer.Remark)
	}
	if err := r.head.Parse(&r.answer); err != nil {
		return err
	}
	if r.answer.Code != wire.Success {
		if r.answer.Code != wire.PullNotFound && counted {
			r.sum.Refused[r.answer.Code]++
		}
		p.offset = r.head.NextBeginOffset
		return r.atEnd(p)
	}
	if r.head.NextBeginOffset <= p.offset || len(r.answer.Body) == 0 {
		return fmt.Errorf("pull of %s queue %d at %d brought %d bytes and goes on at %d", p.topic, p.queue, p.offset, len(r.answer.Body), r.head.NextBeginOffset)
	}
	messages, err := r.messages(p, now, counted)
	if err != nil {
		return err
	}
	r.c.Live.Received.Add(messages)
	if counted || r.c.Mode == Once {
		r.sum.Pulls++
		r.sum.Messages += messages
		r.sum.Bytes += int64(len(r.answer.Body))
		lazily(&r.sum.Pull, now.Sub(p.began))
	}
	p.offset = r.head.NextBeginOffset
	return r.atEnd(p)
}

// atEnd does at the end of a queue what the mode says.
func (r *reader) atEnd(p *place) error {
	switch {
	case p.offset < r.head.MaxOffset || r.c.Mode == Follow:
	case r.c.Mode == Once:
		p.done = true
	case r.head.MinOffset >= r.head.MaxOffset:
		return fmt.Errorf("%s queue %d is empty: there is nothing to catch up with", p.topic, p.queue)
	default:
		p.offset = r.head.MinOffset
	}
	return nil
}

// messages looks at the records of an answer and returns how many there are.
func (r *reader) messages(p *place, now time.Time, counted bool) (n int64, err error) {
	body := r.answer.Body
	if r.c.Plain {
		return r.head.NextBeginOffset - p.offset, nil
	}
	var rec record.Record
	for at := p.offset; len(body) > 0; at++ {
		if len(body) < record.HeadBytes {
			return n, fmt.Errorf("pull of %s queue %d: %d bytes behind the last message", p.topic, p.queue, len(body))
		}
		err := record.Verify(body, int64(binary.BigEndian.Uint64(body[physAt:])), &rec)
		if errors.Is(err, record.ErrTorn) {
			return n, fmt.Errorf("pull of %s queue %d: %w", p.topic, p.queue, err)
		}
		if err == nil && (rec.QueueOffset != at || rec.QueueID != p.queue || string(rec.Topic) != p.topic) {
			err = fmt.Errorf("message %d of %s queue %d came for message %d of %s queue %d", rec.QueueOffset, rec.Topic, rec.QueueID, at, p.topic, p.queue)
		}
		if err == nil {
			err = r.body(&rec, now, counted)
		}
		if err != nil {
			r.sum.Wrong++
			if r.sum.FirstWrong == nil {
				r.sum.FirstWrong = err
			}
		}
		n++
		if rec.Size <= 0 || rec.Size > len(body) {
			return n, fmt.Errorf("pull of %s queue %d: %w", p.topic, p.queue, err)
		}
		body = body[rec.Size:]
	}
	return n, nil
}

// physAt is where a record has its physical offset.
const physAt = 28

func (r *reader) body(rec *record.Record, now time.Time, counted bool) error {
	s, err := r.noise.check(rec.Body)
	if errors.Is(err, errShort) {
		r.sum.Foreign++
		return nil
	}
	if err != nil {
		return fmt.Errorf("message %d of sender %d, in %s queue %d at %d: %w", s.Number, s.Sender, rec.Topic, rec.QueueID, rec.QueueOffset, err)
	}
	if r.c.RunID != 0 && s.Run != r.c.RunID {
		return nil
	}
	if counted {
		lazily(&r.sum.Delivery, now.Sub(time.Unix(0, s.At)))
	}
	if r.c.OnMessage != nil {
		r.c.OnMessage(r.id, s)
	}
	return nil
}
