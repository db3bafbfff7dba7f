package netio

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"

	"ringmq/netio/wire"
	"ringmq/uring"
)

// listKeep is how many places the loop's lists of connections keep when empty.
const listKeep = 1024

// Loop is one event loop: a goroutine of gnet that serves its connections in turns. A turn is one read
// of one connection, or a ring of the bell. It ends with EndTurn, and then everything it made ready is
// sent with as few system calls as possible.
//
// Why a bell and not gnet's own task queue: gnet runs tasks until none is left before it looks at its
// sockets again, so connections that go on sending keep each other's tasks coming and starve the
// readers. And its queue writes to a descriptor that may belong to somebody else after Stop. A socket
// pair is served in its turn with the other sockets, and a Go connection knows that it is closed.
type Loop struct {
	State any // the handler's own; loop only

	// Set by Listen, constant afterwards; any goroutine.
	s     *Server
	index int
	el    gnet.EventLoop
	bell  net.Conn // this end is written to; the other is a connection of the loop

	// Loop only.
	now       time.Duration // of this turn, on the server's clock
	inTurn    bool
	ran       bool // handler code ran that EndTurn has not followed yet
	again     bool // ring the bell for another turn
	conns     []*Conn
	halves    []*Conn      // those whose peers have ended their side
	cmd       wire.Command // the request being served
	busy      wire.Command
	touched   []*Conn // with a view in this turn
	held      []*Conn // with a request that waits, the longest waiting first
	spareHeld []*Conn
	dirty     []*Conn // with fresh output
	unpaid    int     // connections with output queued or owed
	unsent    int     // bytes queued on all of them, file ranges included
	owed      [marks]fifo
	owedHeld  int // memory of owed, as last told to the server
	recoded   []byte
	pool      bufPool
	queues    [][]item // empty ones, see takeQueue
	vec       uring.Vec
	seen      [marks]int64 // the marks when the turn began
	spare     inbox
	idleOnce  sync.Once
	idle      chan struct{} // closed when draining and nothing is left to send

	n counters

	// Any goroutine.
	ringing    atomic.Bool  // a ring is on its way
	interested atomic.Bool  // something here waits for a mark
	open       atomic.Int64 // len(conns)

	mu    sync.Mutex // guards inbox; leaf
	inbox inbox
}

// inbox is what other goroutines want of a loop.
type inbox struct {
	fns      []func()
	posts    []post
	writable []*Conn
	doomed   []doom
	tick     tick
}

type post struct {
	conn  *Conn
	frame []byte
}

type doom struct {
	conn   *Conn
	reason reason
	why    string
}

// Index returns the loop's place among those of its server, from 0. Any goroutine.
func (l *Loop) Index() int { return l.index }

// Execute runs fn on the loop, soon; the handler's EndTurn follows. Any goroutine. fn is dropped once
// the server has stopped.
func (l *Loop) Execute(fn func()) {
	if in := l.lockInbox(); in != nil {
		in.fns = append(in.fns, fn)
		l.unlockInbox()
	}
}

// writable is called by the waker.
func (l *Loop) writable(c *Conn) {
	if in := l.lockInbox(); in != nil {
		in.writable = append(in.writable, c)
		l.unlockInbox()
	}
}

// lockInbox returns the inbox to be added to, nil when nobody will look at it any more.
func (l *Loop) lockInbox() *inbox {
	if l.s.stopped.Load() {
		return nil
	}
	l.mu.Lock()
	return &l.inbox
}

func (l *Loop) unlockInbox() {
	l.mu.Unlock()
	l.ring()
}

var oneByte = []byte{1}

// ring has the loop take a turn. Rings before that turn begins are one. The write cannot block: at
// most two bytes are ever on their way. After Stop it fails, and nobody is there to care.
func (l *Loop) ring() {
	if l.ringing.CompareAndSwap(false, true) {
		_, _ = l.bell.Write(oneByte)
	}
}

// rung is the turn that a ring asked for.
func (l *Loop) rung() {
	l.ringing.Store(false) // before the inbox is emptied: what comes later rings again
	l.begin()
	l.quietHalves()
	l.mu.Lock()
	in := l.inbox
	doomed := in.doomed // these stay for bury
	l.inbox = inbox{fns: l.spare.fns, posts: l.spare.posts, writable: l.spare.writable, doomed: doomed}
	l.mu.Unlock()
	for _, c := range in.writable {
		c.blocked = false
		c.markDirty()
	}
	for _, p := range in.posts {
		l.deliver(p)
	}
	for _, fn := range in.fns {
		l.ran = true
		fn()
	}
	if in.tick != noTick {
		l.sweep(in.tick)
	}
	if len(l.held) > 0 && !l.s.draining.Load() {
		l.serveHeld()
	}
	l.spare = inbox{fns: emptied(in.fns), posts: emptied(in.posts), writable: emptied(in.writable)}
	l.end()
	l.endHalves()
}

// emptied is list without elements, for reuse.
func emptied[E any](list []E) []E {
	if cap(list) > listKeep {
		return nil
	}
	clear(list)
	return list[:0]
}

