package node_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
	"ringmq/store/vfs"
	"ringmq/store/vfs/memfs"
)

// try sends a message without waiting for the answer.
func try(t *testing.T, c *nodetest.Client, h *wire.SendRequest) <-chan *wire.Command {
	t.Helper()
	out := make(chan *wire.Command, 1)
	go func() {
		ans, err := c.Try(nodetest.NewRequest(wire.SendMessageV2, h, []byte("x")))
		if err != nil {
			t.Log(err)
		}
		out <- ans
	}()
	return out
}

// TestStopAndStart: a clean stop leaves no abort file, and everything is there afterwards.
func TestStopAndStart(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	c := n.Client()
	for i := range 10 {
		c.Send("T", 0, fmt.Sprint("m", i))
	}
	n.Stop()
	if _, err := n.FS.Stat("/data/abort"); err == nil {
		t.Error("abort is left after a clean stop")
	}
	again := nodetest.Start(t, nodetest.Setup{FS: n.FS, Clock: n.Clock})
	records, _ := again.Client().Pull("G", "T", 0, 0)
	if len(records) != 10 {
		t.Fatalf("%d messages, want 10", len(records))
	}
	for i, r := range records {
		if string(r.Body) != fmt.Sprint("m", i) || r.QueueOffset != int64(i) {
			t.Errorf("message %d: %q at %d", i, r.Body, r.QueueOffset)
		}
	}
}

// stopHeld stops a node whose flushes are held, and lets them go once it has begun to stop.
func stopHeld(t *testing.T, n *nodetest.Node, disk *memfs.FS) {
	t.Helper()
	addr, _ := n.NamesrvAddr()
	names := nodetest.Dial(t, addr.String())
	stopped := make(chan error, 1)
	go func() { stopped <- n.TryStop() }()
	nodetest.Until(t, "the broker is out of the routes, or the name server has ended", func() bool {
		ans, err := names.Try(nodetest.NewRequest(wire.GetRouteInfoByTopic, &wire.GetRouteRequest{Topic: "T"}, nil))
		return err != nil || ans.Code == wire.TopicNotExist
	})
	disk.ReleaseAll()
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
}

// TestStopFinishesWhatIsOwed: clients are sent elsewhere first, and a message that was taken before
// the stop is acknowledged when it is on the disk.
func TestStopFinishesWhatIsOwed(t *testing.T) {
	disk := memfs.New(1)
	n := nodetest.Start(t, nodetest.Setup{FS: disk})
	c := n.Client()
	c.Send("T", 0, "x")
	disk.HoldFlushes()
	owed := try(t, c, nodetest.SendHeader("T", 0))
	disk.WaitHeld(1)
	stopHeld(t, n, disk)
	if ans := <-owed; ans == nil || ans.Code != wire.Success {
		t.Errorf("the owed answer is %+v", ans)
	}
}

// TestStopSendsProducersElsewhere: while a name server takes its time to let the node go, sends are
// refused with a code upon which producers try another broker.
func TestStopSendsProducersElsewhere(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	n := nodetest.Start(t, nodetest.Setup{Config: map[string]string{
		"namesrvAddr": mute.Addr().String(), "registerBrokerTimeoutMills": "9000",
	}})
	c := n.Client()
	c.Send("T", 0, "x")
	conn, err := mute.Accept() // the node registers
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- n.TryStop() }()
	nodetest.Until(t, "sends are refused", func() bool {
		return c.Ask(wire.SendMessageV2, nodetest.SendHeader("T", 0), []byte("x")).Code == wire.ServiceNotAvailable
	})
	mute.Close()
	conn.Close()
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
}

