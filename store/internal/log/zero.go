package log

import (
	"sync"

	"ringmq/store/internal/filename"
	"ringmq/store/vfs"
)

// ZeroStepBytes is the default of Config.ZeroStepBytes. A write waits for such a piece at most, for its copy
// into the page cache.
const ZeroStepBytes = 256 << 10

// Sizes of the zeros that are written ahead, as multiples of Config.ZeroStepBytes.
const (
	zeroUnitSteps  = 4  // made durable at a time: flushes of the log carry no more of them
	zeroAheadSteps = 32 // how far in front of the log zeros go: what an idle log has written for nothing
)

// zeroAhead writes zeros into the current segment, ahead of the writer, and makes them durable, so that the
// writer finds blocks that were written before and flushes them once. It has a goroutine of its own. The
// writer never waits for its flushes: where it is faster it writes into new blocks itself (see flight), and
// the zeroer goes on in front of it.
//
//	              written         safe     next            goal
//	+---- ... ----+---------------+--------+---- ... ------+------ ... ------+
//	| records     | one flush     | zeros, being flushed   | never written   |
//	+---- ... ----+---------------+--------+---- ... ------+------ ... ------+
//
// All are positions in the segment; what is safe is segment.safe. One sync makes zeros safe, although blocks
// that are written for the first time are flushed twice (see flight): the flush that acknowledges a record
// there begins after that sync has ended, so that it is the second.
type zeroAhead struct {
	l    *Log
	news chan struct{} // room for one: the goal has moved
	stop chan struct{}
	done chan struct{}

	// mu guards what follows. Leaf lock, memory work only.
	mu   sync.Mutex
	calm *sync.Cond // busy has become 0, something safe, or a segment bad
	g    *segment   // nil: nothing to do
	next int64      // below it blocks were written, or are just being, as zeros or by the writer
	goal int64      // zeros are wanted up to here
	busy int64      // where the zeros end that are just being written; 0: none are
	bad  *segment   // zeros could not be written there
}

func newZeroAhead(l *Log) *zeroAhead {
	z := &zeroAhead{l: l, news: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	z.calm = sync.NewCond(&z.mu)
	return z
}

// want asks for zeros in g up to goal, from from on: below, all blocks were written. Writer goroutine only.
func (z *zeroAhead) want(g *segment, from, goal int64) {
	z.mu.Lock()
	if z.g != g {
		z.g, z.next = g, from
	}
	z.goal = goal
	z.mu.Unlock()
	select {
	case z.news <- struct{}{}:
	default:
	}
}

// pass lets the writer write below to in g, where blocks were never written: no zeros come there any more
// when it returns. It waits for those that are just being copied into the page cache. Writer goroutine only.
func (z *zeroAhead) pass(g *segment, to int64) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.g != g {
		return
	}
	z.next = max(z.next, to)
	for z.busy > 0 && z.busy-z.l.cfg.ZeroStepBytes < to {
		z.calm.Wait()
	}
}

func (z *zeroAhead) run() {
	defer close(z.done)
	for {
		select {
		case <-z.stop:
			return
		case <-z.news:
		}
		for z.unit() {
		}
	}
}

// unit writes some zeros and makes them safe. It reports whether there may be more to do. An error ends the
// zeros of this segment and nothing else: the writer goes on without them, and if the disk has lost them the
// writer's own flush says so.
func (z *zeroAhead) unit() (more bool) {
	select {
	case <-z.stop:
		return false
	default:
	}
	z.mu.Lock()
	g := z.g
	z.mu.Unlock()
	if g == nil || !g.shared.Acquire() {
		return false
	}
	defer g.shared.Release()
	end, err := z.write(g)
	if end == 0 && err == nil {
		return false
	}
	if err == nil {
		err = g.file.Sync()
	}
	if err != nil {
		z.l.cfg.Log.Warn("store: cannot write zeros ahead; the log goes on without them in this file", "segment", filename.Of(g.base), "err", err)
		z.giveUp(g)
		return false
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	g.safe.Store(end)
	z.calm.Broadcast()
	return true
}

// write writes up to a unit of zeros into g, and returns where they end; 0 if none are wanted.
func (z *zeroAhead) write(g *segment) (end int64, err error) {
	for range zeroUnitSteps {
		from, to := z.claim(g)
		if from == to {
			break
		}
		err = writeZeros(g.file, from, to-from)
		z.mu.Lock()
		z.busy = 0
		z.calm.Broadcast()
		z.mu.Unlock()
		if err != nil {
			break
		}
		end = to
	}
	return end, err
}

// claim takes the next place for zeros: from here on the writer waits before it writes there.
func (z *zeroAhead) claim(g *segment) (from, to int64) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.g != g || z.bad == g || z.next >= z.goal {
		return 0, 0
	}
	from = z.next
	to = min(from+z.l.cfg.ZeroStepBytes, z.goal)
	z.next, z.busy = to, to
	return from, to
}

func (z *zeroAhead) giveUp(g *segment) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.bad = g
	z.calm.Broadcast()
}

// writeZeros writes n bytes of zeros.
func writeZeros(f vfs.File, off, n int64) error {
	for n > 0 {
		wrote, err := f.WriteAt(zeros[:min(n, int64(len(zeros)))], off)
		if err != nil {
			return err
		}
		off, n = off+int64(wrote), n-int64(wrote)
	}
	return nil
}

// close ends the goroutine. Nobody calls want any more.
func (z *zeroAhead) close() {
	close(z.stop)
	<-z.done
}
