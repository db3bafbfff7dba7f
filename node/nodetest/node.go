// Package nodetest runs whole nodes inside a test: on the crashable file system in memory, with real
// sockets on the loopback interface, and on a clock that the test moves.
package nodetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"ringmq/node"
	"ringmq/node/config"
	"ringmq/store/vfs"
	"ringmq/store/vfs/memfs"
)

// Setup says what is special about a node. The zero Setup is an empty node on memory, SYNC_FLUSH.
type Setup struct {
	FS     vfs.FS            // nil: a new memfs
	Clock  *Clock            // nil: a new one
	Config map[string]string // keys of broker.conf

	MemoryBytes int64 // 0: the machine's
	RealTime    bool  // the machine's clock, instead of Clock
}

// Node is a running node and what it was made of.
type Node struct {
	*node.Node
	Config config.Config
	Clock  *Clock
	FS     vfs.FS
	Log    *Log

	t       testing.TB
	stopped sync.Once
}

// stopWait bounds how long a test waits for a node to stop.
const stopWait = time.Minute

// Start starts a node, which is stopped when the test ends.
func Start(t testing.TB, s Setup) *Node {
	t.Helper()
	n, err := TryStart(t, s)
	if err != nil {
		t.Fatalf("nodetest: %v\n%s", err, n.Log)
	}
	t.Cleanup(func() {
		n.Stop()
		if t.Failed() {
			t.Logf("the node's log:\n%s", n.Log)
		}
	})
	return n
}

// TryStart is Start for nodes that may fail to come up; the caller stops those that did. With an
// error only what it was to be made of is set.
func TryStart(t testing.TB, s Setup) (*Node, error) {
	t.Helper()
	n := &Node{FS: s.FS, Clock: s.Clock, Log: &Log{}, t: t}
	if n.FS == nil {
		n.FS = memfs.New(1)
	}
	if n.Clock == nil {
		n.Clock = NewClock()
	}
	log := slog.New(slog.NewTextHandler(n.Log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	for try := 0; ; try++ {
		port, err := freePort(false)
		if err != nil {
			return n, err
		}
		n.Config = configure(t, port, s.Config)
		o := node.Options{Config: n.Config, FS: n.FS, Clock: n.Clock, Log: log, MemoryBytes: s.MemoryBytes}
		if s.RealTime {
			o.Clock = nil
		}
		running, err := node.Start(o)
		if errors.Is(err, syscall.EADDRINUSE) && try < 5 {
			continue // another test took one of the ports in between
		}
		n.Node = running
		return n, err
	}
}

// configure is a broker.conf of few and small files, which special may override.
func configure(t testing.TB, port int, special map[string]string) config.Config {
	t.Helper()
	keys := map[string]string{
		"brokerName": "b", "bindAddress": "127.0.0.1", "advertise": "127.0.0.1", "adminListen": "",
		"listenPort": fmt.Sprint(port), "namesrvListenPort": fmt.Sprint(port + 2), "storePathRootDir": "/data",
		"mappedFileSizeCommitLog": fmt.Sprint(1 << 20), "mappedFileSizeConsumeQueue": "6000",
	}
	for key, value := range special {
		keys[key] = value
	}
	env := config.Env{
		Lookup:   func(string) (string, bool) { return "", false },
		Resolve:  func(host string) ([]netip.Addr, error) { return nil, fmt.Errorf("nodetest: no name %s", host) },
		Hostname: "test", Home: "/", Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")},
	}
	c, _, err := config.Parse(nil, env, keys)
	if err != nil {
		t.Fatalf("nodetest: %v", err)
	}
	return c
}

// TryStop stops the node if it still runs.
func (n *Node) TryStop() (err error) {
	n.stopped.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopWait)
		defer cancel()
		err = n.Node.Stop(ctx)
	})
	return err
}

// Stop stops the node if it still runs, and fails the test if that is not clean.
func (n *Node) Stop() {
	n.t.Helper()
	if err := n.TryStop(); err != nil {
		n.t.Errorf("nodetest: stop: %v", err)
	}
}

// Kill stops the node without judging how: its disk is broken or cut off.
func (n *Node) Kill() { _ = n.TryStop() }

// Until waits for a condition that another goroutine brings about, and fails the test if it does not.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(answerWait); !holds(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("nodetest: not within %v: %s", answerWait, what)
		}
	}
}

// Addr is the broker's main address.
func (n *Node) Addr() string { return n.Addrs()[0].String() }

// Log keeps what a node logs.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns everything so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
