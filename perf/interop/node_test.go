package interop

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startWait = patience
	stopWait  = 30 * time.Second
	flushSync = "SYNC_FLUSH"
	flushBuf  = "ASYNC_FLUSH"

	brokerName  = "interop-a"
	clusterName = "interop"
)

// nodeOptions is what a story decides about its node.
type nodeOptions struct {
	flush          string // flushDiskType; empty for the target's own default
	segmentBytes   int    // size of a commit log file; 0 for 64 MiB
	delays         string // messageDelayLevel; empty for the default
	foreignNamesrv bool   // a ringmq node registers with a name server that the story runs on the node's port for it
}

// node is one broker with its name server. Ports and data directory stay the same over restarts.
type node struct {
	nodeOptions
	ports
	dir    string
	target target

	// Lifecycle only: one goroutine at a time starts, stops and kills.
	broker *process
}

// target is a kind of node: ringmq, or the stock broker that ringmq is compared with.
type target interface {
	// prepare does what is needed once per run. Its error is errMissing when the machine lacks something.
	prepare() error
	// start starts the processes of n, for the first time or again, and returns the broker's.
	start(n *node) (*process, error)
	// ready is nil once clients can use n.
	ready(n *node) error
	// cleanup ends what start left beside the broker.
	cleanup(n *node)
}

func newTarget() (target, error) {
	switch targetName {
	case "ringmq":
		return ringmqTarget{}, nil
	case "stock":
		return &stockTarget{}, nil
	}
	return nil, fmt.Errorf("RINGMQ_INTEROP_TARGET=%q: want ringmq or stock", targetName)
}

// ownNode starts a node for one test, which may stop and kill it.
func ownNode(t *testing.T, o nodeOptions) *node {
	t.Helper()
	n := unstartedNode(t, o)
	n.mustStart(t)
	return n
}

// unstartedNode is ownNode before its first start.
func unstartedNode(t *testing.T, o nodeOptions) *node {
	t.Helper()
	n, err := makeNode(o)
	if err != nil {
		t.Fatal(err)
	}
	need(t, n.target.prepare())
	t.Cleanup(func() {
		if t.Failed() && n.broker != nil {
			t.Logf("the end of %s:\n%s", n.logFile(), n.broker.tail())
		}
		n.close()
	})
	return n
}

// shared is the node of all stories that leave it running.
var shared = struct {
	sync.Mutex
	n   *node
	err error
}{}

// sharedNode starts the shared node on first use. Stories use topics and groups of their own on it.
func sharedNode(t *testing.T) *node {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.n == nil && shared.err == nil {
		n, err := makeNode(nodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		need(t, n.target.prepare())
		shared.n, shared.err = n, n.start()
	}
	if shared.err != nil {
		t.Fatal("the shared node did not start:", shared.err)
	}
	if err := shared.n.broker.running(); err != nil {
		t.Fatal("the shared node:", err)
	}
	n := shared.n
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the shared node's %s:\n%s", n.logFile(), n.broker.tail())
		}
	})
	return n
}

// stopShared ends the shared node; a run that leaves a node which does not stop cleanly says so.
func stopShared() {
	shared.Lock()
	defer shared.Unlock()
	if shared.n == nil {
		return
	}
	if shared.n.broker != nil && shared.n.broker.running() == nil {
		if err := shared.n.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "interop: the shared node at the end:", err)
		}
	}
	shared.n.close()
}

func makeNode(o nodeOptions) (*node, error) {
	if o.segmentBytes == 0 {
		o.segmentBytes = 64 << 20
	}
	tg, err := newTarget()
	if err != nil {
		return nil, err
	}
	p, err := allocatePorts()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(workDir, fmt.Sprintf("node-%d", p.broker))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return &node{nodeOptions: o, ports: p, dir: dir, target: tg}, nil
}

func (n *node) namesrvAddr() string { return fmt.Sprintf("127.0.0.1:%d", n.ports.namesrv) }
func (n *node) brokerAddr() string  { return fmt.Sprintf("127.0.0.1:%d", n.ports.broker) }
func (n *node) logFile() string     { return filepath.Join(n.dir, "node.log") }

// start returns when clients can use the node.
func (n *node) start() error {
	p, err := n.target.start(n)
	if err != nil {
		return err
	}
	n.broker = p
	var died error
	err = poll(startWait, func() error {
		if died = p.running(); died != nil {
			return nil
		}
		return n.target.ready(n)
	})
	return errors.Join(died, err)
}

func (n *node) mustStart(t testing.TB) {
	t.Helper()
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
}

// stop is a SIGTERM; a clean stop exits 0.
func (n *node) stop() error {
	err := n.broker.signal(syscall.SIGTERM, stopWait)
	if _, stock := n.target.(*stockTarget); stock && err != nil && n.broker.cmd.ProcessState.ExitCode() == 143 {
		return nil // how a JVM ends on SIGTERM after its shutdown hooks
	}
	return err
}

// kill is kill -9 of the broker (and with ringmq of the name server inside it).
func (n *node) kill() { n.broker.kill() }

func (n *node) close() {
	if n.broker != nil {
		n.broker.kill()
	}
	n.target.cleanup(n)
	if !keep {
		os.RemoveAll(n.dir)
	}
}

// listening is nil when something accepts at addr.
func listening(addr string) error {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}
