package netio

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"ringmq/netio/wire"
	"ringmq/uring"
)

// mixed answers each request with a random sequence of frames: small, large, with ranges of files of each kind.
// It has the handler and the bytes that must arrive.
type mixed struct {
	rng      *rand.Rand
	content  []byte
	files    []*uring.File // one that is mapped, one that is not, one without a descriptor
	expected bytes.Buffer  // loop only until the requests are answered
	ranges   int64         // of them, bytes of files
	t        *testing.T
}

func (m *mixed) serve(c *Conn, req *wire.Command) Verdict {
	for range 1 + m.rng.IntN(6) {
		a := answer(req, wire.Success)
		switch m.rng.IntN(4) {
		case 0:
			a.Body = m.content[:m.rng.IntN(200)]
		case 1:
			a.Body = m.content[:m.rng.IntN(100_000)]
		default:
			m.sendRanges(c, a)
			continue
		}
		c.Send(a)
		m.expected.Write(a.Append(nil))
	}
	return Done
}

func (m *mixed) sendRanges(c *Conn, a *wire.Command) {
	var body []uring.FileRange
	var want []byte
	short := m.rng.IntN(2) == 0
	for range m.rng.IntN(40) {
		f := m.files[m.rng.IntN(len(m.files))]
		off := m.rng.IntN(len(m.content))
		n := m.rng.IntN(min(len(m.content)-off, 50_000))
		if short {
			n = min(n, m.rng.IntN(3000))
		}
		if last := len(body) - 1; last >= 0 && body[last].File == f {
			body[last].Shares = true
			body = append(body, uring.FileRange{File: f, Off: int64(off), Len: n})
		} else {
			body = append(body, rangeOf(m.t, f, int64(off), n))
		}
		want = append(want, m.content[off:off+n]...)
	}
	m.ranges += int64(len(want))
	m.expected.Write(append(a.AppendHead(nil, len(want)), want...))
	c.SendRanges(a, body)
}

