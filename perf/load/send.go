// Package load drives a RocketMQ-speaking broker from outside and counts what it answers. It speaks through netio/wire
// alone, so that it measures any broker, and so that no code of the node can flatter it.
package load

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"ringmq/netio/wire"
)

// Send is a closed loop of sends: each connection keeps InFlight requests under way and sends the next one when an
// answer comes. A zero field means "choose for me".
type Send struct {
	Addr     string        // host:port of the broker
	Topic    string        // created by the first send if the broker does that
	Topics   int           // names: Topic itself, or with more than one Topic-0, Topic-1 …, which must exist
	Queues   int           // of each topic
	Group    string        // producer group
	Conns    int           // connections
	InFlight int           // requests under way on each
	Bytes    int           // body of one message
	Level    int           // delay level of the messages, 0 for none
	Warm     time.Duration // not counted
	For      time.Duration // counted, after Warm
}

// Result counts what was answered in the counted time.
type Result struct {
	OK      int64               // answers with code 0
	Refused map[wire.Code]int64 // other answers, by code
	Elapsed time.Duration
	Latency *hdrhistogram.Histogram // of the answers with code 0, in nanoseconds
}

// newLatency holds up to a minute with three digits.
func newLatency() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(time.Minute), 3) }

// P50 and P99 are how long half, or 99 in a hundred, of the answers took at most.
func (r Result) P50() time.Duration { return time.Duration(r.Latency.ValueAtQuantile(50)) }
func (r Result) P99() time.Duration { return time.Duration(r.Latency.ValueAtQuantile(99)) }

// PerSecond is the rate of acknowledged messages.
func (r Result) PerSecond() float64 { return float64(r.OK) / r.Elapsed.Seconds() }

// Fill sets defaults.
func (s *Send) Fill() {
	s.Topic = cmp.Or(s.Topic, "LoadTopic")
	s.Topics = cmp.Or(s.Topics, 1)
	s.Queues = cmp.Or(s.Queues, 8)
	s.Group = cmp.Or(s.Group, "load")
	s.Conns = cmp.Or(s.Conns, 64)
	s.InFlight = cmp.Or(s.InFlight, 16)
	s.Bytes = cmp.Or(s.Bytes, 1024)
	s.For = cmp.Or(s.For, 5*time.Second)
}

// Run sends until the time is over or ctx ends, and returns the sum over all connections. A connection that breaks ends
// the run with its error.
func (s Send) Run(ctx context.Context) (Result, error) {
	s.Fill()
	start := time.Now()
	span := window{from: start.Add(s.Warm), to: start.Add(s.Warm + s.For)}
	ctx, cancel := context.WithDeadline(ctx, span.to)
	defer cancel()
	sum := Result{Refused: map[wire.Code]int64{}, Elapsed: s.For, Latency: newLatency()}
	var (
		mu   sync.Mutex // guards sum and errs
		errs []error
		wg   sync.WaitGroup
	)
	for id := range s.Conns {
		wg.Go(func() {
			r, err := s.one(ctx, id, span)
			mu.Lock()
			defer mu.Unlock()
			sum.OK += r.OK
			sum.Latency.Merge(r.Latency)
			for code, n := range r.Refused {
				sum.Refused[code] += n
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("connection %d: %w", id, err))
				cancel()
			}
		})
	}
	wg.Wait()
	return sum, errors.Join(errs...)
}

// window is the time in which answers count.
type window struct{ from, to time.Time }

func (w window) holds(t time.Time) bool { return !t.Before(w.from) && t.Before(w.to) }

// one runs one connection: it reads what has arrived, puts one request into the output for each answer, and writes the
// output when nothing more is buffered, as a client with a queue of callers would.
func (s Send) one(ctx context.Context, id int, span window) (Result, error) {
	r := Result{Refused: map[wire.Code]int64{}, Latency: newLatency()}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", s.Addr)
	if err != nil {
		return r, unlessOver(ctx, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()

	next := s.requests(id)
	out := make([]byte, 0, (s.Bytes+512)*s.InFlight)
	began := make([]time.Time, s.InFlight) // by opaque: a request takes the place of the one that was answered
	for place := range began {
		began[place] = time.Now()
		out = next(out, int32(place))
	}
	in := bufio.NewReaderSize(conn, 64<<10)
	var answer wire.Command
	for {
		if in.Buffered() == 0 && len(out) > 0 {
			if _, err := conn.Write(out); err != nil {
				return r, unlessOver(ctx, err)
			}
			out = out[:0]
		}
		if err := readAnswer(in, &answer); err != nil {
			return r, unlessOver(ctx, err)
		}
		place := answer.Opaque
		if place < 0 || int(place) >= len(began) {
			return r, fmt.Errorf("answer with opaque=%d, which no request had", place)
		}
		now := time.Now()
		if span.holds(now) {
			r.count(answer.Code, now.Sub(began[place]))
		}
		began[place] = now
		out = next(out, place)
	}
}

func (r *Result) count(code wire.Code, took time.Duration) {
	if code != wire.Success {
		r.Refused[code]++
		return
	}
	r.OK++
	_ = r.Latency.RecordValue(min(int64(took), int64(time.Minute)))
}

// TopicName is the name of the i-th topic.
func (s Send) TopicName(i int) string {
	if s.Topics <= 1 {
		return s.Topic
	}
	return fmt.Sprintf("%s-%d", s.Topic, i)
}

// requests returns a function that appends the next request of connection id. Requests go round all queues of all
// topics; the connections begin at different places.
func (s Send) requests(id int) func(dst []byte, opaque int32) []byte {
	var (
		cmd    wire.Command
		at     = id * 7919 // a prime: neighbours do not follow each other
		body   = make([]byte, s.Bytes)
		topics = make([][]byte, s.Topics)
	)
	for i := range topics {
		topics[i] = []byte(s.TopicName(i))
	}
	for i := range body {
		body[i] = byte('a' + (i+id)%26)
	}
	h := wire.SendRequest{
		ProducerGroup: []byte(s.Group), DefaultTopic: []byte("TBW102"), DefaultTopicQueueNums: int32(s.Queues),
		BornTimestamp: time.Now().UnixMilli(), Properties: []byte("TAGS\x01load\x02"),
	}
	if s.Level > 0 {
		h.Properties = fmt.Appendf(h.Properties, "DELAY\x01%d\x02", s.Level)
	}
	return func(dst []byte, opaque int32) []byte {
		at++
		h.Topic, h.QueueID = topics[at%s.Topics], int32(at/s.Topics%s.Queues)
		cmd.Recycle()
		cmd.Request(wire.SendMessageV2, opaque)
		h.Append(&cmd)
		cmd.Body = body
		return cmd.Append(dst)
	}
}

// readAnswer reads one frame into answer, which is valid until the next read.
func readAnswer(in *bufio.Reader, answer *wire.Command) error {
	prefix, err := in.Peek(4)
	if err != nil {
		return err
	}
	n, err := wire.FrameBytes(prefix)
	if err != nil {
		return err
	}
	frame, err := in.Peek(n) // an answer to a send has no body: it fits the buffer
	if err != nil {
		return fmt.Errorf("answer of %d bytes: %w", n, err)
	}
	answer.Recycle()
	if err := answer.Parse(frame); err != nil {
		return err
	}
	_, err = in.Discard(n)
	return err
}

// unlessOver drops the error that the end of the run itself caused.
func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return nil
	}
	return err
}
