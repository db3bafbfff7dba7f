package netio

import (
	"bytes"
	"encoding/binary"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ringmq/netio/wire"
)

const busyRemark = "[TIMEOUT_CLEAN_QUEUE]broker busy"

// gate is a handler whose store is full until somebody opens it.
type gate struct {
	room   atomic.Int64 // requests that still fit; negative opaques always do
	served atomic.Int64
}

func (g *gate) serve(c *Conn, req *wire.Command) Verdict {
	if req.Opaque >= 0 && g.room.Add(-1) < 0 {
		g.room.Add(1)
		return Later
	}
	g.served.Add(1)
	return echo(c, req)
}

func TestLaterWaitsForTheMarks(t *testing.T) {
	g := &gate{}
	r := start(t, &script{serve: g.serve}, func(o *Options) { o.Loops = 1 })
	p, other := r.dial(), r.dial()
	for i := range 10 {
		p.write(request(int32(i), pattern(i*1000)))
	}
	r.until(func(s Stats) bool { return s.Held == 1 && s.InBytes > 0 })
	other.write(request(-1, nil))
	other.expect(-1, wire.Success)
	for i := range 10 { // one fits each time a mark moves, in order
		g.room.Add(1)
		r.Advance(int64(i+1), 0)
		if a := p.expect(int32(i), wire.Success); !bytes.Equal(a.Body, pattern(i*1000)) {
			t.Fatalf("request %d changed while it waited", i)
		}
	}
	r.settled()
	if got := r.Stats(); got.BusyAnswers != 0 || got.InBytes != 0 || got.Held != 0 || got.Requests != 11 {
		t.Fatalf("Stats() = %+v", got)
	}
}

// TestBusyAfterBusyWait: all that had arrived with the first request is answered when its time is over;
// what came later has its own time.
func TestBusyAfterBusyWait(t *testing.T) {
	g := &gate{}
	r := start(t, &script{serve: g.serve}, func(o *Options) { o.Loops = 1 })
	p := r.dial()
	var oneway wire.Command
	oneway.Request(wire.SendMessage, 3)
	oneway.Flag |= 2
	p.write(bytes.Join([][]byte{request(1, nil), request(2, nil), oneway.Append(nil)}, nil))
	r.until(func(s Stats) bool { return s.Held == 1 })
	r.clock.advance(100 * time.Millisecond)
	p.write(request(4, nil))
	r.until(func(s Stats) bool { return s.BytesIn > int64(3*len(request(1, nil))) })
	r.tick(fineTick)
	r.settled()
	if n := r.Stats().BusyAnswers; n != 0 {
		t.Fatalf("%d busy answers after 100 ms", n)
	}
	r.clock.advance(100 * time.Millisecond)
	r.tick(fineTick)
	for _, opaque := range []int32{1, 2} {
		if a := p.expect(opaque, wire.SystemBusy); string(a.Remark) != busyRemark {
			t.Fatalf("remark %q", a.Remark)
		}
	}
	r.settled()
	if got := r.Stats(); got.BusyAnswers != 3 || got.Held != 1 {
		t.Fatalf("Stats() = %+v", got)
	}
	r.clock.advance(200 * time.Millisecond)
	r.tick(fineTick)
	p.expect(4, wire.SystemBusy)
	g.room.Add(1)
	p.write(request(5, nil))
	p.expect(5, wire.Success)
}

// TestFloodIsAnsweredBusy: one client sends without end while nothing fits. It gets "busy" for the oldest
// as its bound is reached, keeps its connection, and its memory stays within the bound.
func TestFloodIsAnsweredBusy(t *testing.T) {
	g := &gate{}
	r := start(t, &script{serve: g.serve}, func(o *Options) { o.Loops = 1 })
	p, other := r.dial(), r.dial()
	body := pattern(100_000)
	const requests = 600 // 60 MB
	go func() {
		for i := range requests {
			p.Write(request(int32(i), body))
		}
	}()
	var next int32
	r.until(func(s Stats) bool {
		if s.InBytes > minConnInBytes {
			t.Fatalf("%d bytes are held for a bound of %d", s.InBytes, minConnInBytes)
		}
		for ; int64(next) < s.BusyAnswers; next++ {
			p.expect(next, wire.SystemBusy)
		}
		return s.BytesIn >= requests*int64(len(body))
	})
	if next < requests/2 {
		t.Fatalf("%d requests shed", next)
	}
	other.write(request(-1, nil))
	other.expect(-1, wire.Success)
	g.room.Store(1 << 40)
	r.Advance(1, 1)
	for ; next < requests; next++ {
		p.expect(next, wire.Success)
	}
	r.settled()
	if n := r.Stats().InBytes; n != 0 {
		t.Fatalf("%d bytes are still held", n)
	}
}

