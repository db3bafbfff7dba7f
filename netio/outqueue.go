package netio

import (
	"errors"
	"fmt"
	"io"
	"unsafe"

	"golang.org/x/sys/unix"

	"ringmq/uring"
)

const (
	chunkBytes  = 4 << 10  // answers are gathered in buffers of this size
	chunkRoom   = 512      // a buffer with less room is not added to; most answers need less
	flushBudget = 1 << 20  // what one connection may send in one turn; the next one waits
	copyBytes   = 64 << 10 // of a file without a descriptor, per system call
	queueKeep   = 16       // places that an empty queue keeps
	queuesKept  = 32       // empty queues with more places that a loop keeps for its connections,
	placesKept  = 256      // with this many places at most
)

// item is one piece of output: encoded frames, or bytes of a file. Those of a file that are mapped go out together with
// the frames around them; nobody but the kernel looks at them.
type item struct {
	buf     []byte // nil for a range that is not mapped
	sent    int    // of buf
	rng     uring.FileRange
	mapping *uring.Mapping // what keeps buf, if it is of rng and no item behind it keeps it
	mem     uring.MemRange // what buf is, if it has an owner
}

// rangeBytes is the memory that a queued range costs.
const rangeBytes = int(unsafe.Sizeof(item{}))

// outbound is what a connection has still to send. gnet's own buffer is never used: it has no bound,
// takes no file ranges, and does not tell when it drains.
type outbound struct {
	queue   []item
	first   int  // queue[:first] is sent
	unsent  int  // bytes queued, file ranges included
	owed    int  // bytes of answers that wait for a mark
	heap    int  // memory of the queued buffers
	dirty   bool // in loop.dirty
	blocked bool // the waker will tell when to go on
	watched bool // known to the waker
}

// account changes the two sums. It is the only place that does, so that the loop always knows how
// many of its connections still have something to get.
func (c *Conn) account(unsent, owed int) {
	had := c.unsent+c.owed > 0
	c.unsent += unsent
	c.loop.unsent += unsent
	c.owed += owed
	switch has := c.unsent+c.owed > 0; {
	case has && !had:
		c.loop.unpaid++
	case had && !has:
		c.loop.unpaid--
	}
	if c.held == heldUnread && !c.overOut() {
		c.loop.again = true
	}
}

// openChunk returns the buffer that the next frame is appended to; closeChunk takes it back.
func (c *Conn) openChunk() []byte {
	if n := len(c.queue); n > c.first {
		it := &c.queue[n-1]
		if lent := it.rng.File != nil || it.mem.Owner != nil; !lent && cap(it.buf) == chunkBytes && chunkBytes-len(it.buf) >= chunkRoom {
			return it.buf
		}
	}
	b := c.loop.pool.get(chunkBytes)
	c.pushItem(item{buf: b})
	c.growHeap(cap(b))
	return b
}

// closeChunk takes the buffer of openChunk back with a frame behind what it held. A frame that did not
// fit has moved all of it to a larger buffer, which no further frame is added to.
func (c *Conn) closeChunk(b []byte) {
	last := &c.queue[len(c.queue)-1]
	c.account(len(b)-len(last.buf), 0)
	if cap(b) != cap(last.buf) {
		c.growHeap(cap(b) - cap(last.buf))
		c.loop.pool.put(last.buf)
	}
	last.buf = b
}

// queueBytes adds a copy of an encoded frame.
func (c *Conn) queueBytes(frame []byte) {
	c.closeChunk(append(c.openChunk(), frame...))
	c.markDirty()
}

// queueOwn adds an encoded frame in a buffer that the queue takes over.
func (c *Conn) queueOwn(frame []byte) {
	c.pushItem(item{buf: frame})
	c.growHeap(cap(frame))
	c.account(len(frame), 0)
	c.markDirty()
}

