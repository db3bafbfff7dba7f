package netio

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

// A peer may end its side of a connection behind its last request and still read, as "nc -N" does; for the
// kernel that looks like a peer that is gone. What such a peer is owed is paid before its connection ends:
// answers that wait for a mark or in the queue, requests that wait for room, and what the handler has promised.
// For the handler the connection is closed from the first moment on: whoever was killed must not be waited for.
//
// gnet closes its descriptor when it has read the end. So the loop goes on with a duplicate, which gnet does not
// know: nothing is read from it, and if the peer is gone after all the next write says so.

// Promise says that an answer to this connection will come from another goroutine, by Post or by a function
// given to Loop.Execute. Loop only. Kept follows in any case.
func (c *Conn) Promise() { c.promised.Add(1) }

// Kept says that a promise was kept, or never will be: whatever was posted or executed for it comes first. Any
// goroutine.
func (c *Conn) Kept() {
	if c.promised.Add(-1) == 0 && c.half.Load() {
		c.loop.ring()
	}
}

// owes reports whether the peer has still something to get.
func (c *Conn) owes() bool {
	return c.unsent+c.owed > 0 || c.promised.Load() > 0 || c.held != notHeld && !c.loop.s.draining.Load()
}

// hasNews reports whether the inbox has answers, maybe: a promise that was kept a moment ago counts no more, but what was posted
// for it is still there.
func (l *Loop) hasNews() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.inbox.fns)+len(l.inbox.posts) > 0
}

// halve keeps a connection whose peer has ended its side, if it is owed something. It reports false when the
// connection is to end as a whole.
func (l *Loop) halve(c *Conn, why error) bool {
	if !errors.Is(why, io.EOF) || c.reason != byPeer || c.closing.Load() || l.s.draining.Load() || !c.owes() && !l.hasNews() {
		return false
	}
	fd, err := unix.FcntlInt(uintptr(c.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return false // no descriptor left: the answers go down with it
	}
	l.s.waker.forget(c) // the old descriptor
	c.gc, c.fd, c.blocked = nil, fd, false
	c.half.Store(true)
	l.halves = append(l.halves, c)
	c.markDirty()
	l.ran = true
	l.s.handler.Closed(c)
	l.again = true // promises may have been kept before half was set
	return true
}

// quietHalves notes who has no promise left, before the inbox is emptied: what was posted until then is in it.
func (l *Loop) quietHalves() {
	for _, c := range l.halves {
		c.quiet = c.promised.Load() == 0
	}
}

// endHalves closes the half-closed connections that have got everything.
func (l *Loop) endHalves() {
	for _, c := range l.halves {
		if c.quiet && !c.owes() {
			c.shut(byPeer, "the peer has ended its side and has all its answers")
		}
	}
}

// dropHalf ends a half-closed connection. Its handler knows already.
func (l *Loop) dropHalf(c *Conn) {
	for i, h := range l.halves {
		if h == c {
			last := len(l.halves) - 1
			l.halves[i], l.halves[last] = l.halves[last], nil
			l.halves = l.halves[:last]
			break
		}
	}
	l.farewell(c)
	_ = unix.Close(c.fd)
}

// dropHalves ends those that are left when the loop ends.
func (l *Loop) dropHalves() {
	for len(l.halves) > 0 {
		l.halves[0].reason = byServer
		l.dropHalf(l.halves[0])
	}
}