// TestStoreFailure: the first failed flush is final. Who waits is told, nothing is taken any more,
// reads go on, and clients find no queue to write to.
func TestStoreFailure(t *testing.T) {
	disk := memfs.New(1)
	n := nodetest.Start(t, nodetest.Setup{FS: disk, Config: map[string]string{"adminListen": "127.0.0.1:0"}})
	c := n.Client()
	c.Send("T", 0, "safe")
	disk.HoldFlushes()
	owed := try(t, c, nodetest.SendHeader("T", 0))
	disk.WaitHeld(1)
	disk.Release(0, errors.New("the disk is gone"))
	if ans := <-owed; ans == nil || ans.Code != wire.ServiceNotAvailable || len(ans.Remark) == 0 {
		t.Errorf("the owed answer is %+v", ans)
	}
	disk.ReleaseAll()
	if ans := <-try(t, c, nodetest.SendHeader("T", 0)); ans == nil || ans.Code != wire.ServiceNotAvailable {
		t.Errorf("the next send was answered %+v", ans)
	}
	if records, _ := c.Pull("G", "T", 0, 0); len(records) != 1 || string(records[0].Body) != "safe" {
		t.Errorf("%d messages can be read, want the one that is safe", len(records))
	}
	nodetest.Until(t, "the route loses the write permission", func() bool {
		return route(t, n, "T").QueueDatas[0].Perm == 4
	})
	for _, page := range []string{"healthz", "readyz"} {
		res, err := http.Get("http://" + n.AdminAddr() + "/" + page)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: %s", page, res.Status)
		}
	}
	if n.Err() == nil {
		t.Error("the node has no complaint")
	}
	if log := n.Log.String(); strings.Count(log, "level=ERROR") != 1 || !strings.Contains(log, "the disk is gone") {
		t.Error("want one complaint in the log, with the reason")
	}
	n.Kill()
}

