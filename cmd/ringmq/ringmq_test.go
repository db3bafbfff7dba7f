package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"ringmq/node/nodetest"
)

// run runs a command line and returns what it printed.
func run(t *testing.T, in string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := rootCommand()
	root.SetArgs(args)
	root.SetIn(strings.NewReader(in))
	root.SetOut(&out)
	root.SetErr(&out)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// namesrv starts a node on the machine's clock and returns its name server.
func namesrv(t *testing.T) string {
	t.Helper()
	n := nodetest.Start(t, nodetest.Setup{RealTime: true})
	addr, _ := n.NamesrvAddr()
	return addr.String()
}

// TestSendAndConsume: what was sent is printed once, and the group goes on where it stopped.
func TestSendAndConsume(t *testing.T) {
	at := namesrv(t)
	for _, args := range [][]string{
		{"send", "--topic", "T", "--namesrv", at, "--tag", "a", "--key", "k", "hello"},
		{"send", "--topic", "T", "--namesrv", at, "--count", "20", "--size", "100"},
	} {
		if out, err := run(t, "", args...); err != nil {
			t.Fatalf("%v: %s %v", args, out, err)
		}
	}
	if out, err := run(t, "one\n\ntwo\n", "send", "--topic", "T", "--namesrv", at, "-"); err != nil || !strings.HasPrefix(out, "sent 2 messages") {
		t.Fatalf("%s %v", out, err)
	}
	first := consumed(t, at, 5)
	rest := consumed(t, at, 18)
	bodies := map[string]bool{}
	for _, line := range append(first, rest...) {
		_, body, _ := strings.Cut(line, "\t")
		bodies[strings.TrimRight(body, ".")] = true
	}
	if len(first) != 5 || len(rest) != 18 || len(bodies) != 23 || !bodies["hello"] || !bodies["one"] || !bodies["message 20"] {
		t.Errorf("%d and %d lines, %d different bodies: %v", len(first), len(rest), len(bodies), bodies)
	}
}

func consumed(t *testing.T, at string, count int) []string {
	t.Helper()
	out, err := run(t, "", "consume", "--topic", "T", "--group", "G", "--namesrv", at, "--from", "first", "--count", fmt.Sprint(count))
	if err != nil {
		t.Fatalf("%s %v", out, err)
	}
	return strings.Split(strings.TrimSuffix(out, "\n"), "\n")
}

// TestConsumersShare: two members get all messages between them, each once.
func TestConsumersShare(t *testing.T) {
	at := namesrv(t)
	if out, err := run(t, "", "send", "--topic", "T", "--namesrv", at, "before"); err != nil {
		t.Fatal(out, err)
	}
	consumed(t, at, 1)
	ctx, cancel := context.WithCancel(t.Context())
	lines := make(chan string, 1000)
	var members sync.WaitGroup
	for range 2 {
		members.Go(func() {
			o := consumeOptions{namesrv: at, topic: "T", group: "G", from: fromFirst, tags: "*"}
			if err := consume(ctx, o, lineWriter(lines), io.Discard); err != nil {
				t.Error(err)
			}
		})
	}
	if out, err := run(t, "", "send", "--topic", "T", "--namesrv", at, "--count", "100"); err != nil {
		t.Fatal(out, err)
	}
	seen := map[string]int{}
	for len(seen) < 100 {
		_, body, _ := strings.Cut(<-lines, "\t")
		seen[body]++
	}
	cancel()
	members.Wait()
}

// TestSendInputThatBreaks: what cannot be read is no end of the input. Sending used to stop there with exit code 0.
func TestSendInputThatBreaks(t *testing.T) {
	at := namesrv(t)
	out, err := run(t, "one\n"+strings.Repeat("x", lineBytes+10)+"\ntwo\n", "send", "--topic", "T", "--namesrv", at, "-")
	if !errors.Is(err, bufio.ErrTooLong) || !strings.Contains(err.Error(), "line 2 ") {
		t.Errorf("%v, want a complaint about line 2", err)
	}
	if !strings.HasPrefix(out, "sent T ") {
		t.Errorf("what was sent before: %q", out)
	}
}

// TestInterruptedConsumer: a consumer that is interrupted in the middle of a batch finishes it and stores how far it
// came, so that the next one begins right behind. Leaving used to go on beside the printing: it stored what was printed
// by then, and read a map that the printing wrote to.
func TestInterruptedConsumer(t *testing.T) {
	at := namesrv(t)
	if out, err := run(t, "", "send", "--topic", "T", "--namesrv", at, "--count", "200"); err != nil {
		t.Fatal(out, err)
	}
	seen := map[string]int{}
	for interrupted := 0; len(seen) < 200; interrupted++ {
		if interrupted > 200 {
			t.Fatalf("%d of 200 messages after %d consumers", len(seen), interrupted)
		}
		ctx, cancel := context.WithCancel(t.Context())
		out := printing(func(line string) {
			cancel()
			_, body, _ := strings.Cut(line, "\t")
			seen[body]++
		})
		if err := consume(ctx, consumeOptions{namesrv: at, topic: "T", group: "G", from: fromFirst, tags: "*"}, out, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	for body, times := range seen {
		if times != 1 {
			t.Errorf("%d times: %s", times, body)
		}
	}
}

// printing is called with each line that is written.
type printing func(line string)

func (p printing) Write(line []byte) (int, error) {
	p(string(line))
	return len(line), nil
}

// lineWriter sends each line that is written.
type lineWriter chan<- string

func (w lineWriter) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}

// TestShareOf: every queue has exactly one member, and the pieces differ by one at most.
func TestShareOf(t *testing.T) {
	for members := 1; members <= 5; members++ {
		for count := range int32(12) {
			var all []queue
			for id := range count {
				all = append(all, queue{broker: fmt.Sprint("b", id%2), id: id / 2})
			}
			var ids []string
			for i := range members {
				ids = append(ids, fmt.Sprint("c", i))
			}
			var taken []queue
			least, most := len(all), 0
			for _, id := range ids {
				mine := shareOf(id, ids, slices.Clone(all))
				taken = append(taken, mine...)
				least, most = min(least, len(mine)), max(most, len(mine))
			}
			if len(taken) != len(all) || most-least > 1 {
				t.Errorf("%d queues, %d members: %d taken, pieces of %d to %d", count, members, len(taken), least, most)
			}
		}
	}
	if got := shareOf("stranger", []string{"a", "b"}, []queue{{id: 0}}); got != nil {
		t.Errorf("who is not in the list gets %v", got)
	}
}

// TestClientComplaints: what goes wrong is said with the address or the flag.
func TestClientComplaints(t *testing.T) {
	at := namesrv(t)
	for want, args := range map[string][]string{
		"required flag":   {"send", "x"},
		"127.0.0.1:1":     {"send", "--topic", "T", "--namesrv", "127.0.0.1:1", "x"},
		"illegal":         {"send", "--topic", "a b", "--namesrv", at, "x"},
		"forbidden":       {"send", "--topic", "SCHEDULE_TOPIC_XXXX", "--namesrv", at, "x"},
		"--count 0":       {"send", "--topic", "T", "--namesrv", at, "--count", "0", "x"},
		"Nowhere":         {"consume", "--topic", "Nowhere", "--group", "G", "--namesrv", at},
		"first or last":   {"consume", "--topic", "T", "--group", "G", "--from", "middle", "--namesrv", at},
		"unknown command": {"sned"},
	} {
		if out, err := run(t, "", args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %s %v, want an error with %q", args, out, err, want)
		}
	}
}

// TestServeComplaints: a start that fails names what to change.
func TestServeComplaints(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "broker.conf")
	if err := os.WriteFile(conf, []byte("listenPort=x\nflushDiskType=MAYBE\nmaxMessageSize=-1\nbrokerRole=SLAVE\nautoCreateTopicEnable=perhaps\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := run(t, "", "serve", "-c", conf, "--data", dir)
	for _, want := range []string{"listenPort=x", "flushDiskType=MAYBE", "maxMessageSize=-1", "brokerRole=SLAVE", "autoCreateTopicEnable=perhaps"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want a complaint about %s", err, want)
		}
	}
	for want, args := range map[string][]string{
		"missing.conf": {"serve", "-c", filepath.Join(dir, "missing.conf")},
		conf:           {"serve", "--data", conf, "--listen", "21911", "--namesrv-listen", "0", "--admin", ""}, // a file
		"--log loud":   {"serve", "--log", "loud"},
	} {
		if _, err := run(t, "", args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want an error with %q", args, err, want)
		}
	}
}

// TestServe: a node comes up from the command line, says what to type, and stops cleanly.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &lines{want: "ringmq.test consume", found: make(chan struct{})}
	ended := make(chan error, 1)
	port := nodetest.FreePort(t)
	go func() {
		ended <- serve(ctx, "", map[string]string{
			"storePathRootDir": dir, "listenPort": fmt.Sprint(port), "namesrvListenPort": fmt.Sprint(port + 2), "adminListen": "",
			"advertise": "127.0.0.1", "bindAddress": "127.0.0.1",
		}, slog.New(slog.DiscardHandler), out, io.Discard)
	}()
	select {
	case <-out.found:
	case err := <-ended:
		t.Fatalf("%v\n%s", err, out.String())
	}
	if text, err := run(t, "", "send", "--topic", "T", "--namesrv", fmt.Sprintf("127.0.0.1:%d", port+2), "x"); err != nil {
		t.Errorf("%s %v", text, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if !strings.HasSuffix(out.String(), "everything is on the disk\n") {
		t.Errorf("the last word is missing: %s", out.String())
	}
}

// lines keeps what is written, and tells when a text has come.
type lines struct {
	mu    sync.Mutex
	text  strings.Builder
	want  string
	found chan struct{}
	done  bool
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	if !l.done && strings.Contains(l.text.String(), l.want) {
		l.done = true
		close(l.found)
	}
	return len(p), nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestVersion(t *testing.T) {
	if out, err := run(t, "", "version"); err != nil || !strings.HasPrefix(out, "ringmq ") {
		t.Errorf("%q %v", out, err)
	}
}
