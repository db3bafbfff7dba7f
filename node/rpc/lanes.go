package rpc

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"ringmq/netio"
	"ringmq/netio/wire"
)

// The worker lane takes what may wait for the disk, so that no loop does. Administration and
// heartbeats are small and rare, so a full lane means that the disk hangs, and saying so beats
// queueing more. It holds at most workers × (workerQueue + 1) requests, of workerBytes in all: that is
// four requests of the largest size, or some thousand ordinary ones.
//
// One connection has a quarter of its worker's places and a quarter of the bytes, so that a client that
// asks faster than the disk answers is refused alone. Its first request is within its share whatever its size.
const (
	workers     = 4
	workerQueue = 1024
	workerBytes = 64 << 20
	connQueue   = workerQueue / 4 // the one that is served counts
	connBytes   = workerBytes / 4
)

// lanes is the worker lane: each worker has a queue, and a connection always uses the same one.
type lanes struct {
	server *Server
	queues [workers]chan job
	next   atomic.Uint32
	load   // of all connections
	done   sync.WaitGroup
	closed sync.Once
}

// job is one request on the worker lane.
type job struct {
	conn   *netio.Conn
	load   *load         // of its connection
	req    *wire.Command // a copy
	bytes  int64
	since  time.Time
	handle handler
}

// load is what one connection has on the worker lane, or all of them have: waiting or served. Loops add, workers
// take away.
type load struct {
	requests atomic.Int32
	bytes    atomic.Int64
}

// fits tells whether a request of n bytes is within the connection's share. Loop only.
func (o *load) fits(n int64) bool {
	has := o.requests.Load()
	return has == 0 || has < connQueue && o.bytes.Load()+n <= connBytes
}

func newLanes(s *Server) *lanes {
	l := &lanes{server: s}
	for i := range l.queues {
		l.queues[i] = make(chan job, workerQueue)
		l.done.Add(1)
		go l.work(l.queues[i])
	}
	return l
}

// pick chooses the worker of a new connection.
func (l *lanes) pick() int { return int(l.next.Add(1) % workers) }

// put copies the request and queues it, or answers that the workers are busy. Loop only.
func (l *lanes) put(c *netio.Conn, req *wire.Command, handle handler) {
	cl := c.State.(*client)
	j := job{conn: c, load: &cl.load, req: req, bytes: requestBytes(req), since: l.server.opts.Clock.Now(), handle: handle}
	if j.load.fits(j.bytes) && l.enqueue(cl.worker, j) {
		return
	}
	l.server.stats.overloaded.Add(1)
	l.answer(j, "[OVERLOAD]system busy, start flow control for a while")
}

// enqueue gives the worker a copy of the request, or reports that the lane is full.
func (l *lanes) enqueue(worker int, j job) bool {
	l.count(j, 1)
	if l.bytes.Load() <= workerBytes {
		j.req = j.req.Clone()
		j.conn.Promise()
		select {
		case l.queues[worker] <- j:
			return true
		default:
			j.conn.Kept()
		}
	}
	l.count(j, -1)
	return false
}

// count adds j to what its connection and the lane have, or takes it away, by sign.
func (l *lanes) count(j job, sign int64) {
	for _, o := range [...]*load{&l.load, j.load} {
		o.bytes.Add(sign * j.bytes)
		o.requests.Add(int32(sign))
	}
}

// requestBytes is about what a copy of a request takes.
func requestBytes(req *wire.Command) int64 {
	const head, field = 512, 48
	n := head + len(req.Remark) + len(req.Body)
	for _, f := range req.Fields {
		n += field + len(f.Key) + len(f.Value)
	}
	return int64(n)
}

// answer refuses j with SYSTEM_BUSY.
func (l *lanes) answer(j job, remark string) {
	c := Call{Conn: j.conn, Req: j.req, ans: new(wire.Command)}
	l.server.post(j.conn, j.req, c.Fail(wire.SystemBusy, remark))
}

// post sends an answer from any goroutine, unless nobody wants it.
func (s *Server) post(c *netio.Conn, req, ans *wire.Command) {
	if ans != nil && !req.Oneway() {
		c.Post(ans)
	}
}

func (l *lanes) work(queue chan job) {
	defer l.done.Done()
	for j := range queue {
		l.serve(j)
		j.conn.Kept()
		l.count(j, -1)
	}
}

func (l *lanes) serve(j job) {
	if waited := l.server.opts.Clock.Now().Sub(j.since); waited > l.server.opts.WorkerWait {
		l.server.stats.overloaded.Add(1)
		l.answer(j, "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while")
		return
	}
	c := Call{Conn: j.conn, Req: j.req, ans: new(wire.Command)}
	l.server.post(j.conn, j.req, l.server.run(j.handle, &c))
	if took := l.server.stats.work.AddTime(l.server.opts.Clock.Now().Sub(j.since)); took > l.server.opts.SlowWork {
		l.server.opts.Log.Warn("rpc: a request was slow", "request", j.req.Name(), "peer", j.conn.Remote(), "took", took)
	}
}

// stop ends the workers after what they have; nobody may put any more. A worker that hangs is left behind when
// ctx ends.
func (l *lanes) stop(ctx context.Context) error {
	l.closed.Do(func() {
		for _, q := range l.queues {
			close(q)
		}
	})
	ended := make(chan struct{})
	go func() {
		l.done.Wait()
		close(ended)
	}()
	for {
		select {
		case <-ended:
			return nil
		case <-ctx.Done():
		}
		if left := l.requests.Load(); left > 0 {
			return fmt.Errorf("rpc: stop: %d requests that wait for the disk are not served to their end: %w", left, ctx.Err())
		}
		ctx = context.Background() // there is nothing that a worker could hang in
	}
}

// maxRounds is how many things a request may lack, one after the other: topic, group, dead letter topic.
const maxRounds = 3

// prepare lets a worker make what the request lacks, and then serves the request again on its loop.
// missing returns the answer that ends the request, or nil when all is there now.
func (s *Server) prepare(c *Call, serve, missing handler) *wire.Command {
	round := c.round + 1
	if round > maxRounds {
		return c.Failf(wire.SystemError, "%v: what was made for this request is gone again", c.Req.Code)
	}
	s.lanes.put(c.Conn, c.Req, func(s *Server, w *Call) *wire.Command {
		if ans := missing(s, w); ans != nil {
			return ans
		}
		conn, req := w.Conn, w.Req
		conn.Loop().Execute(func() { s.serveAgain(conn, req, serve, round) })
		return nil
	})
	return nil
}

// serveAgain serves a request outside of a turn of its connection: a worker prepared it. Loop only.
func (s *Server) serveAgain(conn *netio.Conn, req *wire.Command, serve handler, round int) {
	t := s.turnOf(conn.Loop())
	c := Call{Conn: conn, Req: req, ans: &t.ans, turn: t, round: round}
	ans := s.run(serve, &c)
	if c.later {
		ans = c.Fail(wire.SystemBusy, "[PC_SYNCHRONIZED]broker busy, the log has no room right now")
	}
	if ans != nil && !req.Oneway() {
		conn.Send(ans)
	}
}