// TestEveryByteInOrder: readers of all kinds get exactly what was queued.
func TestEveryByteInOrder(t *testing.T) {
	readers := map[string]struct {
		narrow   bool
		requests int
		ask      func(most int, rng *rand.Rand) int // how much to read at once
	}{
		"fast":   {false, 40, func(most int, _ *rand.Rand) int { return most }},
		"slow":   {false, 40, func(_ int, rng *rand.Rand) int { return 1 + rng.IntN(3000) }},
		"narrow": {true, 10, func(most int, _ *rand.Rand) int { return most }},
		"bursty": {true, 10, func(most int, rng *rand.Rand) int { return 1 + rng.IntN(2)*(most-1) }},
	}
	for name, reader := range readers {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			m := &mixed{rng: rand.New(rand.NewPCG(seed, 1)), content: pattern(1 << 20), t: t}
			mapped, closed := tempFile(t, m.content)
			m.files = []*uring.File{mapped, plainFile(t, m.content), memFile(m.content)}
			r := start(t, &script{serve: m.serve}, func(o *Options) { o.Loops = 1 })
			p := r.dial()
			if reader.narrow {
				p = r.dialNarrow()
			}
			for i := range reader.requests {
				p.write(request(int32(i), nil))
			}
			r.until(func(s Stats) bool { return s.Requests == int64(reader.requests) })
			var want []byte
			onLoop(r.loops[0], func() { want = m.expected.Bytes() })
			got, buf, rng := make([]byte, 0, len(want)), make([]byte, 64<<10), rand.New(rand.NewPCG(seed, 2))
			for len(got) < len(want) {
				n, err := p.Read(buf[:reader.ask(len(buf), rng)])
				if err != nil {
					t.Fatalf("after %d of %d bytes: %v", len(got), len(want), err)
				}
				got = append(got, buf[:n]...)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("bytes differ from %d on", firstDifference(got, want))
			}
			r.settled()
			s := r.Stats()
			if s.OutBytes != 0 || s.Queued != 0 {
				t.Errorf("%d bytes are still held, %d queued", s.OutBytes, s.Queued)
			}
			if s.BytesOut != int64(len(want)) {
				t.Errorf("BytesOut = %d, want %d", s.BytesOut, len(want))
			}
			if s.MappedOut == 0 || s.FilesOut == 0 || s.CopiedOut == 0 || s.MappedOut+s.FilesOut+s.CopiedOut != m.ranges {
				t.Errorf("%d bytes of files went out from mappings, %d by sendfile, %d copied: want %d in all", s.MappedOut, s.FilesOut, s.CopiedOut, m.ranges)
			}
			for _, f := range m.files {
				f.Release()
			}
			if !closed.Load() {
				t.Error("a range was not released")
			}
		})
	}
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// TestClosedWhileQueued: the peer leaves with ranges and bytes waiting; all of it is given back.
func TestClosedWhileQueued(t *testing.T) {
	content := pattern(8 << 20)
	file, closed := tempFile(t, content)
	gone := make(chan struct{})
	r := start(t, &script{
		serve: func(c *Conn, req *wire.Command) Verdict {
			for range 4 {
				a := answer(req, wire.Success)
				c.SendRanges(a, []uring.FileRange{
					rangeOf(t, file, 0, len(content)), {File: file, Off: 10, Len: 1000, Shares: true}, rangeOf(t, file, 5000, 1000),
				})
				a.Body = content[:100_000]
				c.Send(a)
			}
			return Done
		},
		closed: func(c *Conn) {
			c.SendRanges(&wire.Command{}, []uring.FileRange{rangeOf(t, file, 0, 10)}) // released at once
			close(gone)
		},
	}, nil)
	p := r.dial()
	p.write(request(1, nil))
	p.frameHead()
	p.SetLinger(0)
	p.Close()
	<-gone
	r.settled()
	if s := r.Stats(); s.OutBytes != 0 || s.Queued != 0 {
		t.Errorf("%d bytes are still held, %d queued", s.OutBytes, s.Queued)
	}
	file.Release()
	if !closed.Load() {
		t.Error("a range was not released")
	}
}

// frameHead reads the first bytes of an answer, to know that it is on its way.
func (p *peer) frameHead() uint32 {
	p.t.Helper()
	head := make([]byte, 4)
	if _, err := io.ReadFull(p, head); err != nil {
		p.t.Fatal(err)
	}
	return binary.BigEndian.Uint32(head)
}

// TestUnreadableFileEndsTheConnection: bytes that are not there leave no way to finish the frame. Whoever runs the node
// finds one line.
func TestUnreadableFileEndsTheConnection(t *testing.T) {
	mapped := openTemp(t, pattern(100_000))
	for name, file := range map[string]*uring.File{
		"sendfile": plainFile(t, pattern(100)),
		"copy":     memFile(pattern(100)),
		"mapping":  maps.NewFile(int(mapped.Fd()), 100_000, mapped, func() { mapped.Close() }),
	} {
		t.Run(name, func(t *testing.T) {
			defer file.Release()
			if name == "mapping" {
				if err := os.Truncate(mapped.Name(), 100); err != nil {
					t.Fatal(err)
				}
			}
			r := start(t, &script{serve: func(c *Conn, req *wire.Command) Verdict {
				c.SendRanges(answer(req, wire.Success), []uring.FileRange{rangeOf(t, file, 50, 10), rangeOf(t, file, 50, 20_000)})
				return Done
			}}, nil)
			p := r.dial()
			p.write(request(1, nil))
			p.ended()
			if s := r.Stats(); s.ClosedUnread != 1 || s.OutBytes != 0 {
				t.Errorf("Stats() = %+v", s)
			}
			if lines := r.log.with("cannot be read"); len(lines) != 1 {
				t.Errorf("log: %q", lines)
			}
		})
	}
}

