package register

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ringmq/netio/wire"
	"ringmq/node/topic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func stop(t *testing.T, r *Registrar) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r.Stop(ctx)
	if ctx.Err() != nil {
		t.Error("Stop took all the time it had")
	}
}

// TestOnlyWhatIsMissing: everything at first, nothing while nothing changes, then the difference.
func TestOnlyWhatIsMissing(t *testing.T) {
	f, c := newFake(t, "127.0.0.1:0"), newCatalog("A", "B")
	r := start(t, c, nil, f.addr())
	f.expect("register 1 A:6 B:6")
	r.Changed()
	f.expect("query 1 changed=false")
	c.put("C")
	r.Changed()
	f.expect("query 2 changed=true", "register 2 C:6")
	c.put("B", "D")
	r.Changed()
	f.expect("query 3 changed=true", "register 3 B:6 D:6")
	r.Changed()
	f.expect("query 3 changed=false")
	stop(t, r)
	f.expect("unregister")
}

// A name server that has forgotten the broker, or heard of it from somebody else, gets everything: were it
// told the difference only, it would take that for all.
func TestServerThatKnowsAnotherVersion(t *testing.T) {
	f, c := newFake(t, "127.0.0.1:0"), newCatalog("A", "B")
	r := start(t, c, nil, f.addr())
	f.expect("register 1 A:6 B:6")
	f.forget()
	r.Changed()
	f.expect("query 1 changed=true", "register 1 A:6 B:6")
	f.mu.Lock()
	f.known = &wire.DataVersion{Counter: 77}
	f.mu.Unlock()
	c.put("C")
	r.Changed()
	f.expect("query 2 changed=true", "register 2 A:6 B:6 C:6")
}

func TestRefusalIsTriedAgainWithEverything(t *testing.T) {
	f, c := newFake(t, "127.0.0.1:0"), newCatalog("A", "B")
	r := start(t, c, nil, f.addr())
	f.expect("register 1 A:6 B:6")
	f.refuseNext(wire.SystemError)
	c.put("C")
	r.Changed()
	f.expect("query 2 changed=true", "register 2 C:6 refused", "register 2 A:6 B:6 C:6")
}

// A broker is forgotten with its connection, so it comes back at once on a new one.
func TestLostConnection(t *testing.T) {
	f, c := newFake(t, "127.0.0.1:0"), newCatalog("A", "B")
	start(t, c, nil, f.addr())
	f.expect("register 1 A:6 B:6")
	f.cut()
	f.expect("register 1 A:6 B:6")
}

// A name server that is down at the start holds nothing, and neither does one that is down the others.
func TestServerThatComesLater(t *testing.T) {
	placeholder, err := net.Listen("tcp", "127.0.91.1:0") // nobody else uses this address, so its port stays free
	if err != nil {
		t.Fatal(err)
	}
	addr := placeholder.Addr().String()
	placeholder.Close()
	up, c := newFake(t, "127.0.0.1:0"), newCatalog("A", "B")
	log := new(lockedBuffer)
	start(t, c, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(log, nil)) }, addr, up.addr())
	up.expect("register 1 A:6 B:6")
	log.await(t, "does not have our topics")
	newFake(t, addr).expect("register 1 A:6 B:6")
	log.await(t, "registered again")
	if n := strings.Count(log.String(), "does not have our topics"); n != 1 {
		t.Errorf("%d lines about one outage:\n%s", n, log)
	}
}

// lockedBuffer is a log that a test waits for.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
	on chan struct{}
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.on != nil {
		close(l.on)
		l.on = nil
	}
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// await waits until the log holds text.
func (l *lockedBuffer) await(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(patience)
	for {
		l.mu.Lock()
		if strings.Contains(l.b.String(), text) {
			l.mu.Unlock()
			return
		}
		if l.on == nil {
			l.on = make(chan struct{})
		}
		on := l.on
		l.mu.Unlock()
		select {
		case <-on:
		case <-deadline:
			t.Fatalf("the log never said %q:\n%s", text, l)
		}
	}
}

// Name servers take a permission over only with a new version of the topics.
func TestPermission(t *testing.T) {
	f, c := newFake(t, "127.0.0.1:0"), newCatalog("A", "B")
	r := start(t, c, nil, f.addr())
	f.expect("register 1 A:6 B:6")
	r.SetPerm(topic.PermRead)
	f.expect("query 2 changed=true", "register 2 A:4 B:4")
	r.SetPerm(topic.PermRead)
	f.expect("query 2 changed=false")
	c.put("C") // the topics' own version is 2 now, which the server must not take for the one it has
	r.Changed()
	f.expect("query 3 changed=true", "register 3 C:4")
}

