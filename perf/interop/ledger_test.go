package interop

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"
)

// ledger remembers what was acknowledged and what was handled, by message id. Any goroutine may write.
type ledger struct {
	// mu guards what follows.
	mu      sync.Mutex
	acked   map[string]ack
	handled map[string][]got
	faults  []string // bodies that nobody sent
}

func newLedger() *ledger {
	return &ledger{acked: map[string]ack{}, handled: map[string][]got{}}
}

func (l *ledger) ack(id string, a ack) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[id] = a
}

// expect takes over what sent had acknowledged: this ledger's consumer must get it too.
func (l *ledger) expect(sent *ledger) {
	sent.mu.Lock()
	acked := maps.Clone(sent.acked)
	sent.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked = acked
}

// handle fits as the handler of a consumer.
func (l *ledger) handle(g got) {
	id, err := idOf(g.Body)
	g.Body = nil
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.faults = append(l.faults, fmt.Sprintf("%s/%d at %d: %v", g.Topic, g.Queue, g.Offset, err))
		return
	}
	l.handled[id] = append(l.handled[id], g)
}

func (l *ledger) counts() (acked, handled int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked), len(l.handled)
}

// allHandled is nil once every acknowledged message was handled.
func (l *ledger) allHandled() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lost []string
	for id := range l.acked {
		if len(l.handled[id]) == 0 {
			lost = append(lost, id)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	slices.Sort(lost)
	first := l.acked[lost[0]]
	return fmt.Errorf("%d of %d acknowledged messages were not handled, such as %s (queue %d at %d)",
		len(lost), len(l.acked), lost[0], first.Queue, first.Offset)
}

// checkOnce fails the test for each message that was handled twice, at another place than its acknowledgement said,
// or that nobody sent.
func (l *ledger) checkOnce(t testing.TB) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, gs := range l.handled {
		a, known := l.acked[id]
		switch {
		case !known:
			t.Errorf("%s was handled, but not acknowledged: %+v", id, gs)
		case len(gs) > 1:
			t.Errorf("%s was handled %d times: %+v", id, len(gs), gs)
		case gs[0].Queue != a.Queue || gs[0].Offset != a.Offset:
			t.Errorf("%s was acknowledged as queue %d at %d, and handled from queue %d at %d",
				id, a.Queue, a.Offset, gs[0].Queue, gs[0].Offset)
		}
	}
	l.checkFaultsLocked(t)
}

func (l *ledger) checkFaults(t testing.TB) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checkFaultsLocked(t)
}

func (l *ledger) checkFaultsLocked(t testing.TB) {
	t.Helper()
	for _, f := range l.faults {
		t.Error(f)
	}
}

// readAll reads every queue of a topic from its start to its end with a pull consumer. Offsets must run from 0
// without a gap; the result is indexed by queue and offset.
func readAll(t *testing.T, n *node, c client, topic string) map[int][]got {
	t.Helper()
	p := c.puller(t, n, topic)
	ids, err := p.queues()
	if err != nil {
		t.Fatal(err)
	}
	ends := mustDial(t, n.brokerAddr())
	all := map[int][]got{}
	for _, id := range ids {
		end, err := ends.maxOffset(topic, id)
		if err != nil {
			t.Fatal(err)
		}
		all[id] = readQueue(t, p, id, end)
	}
	return all
}

func readQueue(t *testing.T, p puller, id int, end int64) []got {
	t.Helper()
	var all []got
	for at := int64(0); at < end; {
		found, next, err := p.pull(id, at)
		if err != nil {
			t.Fatalf("pull queue %d at %d of %d: %v", id, at, end, err)
		}
		for i, g := range found {
			if g.Offset != at+int64(i) {
				t.Fatalf("pull queue %d at %d of %d: message %d has offset %d", id, at, end, i, g.Offset)
			}
		}
		if len(found) == 0 || next != at+int64(len(found)) {
			t.Fatalf("pull queue %d at %d of %d: %d messages, next is %d", id, at, end, len(found), next)
		}
		all, at = append(all, found...), next
	}
	return all
}

// waitVisible returns when every acknowledged message can be read. A ringmq node allows no delay at all; the stock
// broker builds its queues behind the acknowledgement.
func (l *ledger) waitVisible(t *testing.T, n *node, topic string) {
	t.Helper()
	last := map[int]int64{}
	l.mu.Lock()
	for _, a := range l.acked {
		last[a.Queue] = max(last[a.Queue], a.Offset)
	}
	l.mu.Unlock()
	within := time.Duration(0)
	if targetName == "stock" {
		within = patience
	}
	r := mustDial(t, n.brokerAddr())
	for queue, offset := range last {
		eventually(t, within, "acknowledged messages to be visible", func() error {
			end, err := r.maxOffset(topic, queue)
			if err == nil && end <= offset {
				err = fmt.Errorf("queue %d of %s ends at %d, acknowledged was %d", queue, topic, end, offset)
			}
			return err
		})
	}
}

// checkReadBack fails the test unless every acknowledged message is in stored, which readAll returned, at the place
// that its acknowledgement named, with the bytes that were sent.
func (l *ledger) checkReadBack(t testing.TB, stored map[int][]got) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, a := range l.acked {
		queue := stored[a.Queue]
		if a.Offset < 0 || a.Offset >= int64(len(queue)) {
			t.Errorf("%s was acknowledged as queue %d at %d, which ends at %d", id, a.Queue, a.Offset, len(queue))
			continue
		}
		if found, err := idOf(queue[a.Offset].Body); err != nil || found != id {
			t.Errorf("queue %d at %d: acknowledged was %s, found %s (%v)", a.Queue, a.Offset, id, found, err)
		}
	}
}