func (c *Conn) queueRange(r uring.FileRange) {
	var last *item
	if n := len(c.queue); n > c.first {
		last = &c.queue[n-1]
	}
	switch {
	case r.Len > 0:
	case last != nil && last.rng.Shares: // with nothing to send, it leaves its use of the file to the one before it
		last.rng.Shares = r.Shares
		return
	default:
		r.Release()
		return
	}
	it := item{rng: r}
	if r.Len < c.loop.s.o.SendfileBytes {
		it.mapRange(last)
	}
	c.pushItem(it)
	c.growHeap(rangeBytes)
	c.account(r.Len, 0)
}

// mapRange makes the range a piece of memory. If it can it takes over the mapping of the item in front of it, which is done
// with it earlier.
func (it *item) mapRange(last *item) {
	if last != nil {
		if b, ok := last.mapping.Beside(last.rng.File, it.rng); ok {
			it.buf, it.mapping, last.mapping = b, last.mapping, nil
			return
		}
	}
	// An error says that there is no descriptor, or no room for one more mapping: the range goes out in another way.
	it.buf, it.mapping, _ = it.rng.Map()
}

// queueMem adds memory that belongs to somebody else, who bounds it.
func (c *Conn) queueMem(m uring.MemRange) {
	if len(m.Bytes) == 0 {
		m.Release()
		return
	}
	c.pushItem(item{buf: m.Bytes, mem: m})
	c.growHeap(rangeBytes)
	c.account(len(m.Bytes), 0)
}

func (c *Conn) pushItem(it item) {
	if len(c.queue) == c.first {
		c.progressAt = c.loop.now // the time without progress starts with the queue
	}
	if c.queue == nil {
		c.queue = c.loop.takeQueue()
	}
	c.queue = append(c.queue, it)
}

func (c *Conn) growHeap(n int) {
	c.heap += n
	c.loop.s.outBytes.Add(int64(n))
}

// markDirty has the loop flush the connection at the end of the turn.
func (c *Conn) markDirty() {
	if !c.dirty {
		c.dirty = true
		c.loop.dirty = append(c.loop.dirty, c)
	}
}

// overOut reports whether the connection has so much output waiting that its next request stays
// undecoded. While all connections together are over their bound, those that wait for nothing are
// still served, one request at a time.
func (c *Conn) overOut() bool {
	waiting := int64(c.unsent + c.owed)
	return waiting >= c.loop.s.o.MaxConnOutBytes || waiting > 0 && c.loop.s.crowdedOut()
}

// flush sends until the queue is empty, the socket full, or the turn's budget used up. In the latter
// cases the waker calls again. It never waits.
func (l *Loop) flush(c *Conn) {
	if c.gone || c.blocked {
		return
	}
	for budget := flushBudget; len(c.queue) > c.first; {
		if budget <= 0 {
			l.waitWritable(c)
			return
		}
		n, err := l.sendSome(c, budget)
		if n > 0 {
			budget -= n
			c.activeAt, c.progressAt = l.now, l.now
			l.n.bytesOut.Add(int64(n))
			c.account(-n, 0)
		}
		switch {
		case err == unix.EAGAIN:
			l.waitWritable(c)
			return
		case err == unix.EFAULT || errors.Is(err, errUnreadable):
			c.complain(unreadable, fmt.Sprintf("stored bytes that it was to get cannot be read: %v", err))
			return
		case err != nil:
			c.shut(byPeer, err.Error())
			return
		}
	}
	if c.queue, c.first = c.queue[:0], 0; cap(c.queue) > queueKeep {
		l.keepQueue(c.queue)
		c.queue = nil
	}
}

// takeQueue returns an empty queue that another connection has left, or nil.
func (l *Loop) takeQueue() []item {
	last := len(l.queues) - 1
	if last < 0 {
		return nil
	}
	q := l.queues[last]
	l.queues = l.queues[:last]
	return q
}

