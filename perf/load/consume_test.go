package load

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
)

// TestConsumeOnce: a reader finds what was sent, all of it and nothing else, over fewer connections than queues.
func TestConsumeOnce(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, nodetest.Setup{RealTime: true})
	open := Open{Send: Send{Addr: n.Addr(), Conns: 2, Bytes: 200, RunID: 9, For: countFor}, Rate: 400, Wait: time.Minute}
	sent, err := open.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n.Client().Send("LoadTopic", 3, "somebody else's")
	for _, conns := range []int{1, 3, 8, 20} {
		var mu sync.Mutex
		seen := map[Stamp]int{}
		c := Consume{Addr: n.Addr(), Conns: conns, Mode: Once, For: time.Minute, OnMessage: func(_ int, s Stamp) {
			mu.Lock()
			defer mu.Unlock()
			seen[s]++
		}}
		got, err := c.Run(t.Context())
		copies := int64(max(1, conns/8))
		if conns == 20 { // 4 queues are read by 3 connections, 4 by 2
			copies = 0
		}
		if err != nil || got.Wrong != 0 || int64(len(seen)) != sent.OK || copies > 0 && (got.Messages != copies*(sent.OK+1) || got.Foreign != copies) {
			t.Errorf("%d connections: %+v %v, %d seen, %d sent", conns, got, err, len(seen), sent.OK)
		}
	}
}

// TestFollow: a consumer that waits gets what is sent after it has begun, once each, and nothing from before.
func TestFollow(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, nodetest.Setup{RealTime: true})
	if _, err := (Topics{Addr: n.Addr(), Topic: "LoadTopic", Topics: 1, Queues: 8}).Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	for q := range int32(8) {
		n.Client().Send("LoadTopic", q, "old")
	}
	ready := make(chan struct{})
	var sent Result
	var sender sync.WaitGroup
	sender.Go(func() {
		<-ready
		var err error
		if sent, err = (Open{Send: Send{Addr: n.Addr(), Conns: 2, Bytes: 200, RunID: 9, For: countFor}, Rate: 200, Wait: time.Minute}).Run(t.Context()); err != nil {
			t.Error(err)
		}
	})
	got, err := Consume{Addr: n.Addr(), Conns: 2, Mode: Follow, Newest: true, RunID: 9, For: 2 * time.Second, Ready: func() { close(ready) }}.Run(t.Context())
	sender.Wait()
	if err != nil || got.Foreign != 0 || got.Wrong != 0 || got.Messages != sent.OK || got.Delivery.TotalCount() != sent.OK {
		t.Errorf("%+v %v, sent %d", got, err, sent.OK)
	}
}

// TestCatchUpGoesRound, and an empty queue is no busy loop but an error.
func TestCatchUpGoesRound(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, nodetest.Setup{RealTime: true})
	n.Client().Send("LoadTopic", 0, "one")
	got, err := Consume{Addr: n.Addr(), Queues: 1, Conns: 1, Plain: true, For: countFor}.Run(t.Context())
	if err != nil || got.Messages < 2 || got.Pulls != got.Messages || got.P99() <= 0 || got.PerSecond() <= 0 {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := (Consume{Addr: n.Addr(), Queues: 4, Conns: 1, For: countFor}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Error("queues without messages were caught up with:", err)
	}
	if _, err := (Consume{Addr: n.Addr(), Topic: "Nothing", Conns: 1, For: time.Minute}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "code 17") {
		t.Error("a topic that does not exist:", err)
	}
}

// TestWrongMessagesAreSeen: a broker that answers with the records of another queue, or with altered ones, is found out.
func TestWrongMessagesAreSeen(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, nodetest.Setup{RealTime: true})
	if _, err := (Open{Send: Send{Addr: n.Addr(), Queues: 1, Conns: 1, Bytes: 200, For: 100 * time.Millisecond}, Rate: 100, Wait: time.Minute}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := n.Client()
	_, real := c.Pull("g", "LoadTopic", 0, 0)
	for name, bend := range map[string]func(body []byte, req *wire.PullRequest){
		"a body":  func(body []byte, _ *wire.PullRequest) { body[150] ^= 1 },
		"a place": func([]byte, *wire.PullRequest) {},
	} {
		addr := server(t, func(conn net.Conn, in *frames) {
			for {
				f, err := in.next()
				var req wire.Command
				var h wire.PullRequest
				if err != nil || req.Parse(f) != nil || h.Parse(&req) != nil {
					return
				}
				var a wire.Command
				a.Answer(&req, wire.Success)
				(&wire.PullAnswer{NextBeginOffset: 10, MaxOffset: 10}).Append(&a)
				a.Body = append([]byte(nil), real.Body...)
				bend(a.Body, &h)
				if _, err := conn.Write(a.Append(nil)); err != nil {
					return
				}
			}
		})
		queues := map[string]int{"a body": 1, "a place": 2}[name]
		got, err := Consume{Addr: addr, Queues: queues, Conns: 1, Mode: Once, For: time.Minute}.Run(t.Context())
		if err != nil || got.Wrong == 0 || got.FirstWrong == nil {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
}

// TestTopics: all are there, each with its queues.
func TestTopics(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, nodetest.Setup{RealTime: true})
	if took, err := (Topics{Addr: n.Addr(), Topic: "Many", Topics: 20, Queues: 3, Conns: 4}).Create(t.Context()); err != nil || took <= 0 {
		t.Fatal(took, err)
	}
	r, err := Send{Addr: n.Addr(), Topic: "Many", Topics: 20, Queues: 3, Conns: 1, InFlight: 60, For: countFor}.Run(t.Context())
	if err != nil || len(r.Refused) > 0 || r.OK < 60 {
		t.Errorf("%+v %v", r, err)
	}
	if got, err := (Consume{Addr: n.Addr(), Topic: "Many", Topics: 20, Queues: 3, Conns: 4, Mode: Once, For: time.Minute}).Run(t.Context()); err != nil || got.Messages < r.OK {
		t.Errorf("%+v %v", got, err)
	}
}
