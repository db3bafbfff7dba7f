package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"ringmq/netio/wire"
)

// Pull is a closed loop of catch-up consumers: each connection reads one queue from its first message to its last, and
// over again, and asks for the next messages when it has the last ones. A zero field means "choose for me".
type Pull struct {
	Addr   string
	Topic  string
	Queues int           // connection i reads queue i mod Queues
	Group  string        // consumer group
	Conns  int           // connections
	Most   int           // messages wanted by one pull
	Warm   time.Duration // not counted
	For    time.Duration // counted, after Warm
}

// Pulled counts what came in the counted time.
type Pulled struct {
	Messages, Bytes, Pulls int64 // Bytes are those of whole answers
	Elapsed                time.Duration
	Latency                *hdrhistogram.Histogram // of one pull, in nanoseconds
}

// PerSecond is the rate of messages.
func (p Pulled) PerSecond() float64 { return float64(p.Messages) / p.Elapsed.Seconds() }

// P99 is how long 99 in a hundred of the pulls took at most.
func (p Pulled) P99() time.Duration { return time.Duration(p.Latency.ValueAtQuantile(99)) }

// Fill sets defaults.
func (p *Pull) Fill() {
	p.Topic = cmp.Or(p.Topic, "LoadTopic")
	p.Queues = cmp.Or(p.Queues, 8)
	p.Group = cmp.Or(p.Group, "load")
	p.Conns = cmp.Or(p.Conns, 8)
	p.Most = cmp.Or(p.Most, 32)
	p.For = cmp.Or(p.For, 5*time.Second)
}

// Run pulls until the time is over or ctx ends, and returns the sum over all connections. An answer that is no success,
// or brings nothing, ends the run with an error, as a connection that breaks does.
func (p Pull) Run(ctx context.Context) (Pulled, error) {
	p.Fill()
	start := time.Now()
	span := window{from: start.Add(p.Warm), to: start.Add(p.Warm + p.For)}
	ctx, cancel := context.WithDeadline(ctx, span.to)
	defer cancel()
	sum := Pulled{Elapsed: p.For, Latency: newLatency()}
	var (
		mu   sync.Mutex // guards sum and errs
		errs []error
		wg   sync.WaitGroup
	)
	for id := range p.Conns {
		wg.Go(func() {
			r, err := p.one(ctx, id, span)
			mu.Lock()
			defer mu.Unlock()
			sum.Messages += r.Messages
			sum.Bytes += r.Bytes
			sum.Pulls += r.Pulls
			sum.Latency.Merge(r.Latency)
			if err != nil {
				errs = append(errs, fmt.Errorf("connection %d: %w", id, err))
				cancel()
			}
		})
	}
	wg.Wait()
	return sum, errors.Join(errs...)
}

func (p Pull) one(ctx context.Context, id int, span window) (Pulled, error) {
	r := Pulled{Latency: newLatency()}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", p.Addr)
	if err != nil {
		return r, unlessOver(ctx, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()

	var (
		cmd    wire.Command
		answer wire.Command
		h      wire.PullAnswer
		out    []byte
		in     = make([]byte, 64<<10)
		offset int64
	)
	for {
		out = p.request(&cmd, id, offset).Append(out[:0])
		began := time.Now()
		if _, err := conn.Write(out); err != nil {
			return r, unlessOver(ctx, err)
		}
		var n int
		if in, n, err = readFrame(conn, in); err != nil {
			return r, unlessOver(ctx, err)
		}
		now := time.Now()
		answer.Recycle()
		if err := answer.Parse(in[:n]); err != nil {
			return r, err
		}
		if answer.Code != wire.Success {
			return r, fmt.Errorf("pull at %d: code %d: %s", offset, answer.Code, answer.Remark)
		}
		if err := h.Parse(&answer); err != nil {
			return r, err
		}
		if h.NextBeginOffset <= offset || len(answer.Body) == 0 {
			return r, fmt.Errorf("pull at %d brought %d bytes and goes on at %d", offset, len(answer.Body), h.NextBeginOffset)
		}
		if span.holds(now) {
			r.Pulls++
			r.Messages += h.NextBeginOffset - offset
			r.Bytes += int64(n)
			_ = r.Latency.RecordValue(min(int64(now.Sub(began)), int64(time.Minute)))
		}
		if offset = h.NextBeginOffset; offset >= h.MaxOffset {
			offset = h.MinOffset
		}
	}
}

// request makes the pull of connection id at an offset. It brings its own subscription, so that no heartbeat is needed.
func (p Pull) request(cmd *wire.Command, id int, offset int64) *wire.Command {
	cmd.Recycle()
	cmd.Request(wire.PullMessage, int32(id))
	(&wire.PullRequest{
		ConsumerGroup: []byte(p.Group), Topic: []byte(p.Topic), QueueID: int32(id % p.Queues), QueueOffset: offset,
		MaxMsgNums: int32(p.Most), SysFlag: wire.PullSubscription, Subscription: []byte("*"), MaxMsgBytes: -1, RequestSource: -1,
	}).Append(cmd)
	return cmd
}

// readFrame reads one frame, which nothing follows, into buf or a larger one, and returns its length.
func readFrame(conn io.Reader, buf []byte) (_ []byte, n int, err error) {
	for whole := 4; n < whole; {
		k, err := conn.Read(buf[n:])
		if n += k; err != nil && n < whole {
			return buf, n, err
		}
		if n >= 4 && whole == 4 {
			if whole, err = wire.FrameBytes(buf); err != nil {
				return buf, n, err
			}
			if whole > len(buf) {
				buf = append(buf, make([]byte, whole-len(buf))...)
			}
		}
		if n > whole {
			return buf, n, fmt.Errorf("%d bytes behind an answer", n-whole)
		}
	}
	return buf, n, nil
}
