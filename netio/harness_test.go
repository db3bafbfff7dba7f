package netio

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"ringmq/netio/wire"
	"ringmq/uring"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// gnet's package variables hold a worker pool that lives as long as the process.
		goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
		goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"),
		goleak.Cleanup(func(code int) {
			if n := maps.Bytes(); n != 0 && code == 0 {
				fmt.Fprintln(os.Stderr, "netio: bytes of files that are still mapped:", n)
				code = 1
			}
			os.Exit(code)
		}))
}

// script is a Handler made of functions; nil ones do nothing, and serve answers Success.
type script struct {
	opened, closed func(c *Conn)
	serve          func(c *Conn, req *wire.Command) Verdict
	endTurn        func(l *Loop)
}

func (h *script) Opened(c *Conn) {
	if h.opened != nil {
		h.opened(c)
	}
}

func (h *script) Closed(c *Conn) {
	if h.closed != nil {
		h.closed(c)
	}
}

func (h *script) Serve(c *Conn, req *wire.Command) Verdict {
	if h.serve != nil {
		return h.serve(c, req)
	}
	return echo(c, req)
}

func (h *script) EndTurn(l *Loop) {
	if h.endTurn != nil {
		h.endTurn(l)
	}
}

// echo answers a request with its own body.
func echo(c *Conn, req *wire.Command) Verdict {
	if !req.Oneway() {
		c.Send(answer(req, wire.Success))
	}
	return Done
}

func answer(req *wire.Command, code wire.Code) *wire.Command {
	var a wire.Command
	a.Answer(req, code)
	a.Body = req.Body
	return &a
}

// clock is a time that tests move.
type clock struct{ ns atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(1700000000, c.ns.Load()) }
func (c *clock) advance(d time.Duration) { c.ns.Add(int64(d)) }

// journal collects log lines.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, string(p))
	return len(p), nil
}

func (j *journal) with(text string) (found []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, l := range j.lines {
		if strings.Contains(l, text) {
			found = append(found, l)
		}
	}
	return found
}

// rig is a server under test.
type rig struct {
	*Server
	t     testing.TB
	clock *clock
	log   *journal
}

func start(t testing.TB, h Handler, change func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, clock: &clock{}, log: &journal{}}
	o := Options{
		Addrs: []string{"127.0.0.1:0"}, Loops: 2, Now: r.clock.now, tickEvery: time.Hour,
		Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
	if change != nil {
		change(&o)
	}
	s, err := Listen(h, o)
	if err != nil {
		t.Fatal(err)
	}
	r.Server = s
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // nobody waits for what a test left behind
		if err := s.Stop(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("stop: %v", err)
		}
	})
	return r
}

// onLoop runs fn on the loop and waits for it.
func onLoop(l *Loop, fn func()) {
	done := make(chan struct{})
	l.Execute(func() { fn(); close(done) })
	<-done
}

// settled waits until every loop has done what was asked of it before.
func (r *rig) settled() {
	for _, l := range r.loops {
		for range 2 { // the first turn may have asked for another one
			onLoop(l, func() {})
		}
	}
}

// until waits for what the loops are about to do; only a hang lasts long.
func (r *rig) until(reached func(Stats) bool) {
	r.t.Helper()
	for patience := time.Now().Add(30 * time.Second); !reached(r.Stats()); r.settled() {
		if time.Now().After(patience) {
			r.t.Fatalf("never came: %+v", r.Stats())
		}
	}
}

// pass moves the clock and has the loops look at their limits.
func (r *rig) pass(d time.Duration) {
	r.clock.advance(d)
	r.tick(coarseTick)
	r.settled()
}

// peer is a client's end of a connection. Its methods fail the test.
type peer struct {
	t testing.TB
	*net.TCPConn
}

func (r *rig) dial() *peer { return r.dialTo(r.Addrs()[0]) }

func (r *rig) dialTo(a netip.AddrPort) *peer { return r.dialWith(a, net.Dialer{}) }

