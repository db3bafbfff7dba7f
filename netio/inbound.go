package netio

import (
	"encoding/binary"
	"time"

	"ringmq/netio/wire"
)

// serveBudget is how many bytes of one connection's frames are served in one turn, so that a
// backlog of one does not keep the others of its loop waiting.
const serveBudget = 256 << 10

// hold is why the next request of a connection stays undecoded.
type hold uint8

const (
	notHeld     hold = iota
	heldBusy         // the handler said Later
	heldUnread       // too much output waits; see Conn.overOut
	heldForTurn      // serveBudget is used up
)

// inbound is what was received from a connection and not yet consumed. gnet's own buffer is always
// left empty: it cannot be bounded, and returns its bytes in one piece only by copying them.
type inbound struct {
	in      []byte // a buffer of the loop's pool; nil when nothing is left over
	start   int    // in[:start] is consumed and not yet closed up
	view    []byte // during a turn: what is served, which is in[start:] or the read buffer of gnet
	used    int    // view[:used] is consumed; it is discarded after EndTurn, because requests point into it
	touched bool   // in loop.touched

	held   hold
	listed bool // in loop.held

	// A request that gets Later waits together with all that had arrived by then: the cohort's first
	// request is tried until BusyWait is over, the others once more afterwards.
	cohort    int // bytes of it left
	heldSince time.Duration
}

// received takes p, the bytes of one read, and serves what is complete. p dies with the turn.
func (l *Loop) received(c *Conn, p []byte) {
	c.activeAt = l.now
	l.n.bytesIn.Add(int64(len(p)))
	if c.closing.Load() || l.s.draining.Load() {
		return
	}
	if len(c.in) == 0 {
		l.touch(c, p)
		l.serve(c)
		return
	}
	if !l.store(c, p) {
		return
	}
	if c.held == notHeld {
		l.touch(c, c.waiting())
		l.serve(c)
	}
}

// touch begins the turn of a connection: what is consumed of view is discarded at its end.
func (l *Loop) touch(c *Conn, view []byte) {
	c.view, c.used = view, 0
	if !c.touched {
		c.touched = true
		l.touched = append(l.touched, c)
	}
}

// serve gives whole frames to the handler until none is left or something keeps the next one back.
func (l *Loop) serve(c *Conn) {
	c.held = notHeld
	for budget := serveBudget; !c.closing.Load(); {
		frame := l.nextFrame(c)
		if frame == nil {
			c.cohort = 0
			return
		}
		c.framed = true
		if budget <= 0 {
			l.keep(c, heldForTurn)
			return
		}
		if c.overOut() {
			l.keep(c, heldUnread)
			return
		}
		if !l.serveFrame(c, frame) {
			return
		}
		c.consumed(len(frame))
		budget -= len(frame)
	}
}

func (c *Conn) consumed(n int) {
	c.used += n
	c.cohort = max(0, c.cohort-n)
}

// nextFrame returns the frame at the front, nil while it is incomplete. It looks at lengths as soon as
// they are there: a liar is closed before he has sent what he announced.
func (l *Loop) nextFrame(c *Conn) []byte {
	b := c.view[c.used:]
	if len(b) < 4 {
		return nil
	}
	n, err := wire.FrameBytes(b)
	if err == nil && len(b) >= 8 && int(binary.BigEndian.Uint32(b[4:])&0xFFFFFF) > n-8 {
		err = wire.ErrHeader
	}
	if err != nil {
		l.garbled(c, b, err)
		return nil
	}
	if len(b) < n {
		return nil
	}
	return b[:n:n]
}

func (l *Loop) garbled(c *Conn, b []byte, err error) {
	why := err.Error()
	if !c.framed {
		why += "; looks like " + looksLike(b)
	}
	c.complain(garbled, why)
}

// serveFrame gives one frame to the handler. It reports false when the frame was not consumed.
func (l *Loop) serveFrame(c *Conn, frame []byte) bool {
	if err := l.cmd.Parse(frame); err != nil {
		l.garbled(c, frame, err)
		return false
	}
	if l.cmd.IsAnswer() {
		l.n.strayAnswers.Add(1)
		return true
	}
	l.ran = true
	switch l.s.handler.Serve(c, &l.cmd) {
	case Later:
		return l.putOff(c)
	case Drop:
		c.shut(byOwner, "dropped by the handler")
		return false
	}
	l.n.requests.Add(1)
	return true
}

// putOff keeps the request in l.cmd back, or answers it when its cohort has waited long enough.
func (l *Loop) putOff(c *Conn) (consumed bool) {
	if c.cohort == 0 {
		c.cohort, c.heldSince = len(c.view)-c.used, l.now
	}
	if l.overdue(c) {
		l.answerBusy(c)
		return true
	}
	l.keep(c, heldBusy)
	return false
}

func (l *Loop) overdue(c *Conn) bool { return l.now-c.heldSince >= l.s.o.BusyWait }

// answerBusy answers the request in l.cmd as the stock broker answers one that waited too long in a
// queue: stock producers try another queue then.
func (l *Loop) answerBusy(c *Conn) {
	l.n.busyAnswers.Add(1)
	if l.cmd.Oneway() {
		return
	}
	l.busy.Answer(&l.cmd, wire.SystemBusy)
	l.busy.SetRemark("[TIMEOUT_CLEAN_QUEUE]broker busy")
	c.Send(&l.busy)
}

func (l *Loop) keep(c *Conn, why hold) {
	c.held = why
	l.again = l.again || why == heldForTurn
	if !c.listed {
		c.listed = true
		l.held = append(l.held, c)
	}
}

// serveHeld tries the connections that hold something back, the longest waiting first. Once the
// handler has put one off, the others it had put off are left alone, except to be told "busy".
func (l *Loop) serveHeld() {
	list := l.held
	l.held = l.spareHeld[:0]
	full := false
	for i, c := range list {
		list[i], c.listed = nil, false
		switch {
		case c.closing.Load():
			continue
		case c.held == heldBusy && full && !l.overdue(c):
			l.keep(c, heldBusy)
			continue
		}
		l.touch(c, c.waiting())
		l.serve(c)
		full = full || c.held == heldBusy
	}
	l.spareHeld = list[:0]
}

// settle discards what the turn has consumed. Requests no longer point into it.
func (l *Loop) settle() {
	for i, c := range l.touched {
		l.touched[i], c.touched = nil, false
		rest, used := c.view[c.used:], c.used
		c.view, c.used = nil, 0
		switch {
		case c.closing.Load():
			l.dropIn(c)
		case len(c.in) == 0: // rest lies in the read buffer of gnet
			l.setIn(c, rest)
		default:
			c.start += used
			if c.start*2 >= len(c.in) {
				l.setIn(c, c.waiting())
			}
		}
	}
	l.touched = l.touched[:0]
}
