package netio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringmq/netio/wire"
)

func TestManyInFlightOnTwoAddresses(t *testing.T) {
	r := start(t, &script{}, func(o *Options) { o.Addrs = []string{"127.0.0.1:0", "127.0.0.1:0"} })
	addrs := r.Addrs()
	if len(addrs) != 2 || addrs[0].Port() == 0 || addrs[0] == addrs[1] {
		t.Fatalf("Addrs() = %v", addrs)
	}
	for _, a := range addrs {
		p := r.dialTo(a)
		var all []byte
		for i := range 200 {
			all = append(all, request(int32(i), pattern(i*37))...)
		}
		go p.Write(all) // the answers fill the socket while requests are still on their way
		for i := range 200 {
			if got := p.expect(int32(i), wire.Success); !bytes.Equal(got.Body, pattern(i*37)) {
				t.Fatalf("%v: the body of answer %d is not that of its request", a, i)
			}
		}
	}
	if got := r.Stats(); got.Accepted != 2 || got.Requests != 400 || got.Conns != 2 {
		t.Fatalf("Stats() = %+v", got)
	}
}

func TestAddressesOfAConn(t *testing.T) {
	seen := make(chan *Conn, 1)
	r := start(t, &script{opened: func(c *Conn) { seen <- c }}, nil)
	p := r.dial()
	c := <-seen
	if c.Remote().String() != p.LocalAddr().String() || c.Local().String() != p.RemoteAddr().String() {
		t.Fatalf("remote %v, local %v; the peer says %v, %v", c.Remote(), c.Local(), p.LocalAddr(), p.RemoteAddr())
	}
	if c.Loop() != r.loops[c.Loop().Index()] {
		t.Fatal("Loop().Index() is not the loop's place")
	}
}

