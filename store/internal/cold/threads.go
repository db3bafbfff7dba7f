package cold

import (
	"runtime"
	"slices"
	"sync"

	"ringmq/uring"
)

// engine reads pieces and gives each to Reader.finish, from a goroutine of its own.
type engine interface {
	// add queues a piece; Reader.mu is held. kick follows, without it.
	add(p *piece)
	kick()
	// close returns when all that was added is finished.
	close()
}

// newEngine makes the ring, or threads where there is none.
func newEngine(r *Reader) engine {
	if r.o.Ring != nil {
		e, err := newRing(r)
		if err == nil {
			return e
		}
		r.o.Log.Info("no io_uring for old messages: threads read them", "reason", err)
	}
	return newThreads(r)
}

// flyingMax is how many reads are in flight at most: enough for the disk's speed, and little in front of a producer's flush that
// comes in the next moment. The device does not know of priorities.
const flyingMax = 4

// pick takes the next piece out of those that wait: one that somebody waits for, before those that are read ahead.
func pick(waiting []*piece) (p *piece, rest []*piece) {
	i := max(slices.IndexFunc(waiting, func(p *piece) bool { return !p.ahead }), 0)
	p = waiting[i]
	return p, slices.Delete(waiting, i, i+1)
}

// threads is the engine without a ring.
type threads struct {
	r     *Reader
	ended sync.WaitGroup

	mu      sync.Mutex // guards what follows; leaf, taken under Reader.mu
	news    sync.Cond
	todo    []*piece
	closing bool
}

func newThreads(r *Reader) *threads {
	e := &threads{r: r}
	e.news.L = &e.mu
	for range flyingMax {
		e.ended.Go(e.run)
	}
	return e
}

func (e *threads) add(p *piece) {
	e.mu.Lock()
	e.todo = append(e.todo, p)
	e.mu.Unlock()
	e.news.Signal()
}

func (e *threads) kick() {}

func (e *threads) next() *piece {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.todo) == 0 {
		if e.closing {
			return nil
		}
		e.news.Wait()
	}
	var p *piece
	p, e.todo = pick(e.todo)
	return p
}

func (e *threads) run() {
	if e.r.o.Ring != nil { // there are descriptors, and so a disk
		runtime.LockOSThread() // until the goroutine ends: the thread ends with it
		if err := uring.LowerThread(); err != nil {
			e.r.o.Log.Warn("old messages are read at the usual I/O priority", "reason", err)
		}
	}
	for p := e.next(); p != nil; p = e.next() {
		e.r.finish(p, p.read())
	}
}

// read reads a piece in the calling thread.
func (p *piece) read() error {
	for {
		if err := p.open(); err != nil {
			return err
		}
		n, err := p.file.ReadAt(p.bytes(p.lo, p.hi), p.lo-p.base)
		switch {
		case int64(n) == p.hi-p.lo:
			return nil
		case err == nil:
			return short
		case !p.retry(err):
			return err
		}
	}
}

func (e *threads) close() {
	e.mu.Lock()
	e.closing = true
	e.mu.Unlock()
	e.news.Broadcast()
	e.ended.Wait()
}
