package rpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ringmq/netio/wire"
	"ringmq/store"
)

// The cold lane takes pulls of what is not in memory: its workers wait for the disk, past the page cache, and the answer goes
// out in the loop. Connections take turns, one pull at a time, and none has more than half of the workers, so that none waits
// for all pulls of another, or for a disk on which the other's hang. The bounds are those of the worker lane: of one
// connection (load.fits), and of all.
const (
	coldWorkers = 4 // as many as store.Fetch allows
	coldPerConn = coldWorkers / 2
	coldQueue   = workers * workerQueue
)

type coldLane struct {
	server *Server
	load   // of all connections
	done   sync.WaitGroup

	mu      sync.Mutex // guards what follows; leaf
	news    sync.Cond
	turns   []*coldPulls // those with pulls that may be served, the next one first
	closed  bool
	handed  map[*coldAnswer]bool // on their way to a loop
	stopped bool                 // no loop will take them
}

// coldPulls are those of one connection. The lane's mutex guards all but load.
type coldPulls struct {
	jobs   []*coldJob // that wait
	served int        // by workers now
	queued bool       // in turns
	load   load
}

// coldJob is one pull, with memory of its own.
type coldJob struct {
	p     pulling
	bytes int64
	since time.Time
}

// coldAnswer is what a worker has found for a pull.
type coldAnswer struct {
	got   store.Got
	found body
	err   error
}

func newColdLane(s *Server) *coldLane {
	l := &coldLane{server: s, handed: map[*coldAnswer]bool{}}
	l.news.L = &l.mu
	for range coldWorkers {
		l.done.Go(l.work)
	}
	return l
}

// put has a worker look again, or returns the answer that all are busy. Loop only.
func (l *coldLane) put(p *pulling) *wire.Command {
	from := &p.Conn.State.(*client).cold
	p.Req.Body = nil // a pull has none; what somebody put there is not kept
	j := &coldJob{bytes: requestBytes(p.Req) + int64(len(p.h.Subscription)), since: l.server.opts.Clock.Now()}
	if !from.load.fits(j.bytes) || l.requests.Load() >= coldQueue || l.bytes.Load()+j.bytes > workerBytes {
		l.server.stats.overloaded.Add(1)
		return p.Fail(wire.SystemBusy, "[OVERLOAD]too many pulls wait for the disk, start flow control for a while")
	}
	call := *p.Call
	call.Req, call.ans, call.turn = p.Req.Clone(), new(wire.Command), nil
	j.p = *p
	j.p.Call, j.p.h = &call, new(wire.PullRequest)
	if err := j.p.h.Parse(call.Req); err != nil {
		return p.Fail(wire.SystemError, err.Error()) // it was parsed before
	}
	l.server.stats.cold.Add(1)
	l.count(from, j.bytes, 1)
	p.Conn.Promise()
	l.mu.Lock()
	defer l.mu.Unlock()
	from.jobs = append(from.jobs, j)
	l.queueLocked(from)
	return nil
}

// queueLocked gives a connection a turn if it has a pull that may be served.
func (l *coldLane) queueLocked(from *coldPulls) {
	if from.queued || len(from.jobs) == 0 || from.served == coldPerConn {
		return
	}
	from.queued = true
	l.turns = append(l.turns, from)
	l.news.Signal()
}

// count adds n requests to what the connection and the lane have.
func (l *coldLane) count(from *coldPulls, bytes int64, n int32) {
	for _, o := range [...]*load{&l.load, &from.load} {
		o.bytes.Add(int64(n) * bytes)
		o.requests.Add(n)
	}
}

// next waits for the next pull; nil when there is none and none will come.
func (l *coldLane) next() (*coldJob, *coldPulls) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.turns) == 0 {
		if l.closed && l.requests.Load() == 0 {
			return nil, nil
		}
		l.news.Wait()
	}
	from := l.turns[0]
	j := from.jobs[0]
	from.jobs[0] = nil
	from.jobs = from.jobs[1:]
	l.turns[0] = nil
	l.turns = l.turns[1:]
	from.queued = false
	from.served++
	l.queueLocked(from)
	return j, from
}

// end ends a pull.
func (l *coldLane) end(j *coldJob, from *coldPulls) {
	l.count(from, j.bytes, -1)
	l.mu.Lock()
	defer l.mu.Unlock()
	from.served--
	l.queueLocked(from)
	if l.closed {
		l.news.Broadcast()
	}
}

func (l *coldLane) work() {
	var got store.Got
	for {
		j, from := l.next()
		if j == nil {
			return
		}
		if !j.p.Conn.Gone() {
			l.serve(j, &got)
		}
		j.p.Conn.Kept()
		l.end(j, from)
	}
}

// serve finds what a pull wants, and has its loop answer.
func (l *coldLane) serve(j *coldJob, got *store.Got) {
	s, p := l.server, &j.p
	if waited := s.opts.Clock.Now().Sub(j.since); waited > s.opts.WorkerWait {
		s.stats.overloaded.Add(1)
		s.post(p.Conn, p.Req, p.Fail(wire.SystemBusy, "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while"))
		return
	}
	a := new(coldAnswer)
	ans := s.run(func(s *Server, _ *Call) *wire.Command {
		a.found, a.err = s.readPast(p, got)
		return nil
	}, p.Call)
	if ans != nil { // it panicked
		s.post(p.Conn, p.Req, ans)
		return
	}
	a.got = *got
	a.got.Runs = nil // the worker's own
	l.mu.Lock()
	if l.stopped {
		a.found.release()
	} else {
		l.handed[a] = true
	}
	l.mu.Unlock()
	p.Conn.Loop().Execute(func() { l.answer(p, a) })
}

// readPast is the first half of read, on a worker: it may wait for the disk. What retention removes meanwhile is looked for
// once more, which tells where the queue begins now.
func (s *Server) readPast(p *pulling, got *store.Got) (found body, err error) {
	for range 2 {
		if err = s.get(p, got, store.Past); err != nil || got.Status != store.Found || p.Req.Oneway() {
			return found, err
		}
		if found.lent, found.copied, err = s.opts.Store.Fetch(got); !errors.Is(err, store.ErrOffset) {
			break
		}
	}
	return found, err
}

// answer is the second half, on the pull's loop.
func (l *coldLane) answer(p *pulling, a *coldAnswer) {
	l.mu.Lock()
	mine := l.handed[a]
	delete(l.handed, a)
	l.mu.Unlock()
	if !mine {
		return
	}
	s, t := l.server, l.server.turnOf(p.Conn.Loop())
	p.turn, p.ans = t, &t.ans
	ans := s.run(func(s *Server, _ *Call) *wire.Command { return s.answerPull(p, &a.got, a.found, a.err) }, p.Call)
	if ans != nil && !p.Req.Oneway() {
		p.Conn.Send(ans)
	}
}

// stop ends the workers after what they have, and releases what no loop has taken: the listeners have stopped. A worker that
// hangs is left behind when ctx ends.
func (l *coldLane) stop(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.news.Broadcast()
	ended := make(chan struct{})
	go func() {
		l.done.Wait()
		close(ended)
	}()
	var err error
	select {
	case <-ended:
	case <-ctx.Done():
		if left := l.requests.Load(); left > 0 {
			err = fmt.Errorf("rpc: stop: %d pulls that wait for the disk are not served to their end: %w", left, ctx.Err())
			break
		}
		<-ended // there is nothing that a worker could hang in
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	for a := range l.handed {
		a.found.release()
	}
	clear(l.handed)
	return err
}
