package load

import (
	"testing"
	"time"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
)

// countFor is long enough for one answer on the busiest machine; nothing is asked of the rate.
const countFor = time.Second

// TestSend runs a small load against a node: what the result counts is in the queues.
func TestSend(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{RealTime: true})
	load := Send{Addr: n.Addr(), Conns: 2, InFlight: 4, Bytes: 100, For: countFor}
	r, err := load.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.OK == 0 || len(r.Refused) > 0 || r.PerSecond() <= 0 {
		t.Fatalf("result %+v", r)
	}
	c, stored := n.Client(), int64(0)
	for queue := range int32(8) {
		ans := c.Must(wire.GetMaxOffset, &wire.QueueRequest{Topic: "LoadTopic", QueueID: queue, Committed: true}, nil)
		var h wire.OffsetAnswer
		if err := h.Parse(ans); err != nil {
			t.Fatal(err)
		}
		stored += h.Offset
	}
	if stored < r.OK { // those under way at the end come on top
		t.Errorf("%d messages are stored, %d were answered", stored, r.OK)
	}
}

// TestSendRefused: answers that are no success are counted by their code, not as messages.
func TestSendRefused(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{RealTime: true})
	r, err := Send{Addr: n.Addr(), Topic: "SCHEDULE_TOPIC_XXXX", Conns: 1, For: countFor}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.OK != 0 || r.Refused[wire.NoPermission] == 0 || len(r.Refused) != 1 {
		t.Errorf("result %+v, want refusals with code %d only", r, wire.NoPermission)
	}
}