// A registration that would not fit a frame goes out in parts, each with a version of its own; only the last
// one has the real version.
func TestManyTopics(t *testing.T) {
	f, c := newFake(t, "127.0.0.1:0"), newCatalog("A", "B", "C", "D", "E")
	r := start(t, c, func(o *Options) { o.PartBytes = 2 * topicBytes(&topic.Config{Name: "A"}) }, f.addr())
	f.expect("register 3 A:6 B:6", "register 2 C:6 D:6", "register 1 E:6")
	f.mu.Lock()
	if got := slices.Sorted(maps.Keys(f.topics)); !slices.Equal(got, []string{"A", "B", "C", "D", "E"}) {
		t.Errorf("the name server knows %v", got)
	}
	f.mu.Unlock()
	r.Changed()
	f.expect("query 1 changed=false")
}

// TestPartsFitAFrame: 30,000 topics with long names and attributes, in parts of the default size.
func TestPartsFitAFrame(t *testing.T) {
	var o Options
	o.fill()
	topics := map[string]*topic.Config{}
	for i := range 30_000 {
		name := fmt.Sprintf("%s%06d", strings.Repeat("n", 121), i)
		topics[name] = &topic.Config{Name: name, Perm: 6, FilterType: topic.SingleTag, ReadQueues: 65535, WriteQueues: 65535, Attributes: map[string]string{"message.type": "TRANSACTION"}}
	}
	total := 0
	for i, part := range split(topics, o.PartBytes) {
		body, err := encode(part, wire.DataVersion{}, state{topics: topics, perm: 6})
		if err != nil {
			t.Fatal(err)
		}
		if total += len(part); len(body) > wire.MaxFrameBytes/2 {
			t.Errorf("part %d of %d topics has %d bytes", i, len(part), len(body))
		}
	}
	if total != len(topics) {
		t.Errorf("%d topics in all parts, want %d", total, len(topics))
	}
}

// Many changes in quick succession are few registrations.
func TestChangesAreJoined(t *testing.T) {
	f, c := newFake(t, "127.0.0.1:0"), newCatalog("A", "B")
	r := start(t, c, nil, f.addr())
	f.expect("register 1 A:6 B:6")
	f.mu.Lock() // the name server is slow
	for i := range 100 {
		c.put(fmt.Sprintf("T%02d", i))
		r.Changed()
	}
	f.mu.Unlock()
	var lines []string
	for !slices.Contains(lines, "query 101 changed=false") {
		line := f.next()
		if lines = append(lines, line); line == "" {
			t.Fatalf("never up to date: %q", lines)
		}
		if strings.HasPrefix(line, "register 101") {
			r.Changed()
		}
	}
	if len(lines) > 8 {
		t.Errorf("%d requests for 100 changes: %q", len(lines), lines)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.topics) != 102 {
		t.Errorf("the name server knows %d topics, want 102", len(f.topics))
	}
}

// resolver is a name service that a test changes.
type resolver struct {
	mu    sync.Mutex
	addrs []string
	err   error
}

func (r *resolver) set(err error, addrs ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addrs, r.err = addrs, err
}

func (r *resolver) resolve(_ context.Context, host string) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if host != "ns.example" {
		return nil, fmt.Errorf("resolve %q", host)
	}
	return r.addrs, r.err
}

// A name stands for all its addresses, which change while the broker runs: a replaced name server is found
// without a restart.
func TestNamesAreResolvedAgain(t *testing.T) {
	first := newFake(t, "127.0.0.1:0")
	_, port, err := net.SplitHostPort(first.addr())
	if err != nil {
		t.Fatal(err)
	}
	second := newFake(t, "127.0.0.2:"+port)
	names := new(resolver)
	names.set(nil, "127.0.0.1")
	start(t, newCatalog("A", "B"), func(o *Options) {
		o.Resolve, o.Period = names.resolve, time.Millisecond
	}, "ns.example:"+port)
	first.expect("register 1 A:6 B:6")
	names.set(nil, "127.0.0.1", "127.0.0.2")
	second.expect("register 1 A:6 B:6")
	names.set(errors.New("no name service"))
	for range 3 {
		second.until("query 1 changed=false") // the addresses it had stay
	}
	names.set(nil, "127.0.0.2")
	first.until("unregister")
	second.until("query 1 changed=false")
}

// Stop ends in time though a name server takes connections and never answers.
func TestStopWithASilentServer(t *testing.T) {
	stopsWithASilentServer(t, func(o *Options) { o.Timeout = 10 * time.Millisecond })
}

// TestStopWithASilentServerAndPatience: requests may take 24 s in the stock broker's configuration, and a node has 10 s
// to stop. Unregistering used to take all of them, so that none was left to send the answers that were owed.
func TestStopWithASilentServerAndPatience(t *testing.T) {
	stopsWithASilentServer(t, func(o *Options) { o.Timeout, o.Leave = time.Hour, 10*time.Millisecond })
}

func stopsWithASilentServer(t *testing.T, change func(*Options)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := l.Accept()
		accepted <- c
	}()
	r := start(t, newCatalog("A", "B"), change, l.Addr().String())
	defer (<-accepted).Close()
	stop(t, r)
}

func TestStopTwice(t *testing.T) {
	f := newFake(t, "127.0.0.1:0")
	r := start(t, newCatalog("A", "B"), nil, f.addr())
	f.expect("register 1 A:6 B:6")
	stop(t, r)
	f.expect("unregister")
	stop(t, r)
}
