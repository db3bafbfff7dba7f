package rpc_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
	"ringmq/node/rpc"
)

// codeOfTest is a code that nobody uses.
const codeOfTest wire.Code = 31999

// TestUnsupportedCodes: the answer names what this broker lacks, and the connection goes on.
func TestUnsupportedCodes(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	for code, name := range map[wire.Code]string{
		wire.ConsumerSendMsgBack: "CONSUMER_SEND_MSG_BACK", wire.PopMessage: "POP_MESSAGE", 9999: "9999", -7: "-7",
	} {
		ans := c.Ask(code, nil, nil)
		if ans.Code != wire.RequestCodeNotSupported || !strings.Contains(string(ans.Remark), name) {
			t.Errorf("%d: answered %d %q, want a remark with %s", code, ans.Code, ans.Remark, name)
		}
	}
}

// TestMissingFields: every code that is served says which field it misses, and goes on.
func TestMissingFields(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	for _, code := range rpc.Codes() {
		for _, body := range []string{"", "garbage"} {
			ans := c.Ask(code, nil, []byte(body))
			if ans.Code == wire.Success || len(ans.Remark) == 0 {
				t.Errorf("%v with body %q: answered %d %q", code, body, ans.Code, ans.Remark)
			}
		}
	}
	if got := c.Send("T", 0, "still there"); got.QueueOffset != 0 {
		t.Errorf("offset %d", got.QueueOffset)
	}
}

// TestIllTypedFields: the remark repeats the field and its value.
func TestIllTypedFields(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	req := nodetest.NewRequest(wire.PullMessage, nodetest.PullHeader("G", "T", 0, 0), nil)
	req.Set("queueId", "zero")
	ans, err := c.Try(req)
	if err != nil {
		t.Fatal(err)
	}
	if ans.Code != wire.SystemError || !strings.Contains(string(ans.Remark), `queueId="zero"`) {
		t.Errorf("answered %d %q", ans.Code, ans.Remark)
	}
}

// TestStrayAnswerIsIgnored: clients answer what they were asked; nobody waits for it here.
func TestStrayAnswerIsIgnored(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	var stray wire.Command
	stray.Answer(nodetest.NewRequest(wire.NotifyConsumerIdsChanged, nil, nil), wire.Success)
	if err := c.Oneway(&stray); err != nil {
		t.Fatal(err)
	}
	if ans := c.Ask(9999, nil, nil); ans.Code != wire.RequestCodeNotSupported {
		t.Errorf("answered %d", ans.Code)
	}
}

// TestPanicIsContained: the request that met a bug of ours is answered; nobody else notices.
func TestPanicIsContained(t *testing.T) {
	for _, worker := range []bool{false, true} {
		t.Run(fmt.Sprintf("worker=%v", worker), func(t *testing.T) {
			t.Cleanup(rpc.SetRoute(codeOfTest, worker, func(*rpc.Call) *wire.Command { panic("a bug") }))
			n := nodetest.Start(t, nodetest.Setup{})
			c := n.Client()
			for i := range int64(3) {
				ans := c.Ask(codeOfTest, nil, nil)
				if ans.Code != wire.SystemError || !strings.Contains(string(ans.Remark), "a bug") {
					t.Fatalf("answered %d %q", ans.Code, ans.Remark)
				}
				if got := n.Stats().Panics; got != i+1 {
					t.Errorf("%d panics counted, want %d", got, i+1)
				}
			}
			c.Send("T", 0, "fine")
		})
	}
}

// blocker serves codeOfTest on a worker and holds it until release.
func blocker(t *testing.T) (served <-chan struct{}, release func()) {
	in, out := make(chan struct{}, 2*rpc.WorkerQueue), make(chan struct{})
	t.Cleanup(rpc.SetRoute(codeOfTest, true, func(c *rpc.Call) *wire.Command {
		in <- struct{}{}
		<-out
		return c.OK()
	}))
	return in, func() { close(out) }
}

// ask sends a request for codeOfTest on its own and returns where the answer comes.
func ask(t *testing.T, c *nodetest.Client) <-chan *wire.Command {
	out := make(chan *wire.Command, 1)
	go func() {
		ans, err := c.Try(nodetest.NewRequest(codeOfTest, nil, nil))
		if err != nil {
			t.Error(err)
		}
		out <- ans
	}()
	return out
}

// TestFullWorkerLane: what finds no place is told so at once, and what has one is served.
func TestFullWorkerLane(t *testing.T) {
	served, release := blocker(t)
	n := nodetest.Start(t, nodetest.Setup{})
	c := n.Client()
	first := ask(t, c)
	<-served
	var waiting []<-chan *wire.Command
	for range rpc.WorkerQueue + 3 {
		waiting = append(waiting, ask(t, c))
	}
	nodetest.Until(t, "three are refused", func() bool { return n.Stats().Overloaded == 3 })
	release()
	busy := 0
	for _, w := range append(waiting, first) {
		ans := <-w
		switch {
		case ans.Code == wire.SystemBusy && strings.HasPrefix(string(ans.Remark), "[OVERLOAD]"):
			busy++
		case ans.Code != wire.Success:
			t.Errorf("answered %d %q", ans.Code, ans.Remark)
		}
	}
	if busy != 3 {
		t.Errorf("%d refused, want 3", busy)
	}
}

// TestLateInWorkerLane: a request that waited too long is not served any more, since its client has
// given up.
func TestLateInWorkerLane(t *testing.T) {
	served, release := blocker(t)
	n := nodetest.Start(t, nodetest.Setup{})
	c := n.Client()
	first := ask(t, c)
	<-served
	late := ask(t, c)
	nodetest.Until(t, "it is queued", func() bool { return n.Stats().Requests == 2 })
	n.Clock.Advance(time.Minute)
	release()
	if ans := <-first; ans.Code != wire.Success {
		t.Errorf("the first was answered %d %q", ans.Code, ans.Remark)
	}
	if ans := <-late; ans.Code != wire.SystemBusy || !strings.HasPrefix(string(ans.Remark), "[TIMEOUT_CLEAN_QUEUE]") {
		t.Errorf("the late one was answered %d %q", ans.Code, ans.Remark)
	}
}

// TestLargeRequestsInWorkerLane: the lane is bounded in bytes as well.
func TestLargeRequestsInWorkerLane(t *testing.T) {
	served, release := blocker(t)
	n := nodetest.Start(t, nodetest.Setup{})
	c := n.Client()
	first := ask(t, c)
	<-served
	large := make([]byte, 15<<20)
	answers := make(chan *wire.Command, 6)
	for range cap(answers) {
		go func() {
			ans, err := c.Try(nodetest.NewRequest(codeOfTest, nil, large))
			if err != nil {
				t.Error(err)
			}
			answers <- ans
		}()
	}
	for range 2 { // four of them fit
		if ans := <-answers; ans == nil || ans.Code != wire.SystemBusy || !strings.HasPrefix(string(ans.Remark), "[OVERLOAD]") {
			t.Fatalf("answered %+v", ans)
		}
	}
	release()
	<-first
	for range cap(answers) - 2 {
		if ans := <-answers; ans == nil || ans.Code != wire.Success {
			t.Errorf("answered %+v", ans)
		}
	}
}

// TestSecondPort: old clients send two ports below.
func TestSecondPort(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	c := nodetest.Dial(t, n.Addrs()[1].String())
	c.Send("T", 0, "x")
	if got := maxOffset(n.Client(), "T", 0); got != 1 {
		t.Errorf("maximum %d, want 1", got)
	}
}