// TestHoardersPay: clients that send the beginnings of large frames fill the bound of all connections.
// Those that hold most are closed; somebody with an ordinary request is served.
func TestHoardersPay(t *testing.T) {
	r := start(t, &script{}, func(o *Options) { o.Loops, o.MaxInBytes = 1, 40<<20 })
	frame := request(1, pattern(15<<20))
	var hoarders []*peer
	for range 8 {
		p := r.dial()
		hoarders = append(hoarders, p)
		go p.Write(frame[:10<<20])
	}
	good := r.dial()
	r.until(func(s Stats) bool {
		if s.InBytes > 40<<20 {
			t.Fatalf("%d bytes are held for a bound of 40 MiB", s.InBytes)
		}
		return s.ClosedInFull > 0
	})
	for i := range 50 { // a frame that needs memory of its own
		good.write(request(int32(i), pattern(200_000)))
		good.expect(int32(i), wire.Success)
	}
	if n := r.Stats().InBytes; n > 40<<20 {
		t.Fatalf("%d bytes are held for a bound of 40 MiB", n)
	}
	if lines := r.log.with("holds most of the memory"); len(lines) == 0 {
		t.Fatal("nothing in the log")
	}
	for _, p := range hoarders {
		p.Close()
	}
	r.until(func(s Stats) bool { return s.Conns == 1 })
	if n := r.Stats().InBytes; n != 0 {
		t.Fatalf("%d bytes are still held", n)
	}
}

// TestWaitingGivesWayWithBusy: the same bound, filled by requests that wait for the store: they are
// answered, nobody is closed.
func TestWaitingGivesWayWithBusy(t *testing.T) {
	g := &gate{}
	r := start(t, &script{serve: g.serve}, func(o *Options) { o.Loops, o.MaxInBytes = 1, minConnInBytes })
	var peers []*peer
	for range 6 {
		p := r.dial()
		peers = append(peers, p)
		go p.Write(request(7, pattern(5<<20)))
		// One after the other: half a frame could not be answered, and would have to go.
		r.until(func(s Stats) bool { return s.BytesIn >= int64(len(peers))*(5<<20) })
	}
	if got := r.Stats(); got.BusyAnswers == 0 || got.ClosedInFull != 0 || got.InBytes > minConnInBytes {
		t.Fatalf("Stats() = %+v", got)
	}
	g.room.Store(100)
	r.Advance(1, 1)
	busy := 0
	for _, p := range peers {
		if a := p.answer(); a.Code == wire.SystemBusy {
			busy++
		}
	}
	if int64(busy) != r.Stats().BusyAnswers {
		t.Fatalf("%d busy answers arrived, %d counted", busy, r.Stats().BusyAnswers)
	}
}

// TestUnreadAndFloodingIsClosed: a peer that reads nothing and goes on sending is closed at its bound.
func TestUnreadAndFloodingIsClosed(t *testing.T) {
	big := pattern(1 << 20)
	r := start(t, &script{serve: func(c *Conn, req *wire.Command) Verdict {
		a := answer(req, wire.Success)
		a.Body = big
		c.Send(a)
		return Done
	}}, func(o *Options) { o.Loops, o.MaxConnOutBytes = 1, 8<<20 })
	p := r.dialNarrow()
	go func() {
		for range 400 {
			if _, err := p.Write(request(1, big[:100_000])); err != nil {
				return
			}
		}
	}()
	r.until(func(s Stats) bool { return s.ClosedInFull == 1 })
	if got := r.Stats(); got.Conns != 0 || got.InBytes != 0 || got.OutBytes != 0 {
		t.Fatalf("Stats() = %+v", got)
	}
}

