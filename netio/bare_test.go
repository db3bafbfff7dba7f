package netio

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"ringmq/netio/wire"
)

// bare is a loop without gnet and without goroutines: the test is the event loop, and reads come out
// of its hands. Output goes to a socket pair.
type bare struct {
	*Loop
	c   *Conn
	out int // the peer's end
}

type bareEventLoop struct {
	gnet.EventLoop // nil: nothing else is called
	l              *Loop
}

func (e bareEventLoop) Close(gc gnet.Conn) error {
	e.l.farewell(gc.(*bareConn).c)
	return nil
}

type bareConn struct {
	gnet.Conn // nil: nothing else is called
	fd        int
	c         *Conn
}

func (c *bareConn) Fd() int { return c.fd }

// mute is a bell that nobody hears.
type mute struct{ net.Conn }

func (mute) Write(p []byte) (int, error) { return len(p), nil }

func newBare(t testing.TB, h Handler, change func(*Options)) *bare {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	w, err := newWaker()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.close(); unix.Close(fds[0]); unix.Close(fds[1]) })
	o := Options{Addrs: []string{"127.0.0.1:0"}, Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&o)
	}
	o.Fill()
	s := &Server{o: o, handler: h, start: time.Now(), waker: w}
	s.complaints.log = o.Log
	l := &Loop{s: s, bell: mute{}, idle: make(chan struct{})}
	l.el = bareEventLoop{l: l}
	s.loops = []*Loop{l}
	c := &Conn{number: 1}
	s.conns.Add(1)
	l.welcome(c, &bareConn{fd: fds[0], c: c})
	return &bare{Loop: l, c: c, out: fds[1]}
}

// read is one turn with the bytes of one read.
func (b *bare) read(p []byte) {
	b.begin()
	b.received(b.c, p)
	b.end()
}

// sent takes what has arrived at the peer.
func (b *bare) sent(buf []byte) int {
	n, err := unix.Read(b.out, buf)
	if err == unix.EAGAIN {
		return 0
	}
	if err != nil {
		panic(err)
	}
	return n
}

// FuzzSplits: whatever pieces the bytes of a stream arrive in, the same requests are served, and the
// same end is come to. The first byte chooses how the stream is spoiled, the others where it is cut.
func FuzzSplits(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 255, 0, 9})
	f.Add([]byte{1, 200, 200, 200})
	f.Add([]byte{2})
	f.Add([]byte{3, 7, 7, 7, 7, 7, 7, 7, 7, 7})
	f.Add([]byte{4, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, cuts []byte) {
		if len(cuts) == 0 {
			return
		}
		kind, cuts := cuts[0], cuts[1:]
		stream, bodies, broken := streamOf(kind)
		var got [][]byte
		tries := 0
		b := newBare(t, &script{serve: func(_ *Conn, req *wire.Command) Verdict {
			if tries++; tries%3 == 0 && kind%2 == 1 {
				return Later
			}
			got = append(got, bytes.Clone(req.Body))
			return Done
		}}, func(o *Options) { o.BusyWait = time.Hour })
		for i := 0; len(stream) > 0; i++ {
			n := len(stream)
			if i < len(cuts) {
				n = min(n, int(cuts[i])*int(cuts[i])/16+1)
			}
			// gnet reads into the same buffer again and again
			p := make([]byte, n)
			copy(p, stream)
			b.read(p)
			for i := range p {
				p[i] = 0xEE
			}
			stream = stream[n:]
			b.rung()
		}
		for range len(bodies) {
			b.rung()
		}
		if !slices.EqualFunc(got, bodies, bytes.Equal) {
			t.Fatalf("%d requests served, want %d", len(got), len(bodies))
		}
		if b.c.gone != broken {
			t.Fatalf("closed = %v, want %v", b.c.gone, broken)
		}
		if held := b.s.inBytes.Load(); broken && held != 0 {
			t.Fatalf("%d bytes held for a closed connection", held)
		}
	})
}