// dialNarrow connects with a receive window of a few KiB.
func (r *rig) dialNarrow() *peer {
	return r.dialWith(r.Addrs()[0], net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		return errors.Join(raw.Control(func(fd uintptr) {
			err = errors.Join(
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096),
				unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, 536)) // or the window never opens on loopback
		}), err)
	}})
}

func (r *rig) dialWith(a netip.AddrPort, d net.Dialer) *peer {
	r.t.Helper()
	nc, err := d.Dial("tcp", a.String())
	if err != nil {
		r.t.Fatal(err)
	}
	c := nc.(*net.TCPConn)
	r.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(60 * time.Second)); err != nil { // only a hang gets there
		r.t.Fatal(err)
	}
	return &peer{t: r.t, TCPConn: c}
}

// request encodes a request with a body.
func request(opaque int32, body []byte) []byte {
	var c wire.Command
	c.Request(wire.SendMessage, opaque)
	c.Set("topic", "T")
	c.Body = body
	return c.Append(nil)
}

func (p *peer) write(b []byte) {
	p.t.Helper()
	if _, err := p.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

// frame reads the next whole frame.
func (p *peer) frame() []byte {
	p.t.Helper()
	head := make([]byte, 4)
	if _, err := io.ReadFull(p, head); err != nil {
		p.t.Fatalf("read a frame's length: %v", err)
	}
	frame := make([]byte, 4+binary.BigEndian.Uint32(head))
	copy(frame, head)
	if _, err := io.ReadFull(p, frame[4:]); err != nil {
		p.t.Fatalf("read a frame: %v", err)
	}
	return frame
}

// answer reads the next answer.
func (p *peer) answer() *wire.Command {
	p.t.Helper()
	var c wire.Command
	if err := c.Parse(p.frame()); err != nil {
		p.t.Fatal(err)
	}
	return &c
}

// expect reads the next answer and checks opaque and code.
func (p *peer) expect(opaque int32, code wire.Code) *wire.Command {
	p.t.Helper()
	a := p.answer()
	if a.Opaque != opaque || a.Code != code || !a.IsAnswer() {
		p.t.Fatalf("answer: opaque %d, code %d, flag %d; want opaque %d, code %d", a.Opaque, a.Code, a.Flag, opaque, code)
	}
	return a
}

// ended waits until the server closes the connection.
func (p *peer) ended() {
	p.t.Helper()
	if _, err := io.Copy(io.Discard, p.TCPConn); err != nil && !errors.Is(err, unix.ECONNRESET) {
		p.t.Fatalf("wait for the end: %v", err)
	}
}

// pattern returns n bytes in which no shift of the stream goes unseen.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8)*31 ^ byte(i>>16)*17
	}
	return b
}

// maps keeps the files of all tests mapped, too few at a time for comfort.
var maps = uring.NewMaps(1)

// tempFile returns a counted file of the given bytes, short ranges of which are mapped, and whether its last user is gone.
func tempFile(t testing.TB, content []byte) (f *uring.File, closed *atomic.Bool) {
	file := openTemp(t, content)
	closed = new(atomic.Bool)
	return maps.NewFile(int(file.Fd()), int64(len(content)), file, func() { closed.Store(true); file.Close() }), closed
}

// plainFile is the same for a file that is never mapped.
func plainFile(t testing.TB, content []byte) *uring.File {
	file := openTemp(t, content)
	return uring.NewFile(int(file.Fd()), file, func() { file.Close() })
}

func openTemp(t testing.TB, content []byte) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "segment")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// memFile is the same for a file system without descriptors.
func memFile(content []byte) *uring.File {
	return uring.NewFile(-1, bytes.NewReader(content), func() {})
}

func rangeOf(t testing.TB, f *uring.File, off int64, n int) uring.FileRange {
	if !f.Acquire() {
		t.Fatal("the file is closed")
	}
	return uring.FileRange{File: f, Off: off, Len: n}
}
