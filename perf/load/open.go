package load

import (
	"context"
	"errors"
	"math"
	"net"
	"sync"
	"time"

	"ringmq/netio/wire"
)

// Open is an open loop: messages are sent at a fixed rate, whatever the broker does. The latency of each is counted from
// when it should have been sent, so that a broker which stands still for a second has a second of bad latencies, not one:
// nothing is omitted. How late the generator was itself is in Result.Late; a late one is not quick enough for the rate.
//
// Conns, Topics, Queues, Bytes and the rest are those of the Send; its InFlight and Batch do not count.
type Open struct {
	Send
	Rate float64       // messages a second, of all connections together
	Wait time.Duration // for answers after the end (2 s); what comes later is missing
}

// Run sends until the time is over or ctx ends. Messages that should have been sent in the counted time count, whenever
// their answers come.
func (o Open) Run(ctx context.Context) (Result, error) {
	if o.Conns == 0 {
		o.Conns = 8 // as many senders as a rate needs; the closed loop has 64
	}
	o.Batch = 1
	o.Fill()
	if o.Wait == 0 {
		o.Wait = 2 * time.Second
	}
	if o.Rate <= 0 {
		return Result{}, errors.New("load: an open loop needs a rate")
	}
	span := spanOf(o.Warm, o.For)
	ctx, cancel := context.WithDeadline(ctx, span.to.Add(o.Wait))
	defer cancel()
	sum := newResult()
	sum.Elapsed, sum.Late = o.For, newLatency()
	var mu sync.Mutex // guards sum
	shared := o.templates()
	err := each(ctx, o.Conns, func(ctx context.Context, id int) error {
		r, err := o.one(ctx, o.requests(shared, id), id, span)
		mu.Lock()
		defer mu.Unlock()
		sum.add(r)
		return err
	})
	return sum, err
}

// schedule says when each message of a connection should be sent.
type schedule struct {
	begin time.Time
	every time.Duration
	end   time.Time
}

func (s schedule) at(number int64) time.Time { return s.begin.Add(time.Duration(number) * s.every) }

// count is how many messages are due before the end.
func (s schedule) count() int64 {
	return int64(math.Ceil(float64(s.end.Sub(s.begin)) / float64(s.every)))
}

// one runs one connection, with a goroutine that sends and one that reads.
func (o Open) one(ctx context.Context, next requests, id int, span window) (Result, error) {
	r := newResult()
	conn, hangUp, err := dial(ctx, o.Addr)
	if err != nil {
		return r, unlessOver(ctx, err)
	}
	defer hangUp()
	every := time.Duration(float64(o.Conns) / o.Rate * float64(time.Second))
	times := schedule{
		begin: span.from.Add(-o.Warm + every*time.Duration(id)/time.Duration(o.Conns)), every: max(every, 1), end: span.to,
	}
	late := newLatency()
	var sent error
	var sender sync.WaitGroup
	sender.Go(func() {
		if sent = o.send(ctx, conn, next, times, late); sent != nil {
			hangUp()
		}
	})
	read := o.read(conn, times, span, &r)
	hangUp()
	sender.Wait()
	r.Late = late
	return r, unlessOver(ctx, errors.Join(sent, read))
}

// sendAtMost bounds what is written at once when the generator is behind.
const sendAtMost = 256 << 10

// send writes each message when it is due: all that are by then in one call.
func (o Open) send(ctx context.Context, conn net.Conn, next requests, times schedule, late interface{ RecordValue(int64) error }) error {
	var out []byte
	timer := time.NewTimer(0)
	defer timer.Stop()
	for number, count := int64(0), times.count(); number < count; {
		now := time.Now()
		if wait := times.at(number).Sub(now); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return nil
			}
			now = time.Now()
		}
		out = out[:0]
		for ; number < count && !times.at(number).After(now) && len(out) < sendAtMost; number++ {
			due := times.at(number)
			out = next.append(out, int(number%opaqueBase), due)
			_ = late.RecordValue(min(max(int64(now.Sub(due)), 0), int64(latencyMost))) // it is in range
		}
		if _, err := conn.Write(out); err != nil {
			return err
		}
	}
	return nil
}

// read counts answers until all have come.
func (o Open) read(conn net.Conn, times schedule, span window, r *Result) error {
	in := frames{conn: conn, buf: make([]byte, 16<<10)}
	var scratch wire.Command
	var now time.Time
	r.Missing = times.count()
	for ; r.Missing > 0; r.Missing-- {
		if in.waits() {
			now = time.Time{}
		}
		frame, err := in.next()
		if err != nil {
			return err
		}
		if now.IsZero() {
			now = time.Now()
		}
		number, code, err := readAnswer(frame, &scratch)
		if err != nil {
			return err
		}
		if code == wire.Success {
			o.Live.Sent.Add(1)
		} else {
			o.Live.Refused.Add(1)
		}
		if due := times.at(int64(number)); span.holds(due) {
			r.count(code, now.Sub(due), 1)
		}
	}
	return nil
}