func route(t *testing.T, n *nodetest.Node, topic string) (r wire.RouteData) {
	t.Helper()
	addr, _ := n.NamesrvAddr()
	ans := nodetest.Dial(t, addr.String()).Must(wire.GetRouteInfoByTopic, &wire.GetRouteRequest{Topic: topic}, nil)
	if err := wire.Unmarshal(ans.Body, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSecondNodeIsRefused: one directory serves one node, and the complaint says so.
func TestSecondNodeIsRefused(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	_, err := nodetest.TryStart(t, nodetest.Setup{FS: n.FS})
	if !errors.Is(err, vfs.ErrLocked) || !strings.Contains(err.Error(), "/data") {
		t.Errorf("got %v, want ErrLocked and the directory", err)
	}
	n.Client().Send("T", 0, "undisturbed")
}

// TestTakenPort: the start fails with the address, and leaves nothing behind: the directory can be
// used at once.
func TestTakenPort(t *testing.T) {
	l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", nodetest.FreePort(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	disk := memfs.New(1)
	for _, key := range []string{"namesrvListenPort", "listenPort", "adminListen"} {
		_, port, _ := net.SplitHostPort(l.Addr().String())
		if key == "adminListen" {
			port = l.Addr().String()
		}
		if _, err := nodetest.TryStart(t, nodetest.Setup{FS: disk, Config: map[string]string{key: port}}); err == nil || !strings.Contains(err.Error(), l.Addr().String()) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s taken: %v, want an error with %v", key, err, l.Addr())
		}
	}
	nodetest.Start(t, nodetest.Setup{FS: disk}).Client().Send("T", 0, "x")
}

// TestOffsetsBeyondTheEnd: what a crash took from the log is taken back from the consumers as well,
// and on the disk before anybody is served.
func TestOffsetsBeyondTheEnd(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	c := n.Client()
	c.Send("T", 0, "x")
	c.Pull("G", "T", 0, 0) // makes the group
	commit := wire.UpdateOffsetRequest{ConsumerGroup: []byte("G"), Topic: []byte("T"), CommitOffset: 100}
	c.Must(wire.UpdateConsumerOffset, &commit, nil)
	n.Stop()
	again := nodetest.Start(t, nodetest.Setup{FS: n.FS, Clock: n.Clock})
	ans := again.Client().Must(wire.QueryConsumerOffset, &wire.QueryOffsetRequest{ConsumerGroup: commit.ConsumerGroup, Topic: commit.Topic}, nil)
	if got := ans.Text("offset"); got != "1" {
		t.Errorf("offset %s, want the end of the queue, 1", got)
	}
	if !strings.Contains(again.Log.String(), "beyond the end of its queue") {
		t.Error("the log does not tell of it")
	}
}

// TestOffsetsAreWrittenInTime: without a stop they are on the disk after a period.
func TestOffsetsAreWrittenInTime(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	c := n.Client()
	c.Send("T", 0, "x")
	c.Pull("G", "T", 0, 0)
	c.Must(wire.UpdateConsumerOffset, &wire.UpdateOffsetRequest{ConsumerGroup: []byte("G"), Topic: []byte("T"), CommitOffset: 1}, nil)
	n.Clock.Advance(n.Config.OffsetFlush)
	nodetest.Until(t, "the file is there", func() bool {
		_, err := n.FS.Stat(n.Config.SideFile("consumerOffset.json"))
		return err == nil
	})
}

// TestRegistersElsewhere: a node without a name server of its own is known to another one, new topics
// at once, and forgotten when it stops.
func TestRegistersElsewhere(t *testing.T) {
	names := nodetest.Start(t, nodetest.Setup{})
	addr, _ := names.NamesrvAddr()
	n := nodetest.Start(t, nodetest.Setup{Config: map[string]string{
		"brokerName": "guest", "namesrvAddr": addr.String(), "namesrvListenPort": "0", "registerNameServerPeriod": "3600000",
	}})
	if _, on := n.NamesrvAddr(); on {
		t.Error("there is a name server though it is switched off")
	}
	n.Client().Send("Guests", 0, "x")
	brokers := func() (list []string) {
		ans := nodetest.Dial(t, addr.String()).Ask(wire.GetRouteInfoByTopic, &wire.GetRouteRequest{Topic: "Guests"}, nil)
		var r wire.RouteData
		if ans.Code == wire.Success && wire.Unmarshal(ans.Body, &r) == nil {
			for _, b := range r.BrokerDatas {
				list = append(list, b.BrokerName)
			}
		}
		return list
	}
	nodetest.Until(t, "the topic is routed", func() bool { return slices.Equal(brokers(), []string{"guest"}) })
	n.Stop()
	if got := brokers(); len(got) != 0 {
		t.Errorf("still routed to %v after the stop", got)
	}
}

// TestReadyWhenRegistered: a node that no name server knows is found by nobody. It serves, but it is not ready.
func TestReadyWhenRegistered(t *testing.T) {
	port := nodetest.FreePort(t)
	n := nodetest.Start(t, nodetest.Setup{Config: map[string]string{
		"brokerName": "guest", "adminListen": "127.0.0.1:0", "namesrvAddr": fmt.Sprint("127.0.0.1:", port), "namesrvListenPort": "0",
	}})
	n.Client().Send("T", 0, "x")
	if status, body := get(t, n, "readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "no name server") {
		t.Errorf("readyz: %d %s", status, body)
	}
	if status, body := get(t, n, "healthz"); status != http.StatusOK {
		t.Errorf("healthz: %d %s", status, body)
	}
	nodetest.Start(t, nodetest.Setup{Config: map[string]string{"namesrvListenPort": fmt.Sprint(port)}})
	nodetest.Until(t, "it is ready", func() bool {
		status, _ := get(t, n, "readyz")
		return status == http.StatusOK
	})
}

// TestMetrics: the page has numbers of each layer.
func TestMetrics(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{Config: map[string]string{"adminListen": "127.0.0.1:0"}})
	n.Client().Send("T", 0, "x")
	res, err := http.Get("http://" + n.AdminAddr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var page strings.Builder
	if err := res.Write(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ringmq_rpc_messages_sent_total{", "ringmq_rpc_requests_total{", "ringmq_net_connections{", "rocketmq_messages_in_total{", "ringmq_rpc_pulls_waiting{"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("no %s", want)
		}
	}
}

// TestMachineClock: the clock that a node uses outside of tests rings and ticks.
func TestMachineClock(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{RealTime: true})
	c := n.Client()
	c.Send("T", 0, "x")
	h := nodetest.PullHeader("G", "T", 0, 1)
	h.SysFlag |= wire.PullSuspend
	h.SuspendTimeoutMillis = 20
	begun := time.Now()
	if ans := c.Ask(wire.PullMessage, h, nil); ans.Code != wire.PullNotFound || time.Since(begun) < 20*time.Millisecond {
		t.Errorf("answered %d after %v", ans.Code, time.Since(begun))
	}
}