func TestListenNamesEveryComplaint(t *testing.T) {
	_, err := Listen(&script{}, Options{
		Addrs: []string{"nowhere"}, Loops: -1, MaxConns: -1, MaxConnInBytes: 1, MaxOutBytes: 1, IdleWait: -1,
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`"nowhere"`, "loops=-1", "max_conns=-1", "max_conn_in_bytes=1", "max_out_bytes=1", "idle_wait=-1ns"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	if _, err := Listen(&script{}, Options{}); err == nil {
		t.Error("no address: no error")
	}
}

// TestListenLeavesNothingBehind: the second address is taken; the first must be free again.
func TestListenLeavesNothingBehind(t *testing.T) {
	r := start(t, &script{}, nil)
	taken := r.Addrs()[0].String()
	if _, err := Listen(&script{}, Options{Addrs: []string{"127.0.0.1:0", taken}}); err == nil || !strings.Contains(err.Error(), taken) {
		t.Fatalf("listen on a taken address: %v", err)
	}
}

func TestOnewayIsServedAndNotAnswered(t *testing.T) {
	var oneways atomic.Int64
	r := start(t, &script{serve: func(c *Conn, req *wire.Command) Verdict {
		if req.Oneway() {
			oneways.Add(1)
		}
		return echo(c, req)
	}}, nil)
	p := r.dial()
	var one wire.Command
	one.Request(wire.SendMessage, 1)
	one.Flag |= 2
	p.write(append(one.Append(nil), request(2, nil)...))
	p.expect(2, wire.Success)
	if oneways.Load() != 1 {
		t.Fatalf("%d oneway requests served", oneways.Load())
	}
}

func TestAnswersOfThePeerAreIgnored(t *testing.T) {
	r := start(t, &script{}, nil)
	p := r.dial()
	var req, stray wire.Command
	req.Request(wire.SendMessage, 77)
	stray.Answer(&req, wire.Success)
	p.write(append(stray.Append(nil), request(2, nil)...))
	p.expect(2, wire.Success)
	if got := r.Stats(); got.StrayAnswers != 1 || got.Requests != 1 {
		t.Fatalf("Stats() = %+v", got)
	}
}

func TestPostFromAnywhere(t *testing.T) {
	seen := make(chan *Conn, 1)
	r := start(t, &script{opened: func(c *Conn) { seen <- c }}, nil)
	p := r.dial()
	c := <-seen
	const posters, each = 4, 200
	for i := range posters {
		go func() {
			for k := range each {
				var cmd wire.Command
				cmd.Request(wire.NotifyConsumerIdsChanged, int32(i*each+k))
				c.Post(&cmd)
			}
		}()
	}
	last := [posters]int32{-1, -1, -1, -1}
	for range posters * each {
		a := p.answer()
		if i, k := a.Opaque/each, a.Opaque%each; k != last[i]+1 {
			t.Fatalf("poster %d: %d came after %d", i, k, last[i])
		} else {
			last[i] = k
		}
	}
	p.Close()
	r.until(func(Stats) bool { return c.Closed() })
	var cmd wire.Command
	cmd.Request(wire.NotifyConsumerIdsChanged, 1)
	c.Post(&cmd)
	r.settled()
	if n := r.Stats().OutBytes; n != 0 {
		t.Fatalf("%d bytes of answers are held for nobody", n)
	}
}

func TestTooManyConnections(t *testing.T) {
	r := start(t, &script{}, func(o *Options) { o.MaxConns = 2 })
	a, b := r.dial(), r.dial()
	a.write(request(1, nil))
	a.expect(1, wire.Success)
	b.write(request(1, nil))
	b.expect(1, wire.Success)
	for range 3 {
		r.dial().ended()
	}
	if got := r.Stats(); got.Refused != 3 || got.Conns != 2 {
		t.Fatalf("Stats() = %+v", got)
	}
	if lines := r.log.with("connection refused"); len(lines) != 1 || !strings.Contains(lines[0], "max_conns=2") {
		t.Fatalf("log: %q", lines)
	}
	a.Close() // makes room
	r.until(func(s Stats) bool { return s.Conns == 1 })
	c := r.dial()
	c.write(request(3, nil))
	c.expect(3, wire.Success)
}

// TestStopAnswersWhatIsOwed: a stop that comes between a send and its flush still answers it.
func TestStopAnswersWhatIsOwed(t *testing.T) {
	served := make(chan struct{}, 100)
	r := start(t, &script{serve: func(c *Conn, req *wire.Command) Verdict {
		c.Owe(AtVisible, int64(req.Opaque), answer(req, wire.Success))
		served <- struct{}{}
		return Done
	}}, nil)
	p := r.dial()
	for i := range 100 {
		p.write(request(int32(i+1), nil))
	}
	for range 100 {
		<-served
	}
	stopped := make(chan error)
	go func() { stopped <- r.Stop(context.Background()) }()
	r.Advance(0, 40)
	for i := range 40 {
		p.expect(int32(i+1), wire.Success)
	}
	select {
	case err := <-stopped:
		t.Fatalf("stopped with 60 answers owed: %v", err)
	default:
	}
	r.Advance(0, 100)
	for i := range 60 {
		p.expect(int32(i+41), wire.Success)
	}
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	p.ended()
	if got := r.Stats(); got.ClosedByServer != 1 || got.OutBytes != 0 {
		t.Fatalf("Stats() = %+v", got)
	}
}

func TestStopGivesUpWithItsContext(t *testing.T) {
	served := make(chan *Conn, 1)
	r := start(t, &script{serve: func(c *Conn, req *wire.Command) Verdict {
		c.Owe(AtVisible, 1, answer(req, wire.Success))
		served <- c
		return Done
	}}, nil)
	p := r.dial()
	p.write(request(1, nil))
	c := <-served
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := r.Stop(ctx)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "1 answers owed") {
		t.Fatalf("Stop = %v", err)
	}
	p.ended()
	// Whatever others still call must do nothing.
	r.Advance(9, 9)
	r.FailOwed(wire.ServiceNotAvailable, "")
	r.tick(coarseTick)
	c.Loop().Execute(func() { t.Error("ran after the stop") })
	var cmd wire.Command
	cmd.Request(wire.NotifyConsumerIdsChanged, 1)
	c.Post(&cmd)
	c.Close("again")
	if err := r.Stop(context.Background()); err != nil {
		t.Fatalf("second Stop: %v", err)
	}
}

// A node that fails in the middle of its start stops at once what nobody was connected to yet. That is no complaint.
func TestStopWithoutConnections(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 20 { // the loops may be quicker than the look at ctx
		if err := start(t, &script{}, nil).Stop(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCloseInEveryCallback: wherever the handler closes a connection, it sees Closed once, nothing is
// served afterwards, and what was queued before goes out.
func TestCloseInEveryCallback(t *testing.T) {
	for _, place := range []string{"opened", "serve", "drop", "endTurn", "elsewhere"} {
		t.Run(place, func(t *testing.T) {
			var closed, served atomic.Int64
			var toClose atomic.Pointer[Conn]
			gone := make(chan struct{})
			h := &script{
				opened: func(c *Conn) {
					if place == "opened" {
						c.Close(place)
					}
				},
				closed: func(c *Conn) {
					closed.Add(1)
					c.Close("again")
					c.Send(answer(&wire.Command{}, wire.Success))
					close(gone)
				},
				serve: func(c *Conn, req *wire.Command) Verdict {
					served.Add(1)
					echo(c, req)
					switch place {
					case "serve":
						c.Close(place)
					case "drop":
						return Drop
					case "endTurn":
						toClose.Store(c)
						return Later // the second request must not be served
					case "elsewhere":
						done := make(chan struct{})
						go func() { c.Close(place); close(done) }()
						<-done
					}
					return Done
				},
				endTurn: func(l *Loop) {
					if c := toClose.Swap(nil); c != nil {
						c.Close(place)
					}
				},
			}
			r := start(t, h, nil)
			p := r.dial()
			p.Write(append(request(1, nil), request(2, nil)...))
			if place != "opened" {
				p.expect(1, wire.Success)
			}
			p.ended()
			<-gone
			r.settled()
			want := int64(1)
			if place == "opened" {
				want = 0
			}
			if closed.Load() != 1 || served.Load() != want {
				t.Fatalf("%d times closed, %d requests served (want %d)", closed.Load(), served.Load(), want)
			}
			if got := r.Stats(); got.ClosedByOwner != 1 || got.Conns != 0 || got.InBytes != 0 || got.OutBytes != 0 {
				t.Fatalf("Stats() = %+v", got)
			}
		})
	}
}

// TestClosedMaySendToOthers: a connection that leaves is news for another one on the same loop.
func TestClosedMaySendToOthers(t *testing.T) {
	var first atomic.Pointer[Conn]
	r := start(t, &script{
		opened: func(c *Conn) { first.CompareAndSwap(nil, c) },
		closed: func(c *Conn) {
			if other := first.Load(); other != c {
				var cmd wire.Command
				cmd.Request(wire.NotifyConsumerIdsChanged, 5)
				other.Send(&cmd)
			}
		},
		serve: func(c *Conn, req *wire.Command) Verdict {
			if req.Opaque == 2 {
				return Drop
			}
			return echo(c, req)
		},
	}, func(o *Options) { o.Loops = 1 })
	a := r.dial()
	a.write(request(1, nil))
	a.expect(1, wire.Success)
	b := r.dial()
	b.write(request(2, nil))
	b.ended()
	if got := a.answer(); got.Code != wire.NotifyConsumerIdsChanged || got.Opaque != 5 {
		t.Fatalf("got %v", got)
	}
	c := r.dial()
	c.write(request(3, nil))
	c.expect(3, wire.Success)
	c.Close() // the same when the peer leaves by itself
	if got := a.answer(); got.Code != wire.NotifyConsumerIdsChanged {
		t.Fatalf("got %v", got)
	}
}

// TestEndTurnFollows: one EndTurn per turn, after all its requests, which are readable until then, and
// after functions given to Execute.
func TestEndTurnFollows(t *testing.T) {
	type kept struct {
		opaque int32
		body   []byte
	}
	var batch []kept // one loop
	var seen []string
	r := start(t, &script{
		serve: func(c *Conn, req *wire.Command) Verdict {
			c.State = "mine"
			batch = append(batch, kept{req.Opaque, req.Body})
			return echo(c, req)
		},
		endTurn: func(l *Loop) {
			for _, k := range batch {
				seen = append(seen, fmt.Sprintf("%d:%s", k.opaque, k.body))
			}
			batch = batch[:0]
		},
	}, func(o *Options) { o.Loops = 1 })
	p := r.dial()
	var want []string
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var all []byte
	for i := range 300 {
		body := fmt.Sprintf("body-%d-%s", i, strings.Repeat("x", rng.IntN(3000)))
		want = append(want, fmt.Sprintf("%d:%s", i, body))
		all = append(all, request(int32(i), []byte(body))...)
	}
	go func() {
		for len(all) > 0 {
			n := min(len(all), 1+rng.IntN(5000))
			p.Write(all[:n])
			all = all[n:]
		}
	}()
	for i := range 300 {
		p.expect(int32(i), wire.Success)
	}
	l := r.loops[0]
	onLoop(l, func() {}) // the last turn is over
	ended := 0
	onLoop(l, func() {
		if strings.Join(seen, ",") != strings.Join(want, ",") {
			t.Error("what EndTurn saw is not what was sent")
		}
		l.s.handler.(*script).endTurn = func(*Loop) { ended++ }
	})
	onLoop(l, func() {
		if ended != 1 {
			t.Errorf("%d times EndTurn after one Execute", ended)
		}
	})
}

// TestDescriptorsAreReused: connections come and go with output blocked, so that their descriptor
// numbers change owners while events are under way. Nobody may get what is not his.
func TestDescriptorsAreReused(t *testing.T) {
	r := start(t, &script{serve: func(c *Conn, req *wire.Command) Verdict {
		a := answer(req, wire.Success)
		a.Body = bytes.Repeat([]byte{byte(req.Opaque)}, 300_000)
		c.Send(a)
		return Done
	}}, nil)
	for round := range 60 {
		p := r.dial()
		for range 8 {
			p.write(request(int32(round), nil))
		}
		if round%3 != 0 { // most leave before all is sent
			p.expect(int32(round), wire.Success)
			p.SetLinger(0)
			p.Close()
			continue
		}
		for range 8 {
			a := p.expect(int32(round), wire.Success)
			if !bytes.Equal(a.Body, bytes.Repeat([]byte{byte(round)}, 300_000)) {
				t.Fatalf("round %d: foreign bytes", round)
			}
		}
	}
}

// TestOutOfDescriptors: when the process has none left, accepting waits and then goes on. (gnet's own
// listener ends the engine there, and with it the node.)
func TestOutOfDescriptors(t *testing.T) {
	r := start(t, &script{}, func(o *Options) { o.MaxConns = 2 })
	p := r.dial()
	p.write(request(1, nil))
	p.expect(1, wire.Success)
	// A connection that is taken over has a second descriptor for a moment. The acceptor has given p's back when it has
	// done with others.
	x, y := r.dial(), r.dial()
	r.until(func(Stats) bool { return len(r.log.with("connection refused")) > 0 })
	_, _ = x.Close(), y.Close()
	r.until(func(s Stats) bool { return s.Conns == 1 })
	r.pass(2 * time.Second) // until the next line may be logged

	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	top, err := unix.Dup(0)
	if err != nil {
		t.Fatal(err)
	}
	low := limit
	low.Cur = uint64(top) + 20
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	taken := []int{top}
	giveBack := func() { // all at once: a connection takes two for a moment
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
		for _, fd := range taken {
			unix.Close(fd)
		}
		taken = nil
	}
	defer giveBack()
	for {
		fd, err := unix.Dup(0)
		if err != nil {
			break
		}
		taken = append(taken, fd)
	}
	unix.Close(taken[len(taken)-1]) // one for the client, none for the server
	taken = taken[:len(taken)-1]
	q := r.dial()
	r.until(func(s Stats) bool { return s.AcceptErrors > 0 })
	p.write(request(2, nil)) // who is connected is served
	p.expect(2, wire.Success)
	giveBack()
	q.write(request(3, nil))
	q.expect(3, wire.Success)
	if lines := r.log.with("accept failed"); len(lines) != 1 || !strings.Contains(lines[0], "too many open files") {
		t.Errorf("log: %q", lines)
	}
}

func TestIdleServerIsLeftAlone(t *testing.T) {
	turns := 0
	r := start(t, &script{endTurn: func(*Loop) { turns++ }}, func(o *Options) { o.Loops = 1 })
	l := r.loops[0]
	onLoop(l, func() { turns = 0 })
	for range 50 {
		r.tick(fineTick)
		r.tick(coarseTick)
		r.Advance(1, 1)
	}
	if l.ringing.Load() {
		t.Fatal("a loop without connections was rung")
	}
}
