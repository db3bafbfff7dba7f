package netio

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringmq/netio/wire"
)

// endsSide ends the peer's side behind what it wrote.
func (p *peer) endsSide() {
	p.t.Helper()
	if err := p.CloseWrite(); err != nil {
		p.t.Fatal(err)
	}
}

// TestHalfClosed: a peer that sends its request and ends its side, as "nc -N" does, got nothing but the end. Whatever
// its answer waits for, it gets it, and then the end.
func TestHalfClosed(t *testing.T) {
	var room atomic.Bool
	for _, tc := range []struct {
		name  string
		serve func(c *Conn, req *wire.Command) Verdict
		then  func(r *rig, c *Conn)
	}{
		{"for a mark", func(c *Conn, req *wire.Command) Verdict {
			c.Owe(AtVisible, 100, answer(req, wire.Success))
			return Done
		}, func(r *rig, _ *Conn) { r.Advance(100, 100) }},
		{"for room", func(c *Conn, req *wire.Command) Verdict {
			if !room.Load() {
				return Later
			}
			return echo(c, req)
		}, func(r *rig, _ *Conn) {
			room.Store(true)
			r.Advance(1, 1)
		}},
		{"for another goroutine", func(c *Conn, req *wire.Command) Verdict {
			c.Promise()
			return Done
		}, func(_ *rig, c *Conn) {
			var ans wire.Command
			ans.Answer(&wire.Command{Opaque: 7}, wire.Success)
			c.Post(&ans)
			c.Kept()
		}},
		{"for another goroutine and then for a mark", func(c *Conn, req *wire.Command) Verdict {
			c.Promise()
			return Done
		}, func(r *rig, c *Conn) {
			c.Loop().Execute(func() {
				var ans wire.Command
				ans.Answer(&wire.Command{Opaque: 7}, wire.Success)
				c.Owe(AtVisible, 100, &ans)
			})
			c.Kept()
			r.settled()
			r.Advance(100, 100)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			served, closed := make(chan *Conn, 1), make(chan *Conn, 2)
			r := start(t, &script{
				serve: func(c *Conn, req *wire.Command) Verdict {
					select {
					case served <- c:
					default:
					}
					return tc.serve(c, req)
				},
				closed: func(c *Conn) { closed <- c },
			}, nil)
			p := r.dial()
			p.write(request(7, nil))
			p.endsSide()
			c := <-served
			r.until(func(Stats) bool { return c.half.Load() })
			<-closed // at once: it is not waited for
			if !c.Closed() {
				t.Error("its connection does not count as closed")
			}
			tc.then(r, c)
			p.expect(7, wire.Success)
			p.ended()
			r.until(func(s Stats) bool { return s.Conns == 0 && s.ClosedByPeer == 1 && s.OutBytes == 0 })
			if len(closed) > 0 {
				t.Error("it was closed twice")
			}
		})
	}
}

// TestHalfClosedJustAfter: an answer was posted and its promise kept, and before the loop looked into its inbox it read the end of
// the peer's side. Nothing seemed to be owed, and the answer was lost.
func TestHalfClosedJustAfter(t *testing.T) {
	r := start(t, &script{serve: func(c *Conn, req *wire.Command) Verdict {
		c.Promise()
		poll := []unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLRDHUP}}
		for poll[0].Revents&unix.POLLRDHUP == 0 { // so that the loop reads the end first
			if _, err := unix.Poll(poll, -1); err != nil && err != unix.EINTR {
				t.Error(err)
				break
			}
		}
		var ans wire.Command
		ans.Answer(req, wire.Success)
		c.Post(&ans)
		c.Kept()
		return Done
	}}, nil)
	p := r.dial()
	p.write(request(7, nil))
	p.endsSide()
	p.expect(7, wire.Success)
	p.ended()
}

// TestHalfClosedInPieces: the end of a peer's side cuts off nothing of a queue that it reads slowly.
func TestHalfClosedInPieces(t *testing.T) {
	r := start(t, &script{}, nil)
	p := r.dialNarrow()
	body := pattern(4 << 20)
	p.write(request(7, body))
	p.endsSide()
	if got := p.expect(7, wire.Success).Body; string(got) != string(body) {
		t.Errorf("%d bytes of %d, or others", len(got), len(body))
	}
	p.ended()
}

// TestHalfClosedForGood: a peer that is gone looks the same, until something is sent to it. Neither it nor one that
// never reads is kept for longer than others, and a stop takes them along.
func TestHalfClosedForGood(t *testing.T) {
	var mu sync.Mutex
	conns := map[int32]*Conn{}
	r := start(t, &script{serve: func(c *Conn, req *wire.Command) Verdict {
		c.Promise()
		mu.Lock()
		defer mu.Unlock()
		conns[req.Opaque] = c
		return Done
	}}, nil)
	conn := func(opaque int32) *Conn {
		mu.Lock()
		defer mu.Unlock()
		return conns[opaque]
	}
	halved := func(opaque int32, how func(p *peer)) {
		p := r.dial()
		p.write(request(opaque, nil))
		r.until(func(Stats) bool { return conn(opaque) != nil })
		how(p)
		r.until(func(Stats) bool { return conn(opaque).half.Load() })
	}
	halved(1, func(p *peer) { p.Close() })
	r.until(func(s Stats) bool { // the first one is answered by a reset, and a later one fails
		var ans wire.Command
		ans.Answer(&wire.Command{Opaque: 1}, wire.Success)
		conn(1).Post(&ans)
		return s.Conns == 0
	})
	halved(2, (*peer).endsSide)
	r.pass(r.o.IdleWait + time.Second)
	r.until(func(s Stats) bool { return s.Conns == 0 && s.ClosedIdle == 1 })
	halved(3, (*peer).endsSide)
	if err := r.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if s := r.Stats(); s.Conns != 0 || !conn(3).Closed() {
		t.Errorf("after the stop: %+v", s)
	}
	conn(3).Kept() // late, and harmless
}
