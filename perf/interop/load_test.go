package interop

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// sendAll sends count messages of about bytes each to topic, several at a time, and enters the acknowledgements.
// Every send must succeed.
func sendAll(t *testing.T, l *ledger, p producer, topic string, count, bytes int) {
	t.Helper()
	const atOnce = 16
	prefix := unique(t, "m")
	var next atomic.Int64
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(count); i = next.Add(1) {
				id := fmt.Sprintf("%s.%d", prefix, i)
				a, err := p.send(message{Topic: topic, Body: bodyOf(id, bytes)})
				if err == nil && a.Status != "SEND_OK" {
					err = fmt.Errorf("status %s", a.Status)
				}
				if err != nil {
					t.Errorf("send %s: %v", id, err)
					return
				}
				l.ack(id, a)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// load is a background of sends. A failed send is tried again as a new message, so that a node may come and go.
type load struct {
	l    *ledger
	done <-chan struct{} // closed by finish
	stop context.CancelFunc
	wg   sync.WaitGroup

	failed  atomic.Int64
	lastErr atomic.Value // string
}

// pace bounds a load: the pause of each sender between two messages, and after a failure.
const (
	pace       = 8 * time.Millisecond
	afterFault = 50 * time.Millisecond
	loadLimit  = 100_000 // messages of one load, whatever happens
)

// startLoad sends messages of 100 to 3000 bytes from several goroutines until finish or the limit.
func startLoad(t *testing.T, l *ledger, p producer, topic string) *load {
	ctx, cancel := context.WithCancel(t.Context())
	b := &load{l: l, done: ctx.Done(), stop: cancel}
	prefix := unique(t, "load")
	var next atomic.Int64
	for range 4 {
		b.wg.Go(func() {
			for i := next.Add(1); i <= loadLimit && ctx.Err() == nil; i = next.Add(1) {
				id := fmt.Sprintf("%s.%d", prefix, i)
				a, err := p.send(message{Topic: topic, Body: bodyOf(id, 100+int(i)*37%2900)})
				wait := pace
				if err == nil && a.Status == "SEND_OK" {
					l.ack(id, a)
				} else {
					b.failed.Add(1)
					b.lastErr.Store(fmt.Sprint(err, a.Status))
					wait = afterFault
				}
				select {
				case <-ctx.Done():
				case <-time.After(wait):
				}
			}
		})
	}
	t.Cleanup(b.finish)
	return b
}

// finish ends the load and waits for the sends on their way.
func (b *load) finish() {
	b.stop()
	b.wg.Wait()
}

// pass returns when count more messages were acknowledged, or the load is over: something that takes its time, and more
// of it on a busy machine. Any goroutine may call it.
func (b *load) pass(count int) {
	before, _ := b.l.counts()
	for now := before; now < before+count; now, _ = b.l.counts() {
		select {
		case <-b.done:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// more waits until count more messages were acknowledged.
func (b *load) more(t *testing.T, count int) {
	t.Helper()
	before, _ := b.l.counts()
	eventually(t, patience, fmt.Sprintf("%d more acknowledgements", count), func() error {
		if now, _ := b.l.counts(); now < before+count {
			return fmt.Errorf("%d of them; %d sends failed, the last with: %v", now-before, b.failed.Load(), b.lastErr.Load())
		}
		return nil
	})
}
