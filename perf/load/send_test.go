package load

import (
	"context"
	"testing"
	"time"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
)

// countFor is long enough for one answer on the busiest machine; nothing is asked of the rate.
const countFor = time.Second

var countedAt = time.UnixMilli(1_800_000_000_000)

// stored is how many messages the queues of the topic have.
func stored(t *testing.T, n *nodetest.Node, topic string) (sum int64) {
	t.Helper()
	c := n.Client()
	for queue := range int32(8) {
		ans := c.Must(wire.GetMaxOffset, &wire.QueueRequest{Topic: topic, QueueID: queue, Committed: true}, nil)
		var h wire.OffsetAnswer
		if err := h.Parse(ans); err != nil {
			t.Fatal(err)
		}
		sum += h.Offset
	}
	return sum
}

// TestSend runs a small load against a node: what the result counts is in the queues.
func TestSend(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, nodetest.Setup{RealTime: true})
	load := Send{Addr: n.Addr(), Conns: 2, InFlight: 4, Bytes: 100, For: countFor}
	r, err := load.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.OK == 0 || len(r.Refused) > 0 || r.PerSecond() <= 0 {
		t.Fatalf("result %+v", r)
	}
	if stored := stored(t, n, "LoadTopic"); stored < r.OK { // those under way at the end come on top
		t.Errorf("%d messages are stored, %d were answered", stored, r.OK)
	}
}

// TestSendRefused: answers that are no success are counted by their code, not as messages.
func TestSendRefused(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, nodetest.Setup{RealTime: true})
	r, err := Send{Addr: n.Addr(), Topic: "SCHEDULE_TOPIC_XXXX", Conns: 1, For: countFor}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.OK != 0 || r.Refused[wire.NoPermission] == 0 || len(r.Refused) != 1 {
		t.Errorf("result %+v, want refusals with code %d only", r, wire.NoPermission)
	}
}

// TestSendBatches: a batch counts as its messages.
func TestSendBatches(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, nodetest.Setup{RealTime: true})
	live := new(Live)
	load := Send{Addr: n.Addr(), Conns: 2, InFlight: 2, Bytes: 100, Batch: 8, For: countFor, Live: live}
	r, err := load.Run(t.Context())
	if err != nil || r.OK == 0 || r.OK%8 != 0 || len(r.Refused) > 0 || live.Sent.Load() < r.OK {
		t.Fatalf("%+v %v, live %d", r, err, live.Sent.Load())
	}
	if stored := stored(t, n, "LoadTopic"); stored < r.OK || stored > r.OK+2*2*8+live.Sent.Load() {
		t.Errorf("%d messages are stored, %d were answered", stored, r.OK)
	}
}

// TestEndWhileDialling: the end of a run is no error, wherever it finds a connection. A dial says so itself, a moment before
// its context does.
func TestEndWhileDialling(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	past, end := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer end()
	_, _, err := dial(past, "127.0.0.1:1")
	if err == nil || unlessOver(ctx, err) != nil {
		t.Errorf("%v", err)
	}
	if _, _, err := dial(ctx, "127.0.0.1:1"); unlessOver(ctx, err) == nil {
		t.Error("a refused connection was taken for the end of the run")
	}
}