// TestUnreadOutputHoldsRequests: a peer that does not read has its requests kept back at the bound and
// costs no more; others are served; it is closed after StallWait without a byte, and not before.
func TestUnreadOutputHoldsRequests(t *testing.T) {
	body := pattern(50_000)
	var served atomic.Int64
	r := start(t, &script{serve: func(c *Conn, req *wire.Command) Verdict {
		if req.Opaque > 0 {
			served.Add(1)
		}
		a := answer(req, wire.Success)
		a.Body = body
		c.Send(a)
		return Done
	}}, func(o *Options) { o.Loops, o.MaxConnOutBytes = 1, 1<<20 })
	lazy, good := r.dialNarrow(), r.dial()
	const requests = 2000
	var all []byte
	for i := range requests {
		all = append(all, request(int32(i+1), nil)...)
	}
	lazy.write(all)
	r.until(func(s Stats) bool { return s.BytesIn == int64(len(all)) && s.Held == 1 })
	good.write(request(-1, nil))
	good.expect(-1, wire.Success)
	if n := served.Load(); n >= requests/2 {
		t.Fatalf("%d of %d requests of a peer that reads nothing were served", n, requests)
	}
	if n := r.Stats().OutBytes; n < 1<<20 || n > 2<<20 {
		t.Fatalf("%d bytes are held for a bound of 1 MiB", n)
	}

	// It begins to read: all are answered.
	for i := range requests / 2 {
		lazy.expect(int32(i+1), wire.Success)
	}
	r.settled()
	r.pass(59 * time.Second)
	good.write(request(-2, nil))
	good.expect(-2, wire.Success)
	if n := r.Stats().ClosedStalled; n != 0 {
		t.Fatal("closed before its time")
	}
	r.pass(60 * time.Second) // what the kernel may still have taken was taken at 59 s at the latest
	if n := r.Stats().ClosedStalled; n != 1 {
		t.Fatalf("%d connections closed as stalled: %+v", n, r.Stats())
	}
	lazy.ended()
	if lines := r.log.with("does not read its answers"); len(lines) != 1 {
		t.Fatalf("log: %q", lines)
	}
	if n := r.Stats().OutBytes; n != 0 {
		t.Fatalf("%d bytes are still held", n)
	}
}

// TestUnreadRanges: stored bytes that a peer does not take cost a fixed sum for each range, however long it is. They keep
// its requests back at the bound, and after StallWait without a byte the connection is closed and the file given back.
func TestUnreadRanges(t *testing.T) {
	for name, size := range map[string]int{"mapping": 500, "sendfile": 64 << 10} {
		t.Run(name, func(t *testing.T) {
			file, closed := tempFile(t, pattern(1<<20))
			r := start(t, &script{serve: func(c *Conn, req *wire.Command) Verdict {
				var body []uring.FileRange
				for i := range 32 {
					body = append(body, uring.FileRange{File: file, Off: int64(i * size / 2), Len: size, Shares: i < 31})
				}
				if !file.Acquire() {
					t.Error("the file is closed")
				}
				c.SendRanges(answer(req, wire.Success), body)
				return Done
			}}, func(o *Options) { o.Loops, o.MaxConnOutBytes = 1, 8<<20 })
			p := r.dialNarrow()
			requests := 4 * (8 << 20) / (32 * size)
			var all []byte
			for i := range requests {
				all = append(all, request(int32(i+1), nil)...)
			}
			p.write(all)
			r.until(func(s Stats) bool { return s.BytesIn == int64(len(all)) && s.Held == 1 })
			s := r.Stats()
			if s.Queued < 4<<20 || s.Queued > 8<<20+int64(32*size)+chunkBytes {
				t.Errorf("%d bytes are queued for a bound of 8 MiB", s.Queued)
			}
			if most := s.Queued/int64(size)*int64(rangeBytes) + s.Queued/int64(32*size)*chunkBytes + 2*chunkBytes; s.OutBytes > most {
				t.Errorf("%d bytes are held for them, want %d at most", s.OutBytes, most)
			}
			r.pass(59 * time.Second)
			if r.Stats().ClosedStalled != 0 {
				t.Fatal("closed before its time")
			}
			r.pass(60 * time.Second)
			p.ended()
			if s := r.Stats(); s.ClosedStalled != 1 || s.Queued != 0 || s.OutBytes != 0 {
				t.Errorf("Stats() = %+v", s)
			}
			file.Release()
			if !closed.Load() {
				t.Error("a range was not released")
			}
		})
	}
}