func (l *Loop) deliver(p post) {
	l.s.outBytes.Add(-int64(cap(p.frame)))
	if !p.conn.closing.Load() {
		p.conn.queueOwn(p.frame)
	}
}

// begin starts a turn.
func (l *Loop) begin() {
	l.inTurn = true
	l.now = l.s.since()
	l.seen = [marks]int64{AtWritten: l.s.written.Load(), AtVisible: l.s.visible.Load()}
}

// end finishes a turn. Closing connections calls the handler, which may make new output ready, so it
// goes round until nothing is left; every round closes a connection, so it ends.
func (l *Loop) end() {
	for more := true; more; {
		if l.ran {
			l.ran = false
			l.s.handler.EndTurn(l)
		}
		l.settle()
		if l.waits() {
			l.interested.Store(true) // before the marks are read; see release
		}
		l.release()
		l.flushDirty()
		more = l.bury()
	}
	l.cmd.Recycle()
	l.weighOwed()
	l.listen()
	l.inTurn = false
	if took := l.n.turns.AddTime(l.s.since() - l.now); took > l.s.o.SlowTurn {
		l.s.slowTurns.say(l.now+took, "netio: a turn of a loop was slow, and all its connections waited", "loop", l.index, "took", took)
	}
}

// waits reports whether something here waits for a mark to move.
func (l *Loop) waits() bool {
	return l.owed[AtWritten].len()+l.owed[AtVisible].len()+len(l.held) > 0
}

// listen leaves word with the other goroutines of what this loop waits for.
func (l *Loop) listen() {
	l.n.held.Store(int64(len(l.held)))
	l.n.queued.Store(int64(l.unsent))
	l.interested.Store(l.waits())
	if len(l.held) > 0 && (l.s.written.Load() != l.seen[AtWritten] || l.s.visible.Load() != l.seen[AtVisible]) {
		l.again = true // a mark moved after the handler said Later, maybe before interested was raised
	}
	if l.s.draining.Load() && l.unpaid == 0 {
		l.idleOnce.Do(func() { close(l.idle) })
	}
	if l.again {
		l.again = false
		l.ring()
	}
}

func (l *Loop) flushDirty() {
	for i := 0; i < len(l.dirty); i++ {
		c := l.dirty[i]
		c.dirty = false
		l.flush(c)
		if int64(c.heap) > l.s.o.MaxConnOutBytes+wire.MaxFrameBytes {
			c.complain(outFull, "more answers than it may have waiting")
		}
	}
	l.dirty = emptied(l.dirty)
}

// bury closes the connections that were shut, and reports whether there was any.
func (l *Loop) bury() bool {
	l.mu.Lock()
	doomed := l.inbox.doomed
	l.inbox.doomed = nil
	l.mu.Unlock()
	for _, d := range doomed {
		if d.conn.gone {
			continue
		}
		d.conn.reason = d.reason
		l.s.o.Log.Debug("netio: connection closed", "peer", d.conn.remote, "why", d.why)
		if d.conn.half.Load() {
			l.dropHalf(d.conn)
			continue
		}
		_ = l.el.Close(d.conn.gc) // calls gone; its errors are about a descriptor that is closed now
	}
	return len(doomed) > 0
}

// welcome takes a connection over.
func (l *Loop) welcome(c *Conn, gc gnet.Conn) {
	l.begin()
	c.loop, c.gc, c.fd, c.opened = l, gc, gc.Fd(), true
	c.openedAt, c.activeAt = l.now, l.now
	c.slot = len(l.conns)
	l.conns = append(l.conns, c)
	l.open.Add(1)
	l.n.accepted.Add(1)
	l.ran = true
	l.s.handler.Opened(c)
	l.end()
}

// closed is called by gnet on every way out, with the descriptor still open: from bury in the middle
// of a turn, or by itself when the peer left or the engine stops.
func (l *Loop) closed(c *Conn, why error) {
	if l.s.draining.Load() && c.reason == byPeer {
		c.reason = byServer
	}
	if l.inTurn {
		l.farewell(c)
		return
	}
	l.begin()
	if !l.halve(c, why) {
		l.farewell(c)
	}
	l.end()
}

// farewell ends a connection, with its descriptor still open. What its handler does belongs to the turn.
func (l *Loop) farewell(c *Conn) {
	nested := l.inTurn
	if !nested {
		l.begin()
	}
	c.closing.Store(true)
	c.gone = true
	l.s.waker.forget(c)
	l.dropIn(c)
	l.dropOutput(c)
	last := len(l.conns) - 1
	l.conns[c.slot] = l.conns[last]
	l.conns[c.slot].slot = c.slot
	l.conns[last] = nil
	l.conns = l.conns[:last]
	l.open.Add(-1)
	l.n.closed[c.reason].Add(1)
	l.s.conns.Add(-1)
	if !c.half.Load() {
		l.ran = true
		l.s.handler.Closed(c)
	}
	if !nested {
		l.end()
	}
}
