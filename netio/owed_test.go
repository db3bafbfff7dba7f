package netio

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ringmq/netio/wire"
)

// oweByBody owes each answer until the position that the body names, such as "v17" or "w9".
func oweByBody(c *Conn, req *wire.Command) Verdict {
	var kind byte
	var end int64
	if _, err := fmt.Sscanf(string(req.Body), "%c%d", &kind, &end); err != nil {
		panic(err)
	}
	var a wire.Command
	a.Answer(req, wire.Success)
	a.SetInt("queueOffset", end)
	at := AtVisible
	if kind == 'w' {
		at = AtWritten
	}
	c.Owe(at, end, &a)
	return Done
}

func TestOwedAnswersFollowTheMarks(t *testing.T) {
	r := start(t, &script{serve: oweByBody}, func(o *Options) { o.Loops = 1 })
	p := r.dial()
	for i, body := range []string{"v10", "w10", "v20", "v20", "w30", "v30", "v0"} {
		p.write(request(int32(i), []byte(body)))
	}
	waitOwed := func(n int64) {
		t.Helper()
		r.until(func(s Stats) bool { return s.Owed == n })
	}
	waitOwed(7) // the last one is covered from the start, but behind others in its line
	for _, step := range []struct {
		written, visible int64
		want             []int32
		left             int64
	}{
		{9, 9, nil, 7},
		{10, 9, []int32{1}, 6},
		{10, 10, []int32{0}, 5},
		{5, 5, nil, 5}, // marks never go back
		{29, 19, nil, 5},
		{29, 25, []int32{2, 3}, 3},
		{31, 31, []int32{4, 5, 6}, 0},
	} {
		r.Advance(step.written, step.visible)
		for _, opaque := range step.want {
			if a := p.expect(opaque, wire.Success); a.Text("queueOffset") == "" {
				t.Fatalf("answer %d lost its fields", opaque)
			}
		}
		waitOwed(step.left)
	}
	p.write(request(50, []byte("v31"))) // covered already
	p.expect(50, wire.Success)
	r.settled()
	if got := r.Stats(); got.Owed != 0 || got.OutBytes != 0 {
		t.Fatalf("Stats() = %+v", got)
	}
}

// TestOverdueAnswersAreRecoded: after OweWait the answer says "flush timed out" and keeps its fields; a
// mark that comes later finds nothing left to do.
func TestOverdueAnswersAreRecoded(t *testing.T) {
	r := start(t, &script{serve: oweByBody}, func(o *Options) { o.Loops, o.OweWait = 1, 5*time.Second })
	p := r.dial()
	p.write(request(1, []byte("v10")))
	p.write(request(2, []byte("w10")))
	r.until(func(s Stats) bool { return s.Owed == 2 })
	r.clock.advance(3 * time.Second)
	p.write(request(3, []byte("v20")))
	r.until(func(s Stats) bool { return s.Owed == 3 })
	r.pass(time.Second)
	if n := r.Stats().OverdueAnswers; n != 0 {
		t.Fatalf("%d overdue after 4 s", n)
	}
	r.pass(time.Second)
	got := []*wire.Command{p.answer(), p.answer()}
	slices.SortFunc(got, func(a, b *wire.Command) int { return int(a.Opaque - b.Opaque) })
	for i, a := range got {
		if a.Opaque != int32(i+1) || a.Code != wire.FlushDiskTimeout || a.Text("queueOffset") != "10" {
			t.Fatalf("overdue answer: opaque %d, code %d, queueOffset %q", a.Opaque, a.Code, a.Text("queueOffset"))
		}
	}
	r.Advance(20, 20)
	p.expect(3, wire.Success)
	if got := r.Stats(); got.OverdueAnswers != 2 || got.Owed != 0 {
		t.Fatalf("Stats() = %+v", got)
	}
}

// TestLateLookAtLimits: a process that stood still finds the marks moved and the time over at once. What is covered is
// acknowledged then; it used to get "flush timed out" when the look at the limits came first in the loop's turn.
func TestLateLookAtLimits(t *testing.T) {
	r := start(t, &script{serve: oweByBody}, func(o *Options) { o.Loops = 1 })
	p := r.dial()
	for i, body := range []string{"v10", "v20"} {
		p.write(request(int32(i), []byte(body)))
	}
	r.until(func(s Stats) bool { return s.Owed == 2 })
	r.clock.advance(r.o.OweWait)
	l := r.loops[0]
	in := l.lockInbox()
	in.tick = coarseTick
	raise(&r.visible, 10)
	l.unlockInbox()
	p.expect(0, wire.Success)
	p.expect(1, wire.FlushDiskTimeout)
}

