package register

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"ringmq/netio/wire"
	"ringmq/node/topic"
)

// patience bounds every wait of the tests; none of them waits when all is well.
const patience = 2 * time.Minute

// fake is a name server of which a test sees every request and scripts every answer that is not the usual one.
type fake struct {
	t     *testing.T
	l     net.Listener
	heard chan string // one line for each request
	all   sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]bool
	known  *wire.DataVersion           // of the broker; nil: not registered
	topics map[string]wire.TopicConfig // as the stock name server merges them
	refuse wire.Code                   // answer the next registration with this code
}

func newFake(t *testing.T, addr string) *fake {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{t: t, l: l, heard: make(chan string, 4096), conns: map[net.Conn]bool{}, topics: map[string]wire.TopicConfig{}}
	f.all.Go(f.accept)
	t.Cleanup(f.stop)
	return f
}

func (f *fake) addr() string { return f.l.Addr().String() }

// stop ends the server with all its connections.
func (f *fake) stop() {
	f.l.Close()
	f.cut()
	f.all.Wait()
}

// cut closes all connections; like a stock name server the fake forgets the broker then.
func (f *fake) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		c.Close()
	}
	f.known = nil
}

func (f *fake) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known, f.topics = nil, map[string]wire.TopicConfig{}
}

func (f *fake) refuseNext(code wire.Code) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = code
}

func (f *fake) accept() {
	for {
		c, err := f.l.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		f.conns[c] = true
		f.mu.Unlock()
		f.all.Go(func() { f.serve(c) })
	}
}

func (f *fake) serve(c net.Conn) {
	defer func() {
		c.Close()
		f.mu.Lock()
		delete(f.conns, c)
		f.mu.Unlock()
	}()
	for in := bufio.NewReader(c); ; {
		head, err := in.Peek(4)
		if err != nil {
			return
		}
		n, err := wire.FrameBytes(head)
		if err != nil {
			f.t.Error(err)
			return
		}
		frame := make([]byte, n)
		if _, err := io.ReadFull(in, frame); err != nil {
			return
		}
		var req, ans wire.Command
		if err := req.Parse(frame); err != nil {
			f.t.Error(err)
			return
		}
		ans.Answer(&req, wire.Success)
		f.answer(&req, &ans)
		if _, err := c.Write(ans.Append(nil)); err != nil {
			return
		}
	}
}

// answer does what the stock name server does with one broker, and says what it has heard.
func (f *fake) answer(req, ans *wire.Command) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch req.Code {
	case wire.QueryDataVersion:
		var v wire.DataVersion
		if err := wire.Unmarshal(req.Body, &v); err != nil {
			f.t.Error(err)
		}
		a := wire.QueryDataVersionAnswer{Changed: f.known == nil || *f.known != v}
		a.Append(ans)
		if f.known != nil {
			ans.Body = fmt.Appendf(nil, `{"counter":%d,"stateVersion":%d,"timestamp":%d}`, f.known.Counter, f.known.StateVersion, f.known.Timestamp)
		}
		f.heard <- fmt.Sprintf("query %d changed=%v", v.Counter, a.Changed)
	case wire.RegisterBroker:
		f.register(req, ans)
	case wire.UnregisterBroker:
		f.known = nil
		f.heard <- "unregister"
	default:
		f.t.Errorf("request %v", req.Code)
	}
}

func (f *fake) register(req, ans *wire.Command) {
	var h wire.RegisterBrokerRequest
	if err := h.Parse(req); err != nil {
		f.t.Error(err)
		return
	}
	if h.BodyCRC32 == 0 || uint32(h.BodyCRC32) != wire.CRC32(req.Body) || h.BrokerIdentity != me || h.HAServerAddr != "ha" || req.Version < 37 {
		f.t.Errorf("registration %+v of version %d, body CRC %d", h, req.Version, wire.CRC32(req.Body))
	}
	body, err := wire.ParseRegisterBody(req.Body, h.Compressed)
	if err != nil {
		f.t.Error(err)
		return
	}
	w := body.TopicConfigSerializeWrapper
	line := fmt.Sprintf("register %d", w.DataVersion.Counter)
	for _, name := range slices.Sorted(maps.Keys(w.TopicConfigTable)) {
		line += fmt.Sprintf(" %s:%d", name, w.TopicConfigTable[name].Perm)
	}
	switch {
	case f.refuse != wire.Success:
		ans.Code, f.refuse = f.refuse, wire.Success
		line += " refused"
	case f.known == nil || *f.known != w.DataVersion:
		maps.Copy(f.topics, w.TopicConfigTable)
		f.known = &w.DataVersion
	default:
		line += " ignored"
	}
	f.heard <- line
}

// expect waits for requests, in order and nothing else between them.
func (f *fake) expect(want ...string) {
	f.t.Helper()
	for _, w := range want {
		if got := f.next(); got != w {
			f.t.Fatalf("heard %q, want %q", got, w)
		}
	}
}

// until skips requests until one is as wanted.
func (f *fake) until(want string) {
	f.t.Helper()
	var skipped []string
	for {
		got := f.next()
		if got == want {
			return
		}
		skipped = append(skipped, got)
		if got == "" {
			f.t.Fatalf("never heard %q, but %q", want, skipped)
		}
	}
}

// next is the next request, empty if there is none for long.
func (f *fake) next() string {
	select {
	case line := <-f.heard:
		return line
	case <-time.After(patience):
		return ""
	}
}

var me = wire.BrokerIdentity{BrokerName: "b", BrokerAddr: "10.0.0.1:10911", ClusterName: "c"}

// catalog is a Topics that a test changes.
type catalog struct {
	mu      sync.Mutex
	topics  map[string]*topic.Config
	version wire.DataVersion
}

func newCatalog(names ...string) *catalog {
	c := &catalog{topics: map[string]*topic.Config{}}
	c.put(names...)
	return c
}

// put adds topics, or makes others of them, as one change.
func (c *catalog) put(names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.topics = maps.Clone(c.topics)
	for _, name := range names {
		c.topics[name] = &topic.Config{Name: name, Perm: 7, ReadQueues: 4, WriteQueues: 4, FilterType: topic.SingleTag}
	}
	c.version.Counter++
	c.version.Timestamp += 10
}

// Snapshot is part of Topics.
func (c *catalog) Snapshot() (map[string]*topic.Config, wire.DataVersion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.topics, c.version
}

// start registers the catalog with the servers until the test ends.
func start(t *testing.T, c *catalog, change func(*Options), servers ...string) *Registrar {
	t.Helper()
	o := Options{
		Servers: servers, Broker: me, HAAddr: "ha", Perm: topic.PermRead | topic.PermWrite, Topics: c,
		Period: time.Hour, Timeout: patience, Retry: time.Millisecond, Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&o)
	}
	r := Start(o)
	t.Cleanup(func() { stop(t, r) })
	return r
}
