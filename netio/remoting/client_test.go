package remoting

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ringmq/netio/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer is the other side of one client, driven by the test.
type peer struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

// connect returns a client and its peer; both are gone when the test ends.
func connect(t *testing.T, opts Options) (*Client, *peer) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := Dial(t.Context(), l.Addr().String(), opts)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); conn.Close() })
	return c, &peer{t, conn, bufio.NewReader(conn)}
}

func (p *peer) receive() *wire.Command {
	p.t.Helper()
	cmd, err := readCommand(p.in)
	if err != nil {
		p.t.Fatal(err)
	}
	return cmd
}

func (p *peer) send(cmd *wire.Command) {
	p.t.Helper()
	if _, err := p.conn.Write(cmd.Append(nil)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) answer(req *wire.Command, remark string) {
	var a wire.Command
	a.Answer(req, wire.Success)
	a.SetRemark(remark)
	p.send(&a)
}

func request(topic string) *wire.Command {
	c := &wire.Command{}
	c.Request(wire.GetMaxOffset, 0)
	c.Set("topic", topic)
	return c
}

// call runs a Call on its own and returns its outcome as "remark" or "error: text".
func call(ctx context.Context, c *Client, topic string) <-chan string {
	out := make(chan string, 1)
	go func() {
		a, err := c.Call(ctx, request(topic))
		if err != nil {
			out <- "error: " + err.Error()
			return
		}
		out <- string(a.Remark)
	}()
	return out
}

// TestAnswersInAnyOrder has many calls in flight on one connection and answers them backwards.
func TestAnswersInAnyOrder(t *testing.T) {
	c, p := connect(t, Options{})
	const calls = 200
	var outcomes [calls]<-chan string
	for i := range calls {
		outcomes[i] = call(t.Context(), c, fmt.Sprint("T", i))
	}
	var requests []*wire.Command
	for range calls {
		requests = append(requests, p.receive())
	}
	for i := calls - 1; i >= 0; i-- {
		p.answer(requests[i], "for "+requests[i].Text("topic"))
	}
	for i := range calls {
		if got, want := <-outcomes[i], fmt.Sprint("for T", i); got != want {
			t.Errorf("call %d: %q, want %q", i, got, want)
		}
	}
}

// TestDeadlineFreesItsSlot: a call that gave up leaves nothing behind, its late answer is dropped
// and the connection goes on.
func TestDeadlineFreesItsSlot(t *testing.T) {
	c, p := connect(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	given := call(ctx, c, "slow")
	slow := p.receive()
	cancel()
	want := "error: remoting: " + c.addr + ": GET_MAX_OFFSET: context canceled"
	if got := <-given; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := inFlight(c); n != 0 {
		t.Errorf("%d calls in flight after giving up", n)
	}
	next := call(t.Context(), c, "next")
	p.answer(slow, "late")
	p.answer(p.receive(), "in time")
	if got := <-next; got != "in time" {
		t.Errorf("next call: %q", got)
	}
}

func inFlight(c *Client) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting)
}

// TestPeerHangsUp: every call in flight and every later one fails, with the address.
func TestPeerHangsUp(t *testing.T) {
	c, p := connect(t, Options{})
	first, second := call(t.Context(), c, "a"), call(t.Context(), c, "b")
	p.receive()
	p.receive()
	p.conn.Close()
	<-c.Done()
	for _, got := range []string{<-first, <-second, <-call(t.Context(), c, "c")} {
		if !strings.Contains(got, c.addr) || !strings.Contains(got, ErrClosed.Error()) {
			t.Errorf("%q names neither address nor reason", got)
		}
	}
	if err := c.Oneway(request("d")); !errors.Is(err, ErrClosed) {
		t.Errorf("oneway: %v, want ErrClosed", err)
	}
}

