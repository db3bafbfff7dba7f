package netio

// waiting returns the bytes that are received and not consumed, leftovers of earlier turns.
func (c *Conn) waiting() []byte { return c.in[c.start:] }

// setIn makes rest, a part of c.in or of gnet's read buffer, all that the connection holds. The buffer
// is the smallest that fits: after a burst thousands of connections may each hold half a frame.
func (l *Loop) setIn(c *Conn, rest []byte) {
	if len(rest) == 0 {
		l.dropIn(c)
		return
	}
	if cap(c.in) > 0 && classBytes(len(rest)) >= cap(c.in) {
		c.in, c.start = c.in[:copy(c.in[:cap(c.in)], rest)], 0
		return
	}
	old := c.in
	c.in, c.start = nil, 0
	l.s.inBytes.Add(-int64(cap(old)))
	if l.room(c, len(rest)) {
		c.in = append(c.in, rest...)
	}
	l.pool.put(old)
}

func (l *Loop) dropIn(c *Conn) {
	l.s.inBytes.Add(-int64(cap(c.in)))
	l.pool.put(c.in)
	c.in, c.start = nil, 0
}

// store adds p to what the connection holds, between two turns of it. It reports false when the
// connection has to go.
//
// Over its bound, requests that were put off are answered "busy" before their time, the oldest first,
// until half of the bound is free (fewer at a time would mean moving megabytes for every read). A
// connection that is held for other reasons does not read its answers, and is closed.
func (l *Loop) store(c *Conn, p []byte) bool {
	most := int(l.s.o.MaxConnInBytes)
	if len(c.waiting())+len(p) > most {
		if c.held != heldBusy || !l.shed(c, most/2) || len(c.waiting())+len(p) > most {
			c.complain(inFull, "more requests waiting than one connection may have")
			return false
		}
	}
	need := len(c.waiting()) + len(p)
	switch {
	case len(c.in)+len(p) <= cap(c.in): // behind what is there
	case need <= cap(c.in):
		c.in, c.start = c.in[:copy(c.in, c.waiting())], 0
	case !l.room(c, need):
		return false
	}
	c.in = append(c.in, p...)
	return true
}

// room makes c.in a buffer for n bytes with the same waiting bytes at its front, within the bound on
// all connections together; false when c is the one that had to go.
func (l *Loop) room(c *Conn, n int) bool {
	size := min(classBytes(n), max(n, int(l.s.o.MaxConnInBytes)))
	for {
		more := int64(size - cap(c.in))
		if l.s.inBytes.Add(more) <= l.s.o.MaxInBytes {
			break
		}
		l.s.inBytes.Add(-more)
		if !l.crowdOut(c) {
			return false
		}
	}
	grown := append(l.pool.get(size), c.waiting()...)
	l.pool.put(c.in)
	c.in, c.start = grown, 0
	return true
}

// crowdOut frees inbound memory at the cost of the connection that holds most of it on this loop:
// its requests that were put off are answered "busy", else it is closed. With connections spread
// evenly over the loops, whoever hoards pays before others do. False when that is c itself, closed.
func (l *Loop) crowdOut(c *Conn) bool {
	largest := c
	for _, d := range l.conns {
		if !d.touched && cap(d.in) > cap(largest.in) {
			largest = d
		}
	}
	if largest != c && largest.held == heldBusy && l.shed(largest, len(largest.in)) {
		l.setIn(largest, largest.waiting())
		return true
	}
	largest.complain(inFull, "holds most of the memory for requests, which is used up")
	if largest != c {
		l.dropIn(largest)
	}
	return largest != c
}

// shed answers "busy" to whole frames at the front of what c holds until n bytes are free, or as many
// as there are; false when there was none. No request that is being served points into them.
func (l *Loop) shed(c *Conn, n int) bool {
	c.view, c.used = c.waiting(), 0
	for c.used < n && !c.closing.Load() {
		frame := l.nextFrame(c)
		if frame == nil {
			break
		}
		if err := l.cmd.Parse(frame); err != nil {
			l.garbled(c, frame, err)
			break
		}
		if !l.cmd.IsAnswer() {
			l.answerBusy(c)
		}
		c.consumed(len(frame))
	}
	freed := c.used
	c.start += freed
	c.view, c.used = nil, 0
	return freed > 0 && !c.closing.Load()
}