// TestAllBufferedOutputIsBounded: many peers that do not read fill the bound of all connections; those
// that wait for nothing are served on, and the worst ones pay.
func TestAllBufferedOutputIsBounded(t *testing.T) {
	body := pattern(100_000)
	r := start(t, &script{serve: func(c *Conn, req *wire.Command) Verdict {
		a := answer(req, wire.Success)
		a.Body = body
		c.Send(a)
		return Done
	}}, func(o *Options) { o.Loops, o.MaxConnOutBytes, o.MaxOutBytes = 1, 4<<20, 8<<20 })
	var all []byte
	for i := range 400 {
		all = append(all, request(int32(i), nil)...)
	}
	for range 6 {
		lazy := r.dialNarrow()
		lazy.write(all)
	}
	r.until(func(s Stats) bool { return s.BytesIn == 6*int64(len(all)) })
	if n := r.Stats().OutBytes; n > 8<<20+6*(256<<10) {
		t.Fatalf("%d bytes are held for a bound of 8 MiB and six connections", n)
	}
	good := r.dial()
	for i := range 20 {
		good.write(request(int32(i), nil))
		good.expect(int32(i), wire.Success)
	}
	for range 10 {
		r.tick(fineTick)
		r.settled()
	}
	if got := r.Stats(); got.ClosedOutFull == 0 || got.ClosedOutFull == 6 || got.OutBytes > 8<<20 {
		t.Fatalf("Stats() = %+v", got)
	}
	good.write(request(99, nil))
	good.expect(99, wire.Success)
}

// TestPostsAreBounded: what others post to a peer that does not read ends its connection.
func TestPostsAreBounded(t *testing.T) {
	seen := make(chan *Conn, 1)
	r := start(t, &script{opened: func(c *Conn) { seen <- c }}, func(o *Options) {
		o.Loops, o.MaxConnOutBytes, o.MaxOutBytes = 1, 1<<20, 1<<40
	})
	lazy := r.dial()
	c := <-seen
	var cmd wire.Command
	cmd.Request(wire.NotifyConsumerIdsChanged, 1)
	cmd.Body = pattern(1 << 20)
	for range 64 {
		c.Post(&cmd)
		r.settled()
	}
	if got := r.Stats(); got.ClosedOutFull != 1 || got.OutBytes != 0 {
		t.Fatalf("Stats() = %+v", got)
	}
	lazy.ended()
}

// TestOneTurnSendsItsBudget: a peer that takes everything at once does not keep the loop. The "socket" is
// a file, which is never full; what it cannot do, being watched, ends the connection after the turn.
func TestOneTurnSendsItsBudget(t *testing.T) {
	file, closed := tempFile(t, pattern(3*flushBudget))
	sink, err := os.Create(filepath.Join(t.TempDir(), "sink"))
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	b := newBare(t, &script{}, nil)
	b.c.fd = int(sink.Fd())
	b.begin()
	b.c.queueRange(uring.FileRange{File: file, Len: 3 * flushBudget})
	b.c.markDirty()
	b.end()
	if info, err := sink.Stat(); err != nil || info.Size() != flushBudget {
		t.Fatalf("one turn sent %d bytes, want %d (%v)", info.Size(), flushBudget, err)
	}
	if !closed.Load() {
		t.Error("the rest was not released")
	}
}