// TestStrangersAreNamed: whatever else comes to this port is closed with a word about what it was.
func TestStrangersAreNamed(t *testing.T) {
	header := func(total, word uint32, rest string) string {
		b := binary.BigEndian.AppendUint32(nil, total)
		return string(binary.BigEndian.AppendUint32(b, word)) + rest
	}
	for name, c := range map[string]struct{ bytes, want string }{
		"http":            {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "looks like HTTP\""},
		"grpc":            {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/2 or gRPC"},
		"tls":             {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS ClientHello"},
		"ssh":             {"SSH-2.0-OpenSSH_9.6\r\n", "looks like SSH"},
		"proxy":           {"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n", "PROXY protocol"},
		"noise":           {"\xfe\xdc\xba\x98\x00\x01", "unknown: fe dc ba 98 00 01"},
		"negative length": {header(0xFFFFFFFF, 0, ""), "frame length out of range"},
		"length below 4":  {header(3, 0, ""), "frame length out of range"},
		"zero length":     {"\x00\x00\x00\x00", "frame length out of range"},
		"over 16 MiB":     {header(16<<20-3, 10, ""), "frame too large"},
		"lying header":    {header(16, 0x00ffffff, "01234567"), "malformed header"},
		"lying by one":    {header(16, 13, ""), "malformed header"},
		"unknown type":    {header(16, 7<<24|12, "0123456789ab"), "header"},
		"broken JSON":     {header(16, 12, "{\"code\":oops"), "header"},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, &script{serve: func(*Conn, *wire.Command) Verdict {
				t.Error("a stranger's bytes were served")
				return Done
			}}, nil)
			p, q := r.dial(), r.dial()
			p.write([]byte(c.bytes))
			p.ended()
			q.write([]byte(c.bytes))
			q.ended()
			r.until(func(s Stats) bool { return s.ClosedGarbled == 2 })
			lines := r.log.with("connection closed")
			if len(lines) != 1 {
				t.Fatalf("want one line for two strangers in a second: %q", lines)
			}
			if !strings.Contains(lines[0], c.want) || !strings.Contains(lines[0], "peer=127.0.0.1:") {
				t.Errorf("want %q and the peer in: %s", c.want, lines[0])
			}
			r.clock.advance(time.Second)
			p = r.dial()
			p.write([]byte(c.bytes))
			p.ended()
			if lines = r.log.with("similar_left_out=1"); len(lines) != 1 {
				t.Errorf("the one that was left out is not told: %q", lines)
			}
		})
	}
}

// TestGarbageAfterGood: what came before the garbage is answered.
func TestGarbageAfterGood(t *testing.T) {
	r := start(t, &script{}, nil)
	p := r.dial()
	p.write(append(request(1, nil), "GET / HTTP/1.1"...))
	p.expect(1, wire.Success)
	p.ended()
	if lines := r.log.with("looks like"); len(lines) != 0 {
		t.Errorf("a peer that spoke the protocol is called a stranger: %q", lines)
	}
}

// TestLargestFrame: a frame of exactly the limit passes, in whatever pieces it comes.
func TestLargestFrame(t *testing.T) {
	r := start(t, &script{}, nil)
	p := r.dial()
	body := make([]byte, wire.MaxFrameBytes-len(request(1, nil)))
	copy(body, pattern(len(body)))
	frame := request(1, body)
	if len(frame) != wire.MaxFrameBytes {
		t.Fatalf("the frame has %d bytes", len(frame))
	}
	go p.Write(frame)
	// The answer's header is smaller than the request's, so it fits as well.
	if a := p.expect(1, wire.Success); !bytes.Equal(a.Body, body) {
		t.Fatal("the body changed on its way")
	}
	r.settled()
	if got := r.Stats(); got.InBytes != 0 || got.OutBytes != 0 {
		t.Fatalf("Stats() = %+v", got)
	}
}

func TestTimeLimits(t *testing.T) {
	r := start(t, &script{}, func(o *Options) { o.Loops = 1 })
	silent, trickle, good := r.dial(), r.dial(), r.dial()
	trickle.write(request(1, nil)[:20])
	good.write(request(1, nil))
	good.expect(1, wire.Success)
	r.until(func(s Stats) bool { return s.Accepted == 3 && s.BytesIn > 20 })
	r.pass(9 * time.Second)
	if n := r.Stats().ClosedSilent; n != 0 {
		t.Fatalf("%d closed after 9 s", n)
	}
	r.pass(time.Second)
	silent.ended()
	trickle.ended()
	if got := r.Stats(); got.ClosedSilent != 2 || got.Conns != 1 {
		t.Fatalf("Stats() = %+v", got)
	}
	r.pass(100 * time.Second)
	good.write(request(2, nil)) // moves the end of its time
	good.expect(2, wire.Success)
	r.pass(119 * time.Second)
	if n := r.Stats().ClosedIdle; n != 0 {
		t.Fatalf("%d closed as idle after 119 s", n)
	}
	r.pass(time.Second)
	good.ended()
	if got := r.Stats(); got.ClosedIdle != 1 || got.Conns != 0 {
		t.Fatalf("Stats() = %+v", got)
	}
}
