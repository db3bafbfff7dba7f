package load

import (
	"testing"
	"time"

	"ringmq/node/nodetest"
)

// TestPull reads what a small load has stored, over and over, and counts whole messages.
func TestPull(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{RealTime: true})
	sent, err := Send{Addr: n.Addr(), Conns: 1, InFlight: 16, Bytes: 100, Queues: 2, For: countFor / 2}.Run(t.Context())
	if err != nil || sent.OK == 0 {
		t.Fatalf("%+v %v", sent, err)
	}
	r, err := Pull{Addr: n.Addr(), Queues: 2, Conns: 3, For: countFor / 2}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Messages == 0 || r.Pulls == 0 || r.Messages > 32*r.Pulls || r.Bytes < 100*r.Messages || r.PerSecond() <= 0 {
		t.Errorf("%+v", r)
	}
}

// TestPullRefused: an answer that is no success ends the run with its text.
func TestPullRefused(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{RealTime: true})
	if r, err := (Pull{Addr: n.Addr(), Topic: "Nothing", Conns: 1, For: time.Minute}).Run(t.Context()); err == nil {
		t.Errorf("%+v", r)
	}
}