func TestCloseEndsCalls(t *testing.T) {
	c, p := connect(t, Options{})
	given := call(t.Context(), c, "a")
	p.receive()
	for range 2 {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if got := <-given; !strings.Contains(got, ErrClosed.Error()) {
		t.Errorf("call: %q", got)
	}
}

func TestOneway(t *testing.T) {
	c, p := connect(t, Options{})
	if err := c.Oneway(request("a")); err != nil {
		t.Fatal(err)
	}
	if req := p.receive(); !req.Oneway() || req.Text("topic") != "a" {
		t.Errorf("received %+v", req)
	}
	if n := inFlight(c); n != 0 {
		t.Errorf("%d calls in flight after a one-way request", n)
	}
}

// TestServesRequests: the other side may ask too. One-way requests get no answer, nor do those that
// OnRequest has none for.
func TestServesRequests(t *testing.T) {
	var mu sync.Mutex
	var served []string
	_, p := connect(t, Options{OnRequest: func(req *wire.Command) *wire.Command {
		mu.Lock()
		defer mu.Unlock()
		served = append(served, req.Text("topic"))
		if req.Text("topic") == "ignored" {
			return nil
		}
		a := &wire.Command{}
		a.Answer(req, wire.Success)
		return a
	}})
	oneway := request("oneway")
	oneway.SetOneway()
	p.send(oneway)
	p.send(request("ignored"))
	asked := request("asked")
	asked.Opaque = 77
	p.send(asked)
	if a := p.receive(); a.Opaque != 77 || !a.IsAnswer() {
		t.Errorf("answer %+v", a)
	}
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(served, " "); got != "oneway ignored asked" {
		t.Errorf("served %q", got)
	}
}

// TestWithoutOnRequest: a request that nobody serves is dropped, the connection goes on.
func TestWithoutOnRequest(t *testing.T) {
	c, p := connect(t, Options{})
	p.send(request("for nobody"))
	given := call(t.Context(), c, "a")
	p.answer(p.receive(), "fine")
	if got := <-given; got != "fine" {
		t.Errorf("call: %q", got)
	}
}

func TestBrokenFramesEndTheConnection(t *testing.T) {
	header := func(total, word uint32) []byte {
		return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, total), word)
	}
	for name, c := range map[string]struct {
		bytes []byte
		want  error
	}{
		"over the limit":     {header(wire.MaxFrameBytes-3, 0), wire.ErrFrameTooLarge},
		"negative length":    {header(1<<31, 0), wire.ErrFrameLength},
		"no room for a word": {header(3, 0), wire.ErrFrameLength},
		"lying header":       {header(4, 5), wire.ErrHeader},
		"unknown form":       {header(4, 9<<24), wire.ErrHeader},
	} {
		t.Run(name, func(t *testing.T) {
			client, p := connect(t, Options{})
			if _, err := p.conn.Write(c.bytes); err != nil {
				t.Fatal(err)
			}
			<-client.Done()
			if _, err := client.Call(t.Context(), request("a")); !errors.Is(err, c.want) || !errors.Is(err, ErrClosed) {
				t.Errorf("call: %v, want %v", err, c.want)
			}
		})
	}
}

func TestRefusesToSendOverTheLimit(t *testing.T) {
	c, p := connect(t, Options{})
	big := request("big")
	big.Body = make([]byte, wire.MaxFrameBytes)
	if _, err := c.Call(t.Context(), big); !errors.Is(err, wire.ErrFrameTooLarge) {
		t.Fatalf("call: %v", err)
	}
	given := call(t.Context(), c, "small")
	p.answer(p.receive(), "fine")
	if got := <-given; got != "fine" {
		t.Errorf("call after it: %q", got)
	}
}

// TestPeerThatDoesNotRead: a write that blocks until the deadline ends the connection, because half
// a frame may be out.
func TestPeerThatDoesNotRead(t *testing.T) {
	c, _ := connect(t, Options{})
	req := request("big")
	req.Body = make([]byte, 1<<20)
	var err error
	for !errors.Is(err, ErrClosed) { // until the socket buffers are full
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err = c.Call(ctx, req)
		cancel()
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
	<-c.Done()
}

func TestDialNamesTheAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	if _, err := Dial(t.Context(), addr, Options{}); err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("dial: %v, want an error that names %s", err, addr)
	}
}
