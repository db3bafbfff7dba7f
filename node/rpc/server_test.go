package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
	"ringmq/node/rpc"
	"ringmq/store/vfs"
	"ringmq/store/vfs/memfs"
)

// codeOfTest is a code that nobody uses.
const codeOfTest wire.Code = 31999

// TestUnsupportedCodes: the answer names what this broker lacks, and the connection goes on.
func TestUnsupportedCodes(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	for code, name := range map[wire.Code]string{
		wire.EndTransaction: "37 (END_TRANSACTION)", wire.PopMessage: "200050 (POP_MESSAGE)", 9999: "9999", -7: "-7",
	} {
		ans := c.Ask(code, nil, nil)
		if want := "request code " + name + " is not supported"; ans.Code != wire.RequestCodeNotSupported || !strings.HasPrefix(string(ans.Remark), want) {
			t.Errorf("%d: answered %d %q, want %q", code, ans.Code, ans.Remark, want)
		}
	}
}

// TestMissingFields: every code that is served says which field it misses, and goes on.
func TestMissingFields(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	for _, code := range rpc.Codes() {
		if code == wire.GetAllDelayOffset { // it wants none
			continue
		}
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
func ask(t *testing.T, c *nodetest.Client) <-chan *wire.Command { return askWith(t, c, nil) }

func askWith(t *testing.T, c *nodetest.Client, body []byte) <-chan *wire.Command {
	out := make(chan *wire.Command, 1)
	go func() {
		ans, err := c.Try(nodetest.NewRequest(codeOfTest, nil, body))
		if err != nil {
			t.Error(err)
		}
		out <- ans
	}()
	return out
}

// sharers connects n clients that have one worker.
func sharers(n *nodetest.Node, count int) (cs []*nodetest.Client) {
	for i := range count * rpc.Workers {
		if c := n.Client(); i%rpc.Workers == 0 {
			cs = append(cs, c)
		}
	}
	return cs
}

// outcomes waits for the answers and counts those that were refused; what was not must have succeeded.
func outcomes(t *testing.T, waiting []<-chan *wire.Command) (refused int) {
	t.Helper()
	for _, w := range waiting {
		ans := <-w
		switch {
		case ans == nil: // ask has said why
		case ans.Code == wire.SystemBusy && strings.HasPrefix(string(ans.Remark), "[OVERLOAD]"):
			refused++
		case ans.Code != wire.Success:
			t.Errorf("answered %d %q", ans.Code, ans.Remark)
		}
	}
	return refused
}

// TestFullWorkerLane: what finds no place is told so at once, and what has one is served.
func TestFullWorkerLane(t *testing.T) {
	served, release := blocker(t)
	n := nodetest.Start(t, nodetest.Setup{})
	cs := sharers(n, rpc.WorkerQueue/rpc.ConnQueue+1)
	waiting := []<-chan *wire.Command{ask(t, cs[0])}
	<-served
	for i := range rpc.WorkerQueue + 3 {
		waiting = append(waiting, ask(t, cs[i%len(cs)]))
	}
	nodetest.Until(t, "three are refused", func() bool { return n.Stats().Overloaded == 3 })
	release()
	if refused := outcomes(t, waiting); refused != 3 {
		t.Errorf("%d refused, want 3", refused)
	}
}

// TestHoarderOfAWorker: a client that asked faster than its worker answered took all of the worker's places,
// and heartbeats of its neighbours were refused. Now it is refused alone, beyond its own share, and has the
// whole share again afterwards.
func TestHoarderOfAWorker(t *testing.T) {
	served, release := blocker(t)
	n := nodetest.Start(t, nodetest.Setup{})
	cs := sharers(n, 2)
	hoarder, neighbour := cs[0], cs[1]
	waiting := []<-chan *wire.Command{ask(t, hoarder)}
	<-served
	for range rpc.ConnQueue + 4 {
		waiting = append(waiting, ask(t, hoarder))
	}
	nodetest.Until(t, "five are refused", func() bool { return n.Stats().Overloaded == 5 })
	modest := ask(t, neighbour)
	nodetest.Until(t, "the neighbour is queued", func() bool { return n.Stats().Requests == rpc.ConnQueue+6 })
	release()
	if ans := <-modest; ans.Code != wire.Success {
		t.Errorf("the neighbour was answered %d %q", ans.Code, ans.Remark)
	}
	if refused := outcomes(t, waiting); refused != 5 {
		t.Errorf("%d refused, want 5", refused)
	}
	if ans := <-ask(t, hoarder); ans.Code != wire.Success {
		t.Errorf("afterwards it was answered %d %q", ans.Code, ans.Remark)
	}
}

// TestStopWithAHangingWorker: a request that hangs held up the stop for ever. Now the stop ends with its time and says
// what it left behind, and the directory stays locked: the request may still write there. Once it has come back the
// node can be stopped for good.
func TestStopWithAHangingWorker(t *testing.T) {
	served, release := blocker(t)
	n := nodetest.Start(t, nodetest.Setup{})
	if err := n.Client().Oneway(nodetest.NewRequest(codeOfTest, nil, nil)); err != nil {
		t.Fatal(err)
	}
	<-served
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := n.Node.Stop(ctx); err == nil || !strings.Contains(err.Error(), "1 requests") {
		t.Errorf("stop: %v, want a complaint about one request", err)
	}
	if _, err := nodetest.TryStart(t, nodetest.Setup{FS: n.FS}); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("another node beside a request that may still write: %v", err)
	}
	release()
	n.Stop()
	nodetest.Start(t, nodetest.Setup{FS: n.FS})
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
	nodetest.Until(t, "the slow one has a line in the log", func() bool {
		return strings.Contains(n.Log.String(), "rpc: a request was slow") && strings.Contains(n.Log.String(), "took=1m0s")
	})
}

// TestLargeRequestsInWorkerLane: the lane is bounded in bytes as well, and so is a connection's share of it,
// which one request of any size may use up.
func TestLargeRequestsInWorkerLane(t *testing.T) {
	served, release := blocker(t)
	n := nodetest.Start(t, nodetest.Setup{})
	first := n.Client()
	waiting := []<-chan *wire.Command{ask(t, first)}
	<-served
	body := make([]byte, wire.MaxFrameBytes-600) // four of them are in the bounds of the lane, but not beside another
	large := func(c *nodetest.Client) { waiting = append(waiting, askWith(t, c, body)) }
	refused := func(count int64, why string) {
		t.Helper()
		nodetest.Until(t, why, func() bool { return n.Stats().Overloaded == count })
	}
	large(first)
	refused(1, "it is more than is left of its share")
	for i := range int64(4) { // each alone on its connection
		large(n.Client())
		nodetest.Until(t, "it has arrived", func() bool { return n.Stats().Requests == 3+i })
	}
	refused(2, "the lane is full")
	release()
	if got := outcomes(t, waiting); got != 2 {
		t.Errorf("%d refused, want 2", got)
	}
}

// TestHalfClosedPeer: whoever ends his side behind a request gets the answer, also where the disk or a worker has to do
// something first: a topic that is made on the way, and a message that waits for its flush.
func TestHalfClosedPeer(t *testing.T) {
	disk := memfs.New(1)
	n := nodetest.Start(t, nodetest.Setup{FS: disk})
	n.Client().Send("T", 0, "x")
	t.Cleanup(disk.ReleaseAll)
	for _, topic := range []string{"T", "New"} {
		conn, err := net.Dial("tcp", n.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		disk.HoldFlushes()
		req := nodetest.NewRequest(wire.SendMessageV2, nodetest.SendHeader(topic, 0), []byte("y"))
		if _, err := conn.Write(req.Append(nil)); err != nil {
			t.Fatal(err)
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		disk.WaitHeld(1)
		disk.ReleaseAll()
		b, err := io.ReadAll(conn)
		if err != nil {
			t.Fatal(err)
		}
		var ans wire.Command
		if err := ans.Parse(b); err != nil || ans.Code != wire.Success {
			t.Errorf("%s: answered %+v, %v", topic, ans, err)
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
