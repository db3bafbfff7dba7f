package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"ringmq/netio/wire"
)

// Result counts what was answered in the counted time.
type Result struct {
	OK      int64               // messages that were answered with code 0
	Refused map[wire.Code]int64 // other answers, by code
	Elapsed time.Duration
	Latency *hdrhistogram.Histogram // of the answers with code 0, in nanoseconds

	// Of an open loop only.
	Late    *hdrhistogram.Histogram // how late the generator itself was, in nanoseconds
	Missing int64                   // messages that were not answered, or not even sent, in time
}

// latencyMost is where histograms end; what takes longer counts as that.
const latencyMost = time.Minute

// newLatency holds up to a minute with three digits.
func newLatency() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(latencyMost), 3) }

func recordTook(h *hdrhistogram.Histogram, took time.Duration) {
	_ = h.RecordValue(min(max(int64(took), 0), int64(latencyMost))) // it is in range
}

func newResult() Result { return Result{Refused: map[wire.Code]int64{}, Latency: newLatency()} }

// add merges what another connection has counted.
func (r *Result) add(o Result) {
	r.OK += o.OK
	r.Latency.Merge(o.Latency)
	for code, n := range o.Refused {
		r.Refused[code] += n
	}
	r.Missing += o.Missing
	if o.Late != nil {
		if r.Late == nil {
			r.Late = newLatency()
		}
		r.Late.Merge(o.Late)
	}
}

// P50 and P99 are how long half, or 99 in a hundred, of the answers took at most.
func (r Result) P50() time.Duration { return time.Duration(r.Latency.ValueAtQuantile(50)) }
func (r Result) P99() time.Duration { return time.Duration(r.Latency.ValueAtQuantile(99)) }

// PerSecond is the rate of acknowledged messages.
func (r Result) PerSecond() float64 { return float64(r.OK) / r.Elapsed.Seconds() }

// count takes one answer, which stands for so many messages.
func (r *Result) count(code wire.Code, took time.Duration, messages int64) {
	if code != wire.Success {
		r.Refused[code]++
		return
	}
	r.OK += messages
	recordTook(r.Latency, took)
}

// Live is what a load has done so far, for whoever shows progress: any goroutine reads it.
type Live struct {
	Sent, Received, Refused atomic.Int64 // messages; answers of refusal
}

// window is the time in which answers count.
type window struct{ from, to time.Time }

func (w window) holds(t time.Time) bool { return !t.Before(w.from) && t.Before(w.to) }

// spanOf begins now.
func spanOf(warm, length time.Duration) window {
	now := time.Now()
	return window{from: now.Add(warm), to: now.Add(warm + length)}
}

// each runs one(i) for each i below n side by side and returns the first error, which ends the others' context. Whoever
// ends ctx, other than its deadline, gets that as the error.
func each(ctx context.Context, n int, one func(ctx context.Context, i int) error) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		once  sync.Once
		first error
		wg    sync.WaitGroup
	)
	for i := range n {
		wg.Go(func() {
			if err := one(inner, i); err != nil {
				once.Do(func() { first = fmt.Errorf("connection %d: %w", i, err) })
				cancel()
			}
		})
	}
	wg.Wait()
	if first == nil && errors.Is(ctx.Err(), context.Canceled) {
		first = ctx.Err()
	}
	return first
}

// dial connects, and has the connection's reads and writes fail when ctx ends. Call hangUp in any case.
func dial(ctx context.Context, addr string) (conn net.Conn, hangUp func(), err error) {
	var d net.Dialer
	if conn, err = d.DialContext(ctx, "tcp", addr); err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	return conn, func() {
		stop()
		_ = conn.Close()
	}, nil
}

// unlessOver drops the error that the end of the run itself caused. A dial gives up at the end of ctx, a moment before ctx has
// an error.
func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}