// streamOf returns frames, the bodies in them that must be served, and whether the stream ends in bytes
// that close the connection.
func streamOf(kind byte) (all []byte, bodies [][]byte, broken bool) {
	for i := range 12 {
		body := pattern(i * i * 150)
		bodies = append(bodies, body)
		all = append(all, request(int32(i), body)...)
	}
	switch kind / 2 % 3 {
	case 1:
		return append(all, "\xff\xff\xff\xff"...), bodies, true
	case 2: // an incomplete frame at the end
		return append(all, request(99, nil)[:30]...), bodies, false
	}
	return all, bodies, false
}

// FuzzGarbage: no bytes panic a loop, whatever pieces they come in.
func FuzzGarbage(f *testing.F) {
	f.Add(request(1, []byte("x")), 7)
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), 3)
	f.Add([]byte{0, 0, 0, 8, 1, 0, 0, 4, 1, 2, 3, 4}, 1)
	f.Add([]byte{0, 0, 0, 4, 0, 0, 0, 0}, 4)
	f.Fuzz(func(t *testing.T, data []byte, step int) {
		b := newBare(t, &script{}, nil)
		step = max(1, step&0xFFF)
		for len(data) > 0 {
			n := min(step, len(data))
			b.read(data[:n])
			data = data[n:]
		}
		b.rung()
	})
}

// TestSendPathAllocatesNothing: a batch of sends served, owed, released by a mark and written to the
// socket costs no allocation, with frames that lie whole in the read buffer and with ones that do not.
func TestSendPathAllocatesNothing(t *testing.T) {
	var end int64
	var a wire.Command
	b := newBare(t, &script{serve: func(c *Conn, req *wire.Command) Verdict {
		a.Answer(req, wire.Success)
		a.Set("msgId", "0A00000100002A9F0000000000000000")
		a.SetInt("queueOffset", end)
		end++
		c.Owe(AtVisible, end, &a)
		return Done
	}}, nil)
	const batch = 16
	var all []byte
	for i := range batch {
		all = append(all, request(int32(i), pattern(1000))...)
	}
	sink := make([]byte, 64<<10)
	half := len(all) / 2
	turn := func() {
		b.read(all)
		b.read(all[:half])
		b.read(all[half:])
		b.s.Advance(end, end)
		b.rung()
		for b.sent(sink) > 0 {
		}
	}
	turn()
	if n := testing.AllocsPerRun(200, turn); n != 0 {
		t.Fatalf("%v allocations per %d sends", n, 2*batch)
	}
	if b.n.owed.Load() != 0 || b.n.requests.Load() < 2*batch*200 {
		t.Fatalf("%d owed, %d served: the path was not taken", b.n.owed.Load(), b.n.requests.Load())
	}
}

// BenchmarkOwe: the same without a socket's other end; ns/op is per send.
func BenchmarkOwe(b *testing.B) {
	var end int64
	var a wire.Command
	l := newBare(b, &script{serve: func(c *Conn, req *wire.Command) Verdict {
		a.Answer(req, wire.Success)
		a.SetInt("queueOffset", end)
		end++
		c.Owe(AtVisible, end, &a)
		return Done
	}}, nil)
	const batch = 32
	var all []byte
	for i := range batch {
		all = append(all, request(int32(i), pattern(1024))...)
	}
	sink := make([]byte, 64<<10)
	b.ReportAllocs()
	b.SetBytes(int64(len(all) / batch))
	for i := 0; i < b.N; i += batch {
		l.read(all)
		l.s.Advance(end, end)
		l.rung()
		for l.sent(sink) > 0 {
		}
	}
}

// BenchmarkEcho: a client with requests in flight over loopback; ns/op is per request.
func BenchmarkEcho(b *testing.B) {
	for _, flight := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("size=1024/flight=%d", flight), func(b *testing.B) {
			var a wire.Command
			r := start(b, &script{serve: func(c *Conn, req *wire.Command) Verdict {
				a.Answer(req, wire.Success)
				c.Send(&a)
				return Done
			}}, func(o *Options) { o.Loops = 1; o.Now = time.Now })
			p := r.dial()
			var all []byte
			for i := range flight {
				all = append(all, request(int32(1000+i), pattern(1024))...)
			}
			a.Answer(&wire.Command{Opaque: 1000}, wire.Success)
			in := make([]byte, flight*len(a.Append(nil)))
			b.ReportAllocs()
			for i := 0; i < b.N; i += flight {
				p.write(all)
				if _, err := io.ReadFull(p, in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
