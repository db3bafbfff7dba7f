package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"ringmq/netio/remoting"
	"ringmq/netio/wire"
	"ringmq/node/config"
	"ringmq/node/topic"
	"ringmq/store/vfs/memfs"
)

// TestFailureWhileStarting: the log may fail before the name servers are there. The failure used to tell them from a
// goroutine of its own, which read what Start was about to set, and which Stop's wait for goroutines could miss.
func TestFailureWhileStarting(t *testing.T) {
	n := made(t)
	n.storeFailed(errors.New("the disk is gone"))
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	if route := routeOf(t, n, "TBW102"); len(route.QueueDatas) != 1 || route.QueueDatas[0].Perm&2 != 0 {
		t.Errorf("queues %+v, want one that cannot be written", route.QueueDatas)
	}
	stop(t, n)
}

// TestTopicsAtOnce: topics that workers create at the same time are all routed. Each told the name server what it had
// seen, and the one that was late took the others' topics out again, until the next change.
func TestTopicsAtOnce(t *testing.T) {
	n := made(t)
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	const rounds, workers = 20, 16
	for round := range rounds {
		var all sync.WaitGroup
		for w := range workers {
			all.Go(func() {
				if _, err := n.topics.EnsureRetry(fmt.Sprint(round, "-", w), 1, false); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for w := range workers {
			name := topic.Retry(fmt.Sprint(round, "-", w))
			if r := routeOf(t, n, name); len(r.QueueDatas) != 1 {
				t.Fatalf("round %d: nobody finds %s", round, name)
			}
		}
	}
	stop(t, n)
}

// TestTopicWhileStopping: a topic that a worker creates after the node has left the routes does not bring it back.
func TestTopicWhileStopping(t *testing.T) {
	n := made(t)
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	n.leave()
	if _, err := n.topics.EnsureDLQ("G"); err != nil {
		t.Fatal(err)
	}
	if r := routeOf(t, n, topic.DLQ("G")); len(r.QueueDatas) != 0 {
		t.Errorf("clients are sent to %+v", r.QueueDatas)
	}
	stop(t, n)
}

// made is a node on ports of the kernel's choice that is not started yet.
func made(t *testing.T) *Node {
	t.Helper()
	c, _, err := config.Parse(nil, config.Env{
		Lookup:   func(string) (string, bool) { return "", false },
		Hostname: "test", Home: "/", Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")},
	}, map[string]string{
		"brokerName": "b", "advertise": "127.0.0.1", "adminListen": "", "storePathRootDir": "/data", "mappedFileSizeCommitLog": "1048576",
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Listen, c.NamesrvListen = []string{"127.0.0.1:0"}, "127.0.0.1:0"
	return &Node{
		opts: Options{Config: c, FS: memfs.New(1), MemoryBytes: 1 << 30}, clock: machineClock{}, log: quiet, failed: make(chan struct{}),
	}
}

// routeOf asks the node's name server; a topic that nobody has is a route without queues.
func routeOf(t *testing.T, n *Node, name string) (route wire.RouteData) {
	t.Helper()
	addr, _ := n.NamesrvAddr()
	client, err := remoting.Dial(t.Context(), addr.String(), remoting.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var req wire.Command
	req.Request(wire.GetRouteInfoByTopic, 0)
	(&wire.GetRouteRequest{Topic: name}).Append(&req)
	ans, err := client.Call(t.Context(), &req)
	if err == nil && ans.Code == wire.Success {
		err = wire.Unmarshal(ans.Body, &route)
	}
	if err != nil {
		t.Fatal(err)
	}
	return route
}

func stop(t *testing.T, n *Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		t.Error(err)
	}
}