// keepQueue takes over an empty queue, for the next connection that has much to send.
func (l *Loop) keepQueue(q []item) {
	if len(l.queues) < queuesKept && cap(q) <= placesKept {
		l.queues = append(l.queues, q)
	}
}

func (l *Loop) waitWritable(c *Conn) {
	c.blocked = true
	if err := l.s.waker.arm(c); err != nil {
		c.shut(byServer, err.Error())
	}
}

// sendSome makes one system call for the front of the queue and takes what was sent off it.
func (l *Loop) sendSome(c *Conn, budget int) (int, error) {
	if it := &c.queue[c.first]; it.buf == nil {
		return l.sendRange(c, it, budget)
	}
	next := c.first
	for ; next < len(c.queue) && l.vec.Bytes() < budget; next++ {
		it := &c.queue[next]
		if it.buf == nil || !l.vec.Add(it.buf[it.sent:]) {
			break
		}
	}
	want := l.vec.Bytes()
	n, err := l.vec.Send(c.fd, next < len(c.queue))
	if err != nil {
		return 0, err
	}
	l.taken(c, n)
	if n < want {
		err = unix.EAGAIN
	}
	return n, err
}

// taken removes n sent bytes from the buffers at the queue's front.
func (l *Loop) taken(c *Conn, n int) {
	for n > 0 {
		it := &c.queue[c.first]
		k := min(n, len(it.buf)-it.sent)
		if it.rng.File != nil {
			l.n.mappedOut.Add(int64(k))
		}
		it.sent += k
		if n -= k; it.sent < len(it.buf) {
			return
		}
		l.popItem(c)
	}
}

// popItem gives the front item's memory or file back.
func (l *Loop) popItem(c *Conn) {
	it := &c.queue[c.first]
	if it.rng.File != nil || it.mem.Owner != nil {
		c.growHeap(-rangeBytes)
	} else {
		c.growHeap(-cap(it.buf))
		l.pool.put(it.buf)
	}
	it.mapping.Release()
	it.mem.Release()
	it.rng.Release()
	*it = item{}
	c.first++
}

func (l *Loop) sendRange(c *Conn, it *item, budget int) (int, error) {
	n, err := it.rng.SendTo(c.fd, budget)
	if err == uring.ErrNoDescriptor {
		n, err = l.copyRange(c, it)
		l.n.copiedOut.Add(int64(n))
	} else {
		l.n.filesOut.Add(int64(n))
	}
	if err == unix.EIO || errors.Is(err, io.ErrUnexpectedEOF) { // sendfile has no errno for a socket that means the same
		err = fmt.Errorf("%w: %w", errUnreadable, err)
	}
	if err != nil && err != unix.EAGAIN {
		return n, fmt.Errorf("send of a file range: %w", err)
	}
	if it.rng.Len == 0 {
		l.popItem(c)
	}
	return n, err
}

// errUnreadable says that the fault is the file's and not the socket's.
var errUnreadable = errors.New("netio: unreadable file")

// copyRange sends a piece of a file that has no descriptor through a buffer of the loop.
func (l *Loop) copyRange(c *Conn, it *item) (int, error) {
	buf := l.pool.get(copyBytes)
	defer l.pool.put(buf)
	k, err := it.rng.ReadAt(buf[:min(copyBytes, it.rng.Len)], 0)
	if err != nil && err != io.EOF {
		return 0, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	l.vec.Add(buf[:k])
	n, err := l.vec.Send(c.fd, k < it.rng.Len)
	if err != nil {
		return 0, err
	}
	it.rng.Off += int64(n)
	it.rng.Len -= n
	if n < k {
		err = unix.EAGAIN
	}
	return n, err
}

// dropOutput gives back all that a closed connection had still to send.
func (l *Loop) dropOutput(c *Conn) {
	for c.first < len(c.queue) {
		l.popItem(c)
	}
	c.queue, c.first = nil, 0
	c.account(-c.unsent, -c.owed)
}
