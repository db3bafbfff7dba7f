package netio

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"

	"ringmq/netio/wire"
	"ringmq/uring"
)

// Conn is one connection. A value is never used for a second one, so that a *Conn is its own
// generation: whoever kept it finds it closed, never somebody else behind it.
type Conn struct {
	State any // the handler's own; loop only

	// Set before Handler.Opened, constant afterwards; any goroutine.
	loop          *Loop
	number        uint64 // unique within the server; not 0
	remote, local netip.AddrPort

	// Any goroutine. Set once: from then on no output is taken, and the loop closes the connection.
	closing  atomic.Bool
	half     atomic.Bool  // the peer has ended its side; stored by the loop
	promised atomic.Int32 // see Promise

	// Loop only, all that follows.
	gc     gnet.Conn // nil when half-closed
	fd     int
	slot   int  // index in loop.conns
	opened bool // also read by the acceptor, after the loop has registered the connection
	gone   bool // Handler.Closed was called, or is being called
	reason reason

	openedAt   time.Duration
	activeAt   time.Duration // a byte moved, in either direction
	progressAt time.Duration // the peer took a byte of the queue, or the queue began to fill
	framed     bool          // a whole frame was seen
	quiet      bool          // see quietHalves

	inbound
	outbound
}

// Loop returns the loop that the connection belongs to. Any goroutine.
func (c *Conn) Loop() *Loop { return c.loop }

// Remote returns the peer's address. Any goroutine, also when closed.
func (c *Conn) Remote() netip.AddrPort { return c.remote }

// Local returns the address that the peer reached us at. Any goroutine, also when closed.
func (c *Conn) Local() netip.AddrPort { return c.local }

// Closed reports whether the connection has ended, or its peer has ended its side and gets what it is owed. Any
// goroutine.
func (c *Conn) Closed() bool { return c.closing.Load() || c.half.Load() }

// Send queues cmd; it goes out at the end of the turn, together with whatever else is queued for this
// connection. cmd is encoded before Send returns. Loop only; nothing happens when closed.
func (c *Conn) Send(cmd *wire.Command) {
	if c.closing.Load() {
		return
	}
	c.closeChunk(cmd.Append(c.openChunk()))
	c.markDirty()
}

// SendRanges queues a frame whose body is the given stretches of files, in their order. It takes the
// ranges over: each is released once it is sent or the connection ends. cmd.Body is not looked at.
// Loop only.
func (c *Conn) SendRanges(cmd *wire.Command, body []uring.FileRange) {
	if c.closing.Load() {
		for _, r := range body {
			r.Release()
		}
		return
	}
	n := 0
	for _, r := range body {
		n += r.Len
	}
	c.closeChunk(cmd.AppendHead(c.openChunk(), n))
	for _, r := range body {
		c.queueRange(r)
	}
	c.markDirty()
}

// SendMem is SendRanges for stretches of memory that have an owner; each must have one.
func (c *Conn) SendMem(cmd *wire.Command, body []uring.MemRange) {
	if c.closing.Load() {
		for _, m := range body {
			m.Release()
		}
		return
	}
	n := 0
	for _, m := range body {
		n += len(m.Bytes)
	}
	c.closeChunk(cmd.AppendHead(c.openChunk(), n))
	for _, m := range body {
		c.queueMem(m)
	}
	c.markDirty()
}

// Gone reports whether the connection has ended, so that nothing can be sent any more. Any goroutine.
func (c *Conn) Gone() bool { return c.closing.Load() }

// Owe keeps answer back until the mark has reached end, the first byte of the log behind what it
// acknowledges. Then it is sent, in the order of the calls on this loop. It goes out with code 10 once
// it was owed for OweWait, and with the code given to Server.FailOwed when that was called, unless
// the mark had reached end by then. answer is encoded before Owe returns, and Owe allocates nothing. Loop
// only; nothing happens when closed.
func (c *Conn) Owe(at Mark, end int64, answer Answer) {
	if c.closing.Load() {
		return
	}
	n := c.loop.owed[at].push(c, end, c.loop.now, answer)
	c.account(0, n)
	c.loop.n.owed.Add(1)
}

// Post sends cmd from any goroutine: it is encoded before Post returns and queued by the loop soon
// after. Nothing happens when closed.
func (c *Conn) Post(cmd *wire.Command) {
	if c.closing.Load() {
		return
	}
	frame := cmd.Append(nil)
	if in := c.loop.lockInbox(); in != nil {
		c.loop.s.outBytes.Add(int64(cap(frame)))
		in.posts = append(in.posts, post{c, frame})
		c.loop.unlockInbox()
	}
}

// Close ends the connection: no further request is served and no further output taken. What is queued
// gets one try to go out at the end of the turn, then Handler.Closed is called. Any goroutine; only the
// first call counts. why is for the log.
func (c *Conn) Close(why string) { c.shut(byOwner, why) }

// shut decides once how the connection ends and leaves the rest to the end of a turn, so that
// nobody finds a connection closed under him in the middle of one.
func (c *Conn) shut(r reason, why string) {
	if !c.closing.CompareAndSwap(false, true) {
		return
	}
	if in := c.loop.lockInbox(); in != nil {
		in.doomed = append(in.doomed, doom{c, r, why})
		c.loop.unlockInbox()
	}
}

// complain logs, at a bounded rate, why a stranger's connection is closed.
func (c *Conn) complain(r reason, why string) {
	if c.closing.Load() {
		return
	}
	c.loop.s.complaints.say(c.loop.now, "netio: connection closed", "peer", c.remote, "local", c.local, "why", why)
	c.shut(r, why)
}