// TestFailOwed: what the marks had reached is acknowledged; all else fails, now and later.
func TestFailOwed(t *testing.T) {
	r := start(t, &script{serve: oweByBody}, func(o *Options) { o.Loops = 1 })
	p := r.dial()
	for i, body := range []string{"v10", "v20", "w20"} {
		p.write(request(int32(i), []byte(body)))
	}
	r.until(func(s Stats) bool { return s.Owed == 3 })
	r.Advance(10, 10)
	r.FailOwed(wire.ServiceNotAvailable, "disk: input/output error")
	r.FailOwed(wire.SystemError, "a later one does not count")
	p.write(request(3, []byte("v30")))
	p.write(request(4, []byte("v5")))
	codes := map[int32]wire.Code{}
	for range 5 {
		a := p.answer()
		codes[a.Opaque] = a.Code
		if a.Code != wire.Success && (string(a.Remark) != "disk: input/output error" || len(a.Fields) != 0) {
			t.Fatalf("answer %d: remark %q, fields %v", a.Opaque, a.Remark, a.Fields)
		}
	}
	for opaque, want := range map[int32]wire.Code{0: wire.Success, 1: wire.ServiceNotAvailable, 2: wire.ServiceNotAvailable, 3: wire.ServiceNotAvailable, 4: wire.Success} {
		if codes[opaque] != want {
			t.Errorf("answer %d: code %d, want %d", opaque, codes[opaque], want)
		}
	}
	if got := r.Stats(); got.FailedAnswers != 3 || got.Owed != 0 {
		t.Fatalf("Stats() = %+v", got)
	}
}

// TestOwedToTheGone: a connection that was reset takes its owed answers along, and nobody else's. (One that was only
// closed by its peer looks half-closed, see TestHalfClosedForGood.)
func TestOwedToTheGone(t *testing.T) {
	r := start(t, &script{serve: oweByBody}, func(o *Options) { o.Loops = 1 })
	p, q := r.dial(), r.dial()
	p.write(request(1, []byte("v10")))
	q.write(request(2, []byte("v10")))
	r.until(func(s Stats) bool { return s.Owed == 2 })
	if err := p.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	p.Close()
	r.until(func(s Stats) bool { return s.Conns == 1 })
	r.Advance(10, 10)
	q.expect(2, wire.Success)
	r.settled()
	if got := r.Stats(); got.Owed != 0 || got.OutBytes != 0 {
		t.Fatalf("Stats() = %+v", got)
	}
}

// TestAdvanceNeverLosesAnyone: marks move while sends arrive on all loops; with the last mark set, every
// answer must come without any tick to help.
func TestAdvanceNeverLosesAnyone(t *testing.T) {
	var end atomic.Int64
	r := start(t, &script{serve: func(c *Conn, req *wire.Command) Verdict {
		c.Owe(AtVisible, end.Add(1), answer(req, wire.Success))
		return Done
	}}, func(o *Options) { o.Loops = 3 })
	const conns, each = 6, 200
	var wg sync.WaitGroup
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				n := end.Load()
				r.Advance(n, n)
				runtime.Gosched() // or a single processor does little else
			}
		}
	})
	for range conns {
		p := r.dial()
		wg.Go(func() {
			for i := range each {
				p.write(request(int32(i), nil))
				p.expect(int32(i), wire.Success)
			}
		})
	}
	wg.Wait()
	close(stop)
	writer.Wait()
}

// TestFifoAgainstASlice: random pushes and pops; order, frames and bounds as those of a plain list.
func TestFifoAgainstASlice(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	type owed struct {
		end   int64
		frame string
	}
	var f fifo
	var model []owed
	for step := range 20_000 {
		if rng.IntN(5) > 1 && (step/1000)%2 == 0 || len(model) == 0 {
			var a wire.Command
			a.Answer(&wire.Command{Opaque: int32(step)}, wire.Success)
			a.SetRemark(strings.Repeat("r", rng.IntN(300)))
			end := int64(step)
			n := f.push(nil, end, 0, &a)
			model = append(model, owed{end, string(a.Append(nil))})
			if n != len(model[len(model)-1].frame) {
				t.Fatalf("step %d: push = %d bytes", step, n)
			}
		} else {
			d := f.head()
			if d.end != model[0].end || string(f.frame(d)) != model[0].frame {
				t.Fatalf("step %d: head is %d, want %d", step, d.end, model[0].end)
			}
			f.pop()
			model = model[1:]
		}
		live := 0
		for _, o := range model {
			live += len(o.frame)
		}
		if f.len() != len(model) || len(f.frames) > 2*live+8192 {
			t.Fatalf("step %d: %d entries, %d bytes for %d entries of %d bytes", step, f.len(), len(f.frames), len(model), live)
		}
	}
	for f.head() != nil {
		f.pop()
	}
	if f.held() != 0 || cap(f.frames) > fifoKeepBytes {
		t.Fatalf("an empty fifo holds %d bytes and keeps %d", f.held(), cap(f.frames))
	}
}
