package netio

// Limits counted in milliseconds are looked at with every tick, those counted in seconds with every
// coarse one. A loop where nothing can run out is not woken at all.
const coarseTicks = 20

type tick uint8

const (
	noTick tick = iota
	fineTick
	coarseTick // includes the fine one
)

// tick has the loops look at their limits. It is called by gnet's ticker, one call at a time.
func (s *Server) tick(t tick) {
	for _, l := range s.loops {
		watch := l.interested.Load() || l.open.Load() > 0 && (t == coarseTick || s.crowdedOut())
		if !watch {
			continue
		}
		if in := l.lockInbox(); in != nil {
			in.tick = max(in.tick, t)
			l.unlockInbox()
		}
	}
}

// sweep ends what has run out of time. Requests that were put off are seen to by serveHeld, which
// follows in the same turn.
func (l *Loop) sweep(t tick) {
	l.release() // what the marks have reached is not overdue, however late this look is
	l.payOverdue()
	l.relieve()
	if t < coarseTick {
		return
	}
	o := &l.s.o
	for _, c := range l.conns {
		switch {
		case c.closing.Load():
		case !c.framed && l.now-c.openedAt >= o.FirstFrameWait:
			c.complain(silent, "no whole frame yet")
		case len(c.queue) > c.first && l.now-c.progressAt >= o.StallWait:
			c.complain(stalled, "the peer does not read its answers")
		case l.now-c.activeAt >= o.IdleWait:
			c.shut(idle, "idle")
		}
	}
}

// relieve keeps the memory for answers within its bound: over it, the connection with the longest queue
// among those whose peers do not keep up is closed, one per look. Until that helps, connections that
// have answers waiting are not served (Conn.overOut), so that the sum cannot run away.
func (l *Loop) relieve() {
	if !l.s.crowdedOut() {
		return
	}
	var worst *Conn
	for _, c := range l.conns {
		if c.blocked && !c.closing.Load() && (worst == nil || c.heap > worst.heap) {
			worst = c
		}
	}
	if worst != nil {
		worst.complain(outFull, "holds most of the memory for answers, which is used up, and does not read them")
	}
}

// crowdedOut reports whether the answers of all connections take more memory than they may.
func (s *Server) crowdedOut() bool { return s.outBytes.Load() > s.o.MaxOutBytes }
