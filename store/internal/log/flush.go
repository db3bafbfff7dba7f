package log

import (
	"sync/atomic"
	"time"

	"ringmq/store/vfs"
)

// flight is a flush that was begun. Flights are kept in the order of what they cover; they may
// complete in any order.
//
// A flight that covers fresh blocks, reserved and never written before, is flushed twice. On ext4 (Linux
// 6.18) their data may reach the disk and the note that it is data fail, because the journal has just
// been aborted: fdatasync says OK, and after the next start zeros are read there. The journal was aborted
// before that OK, so a flush that begins after it is refused.
type flight struct {
	id    uint64
	slot  int   // index into every segment's slots, in use by this flight alone
	end   int64 // everything below is covered by this flight and those before it
	n     int64 // bytes that it covers
	g     *segment
	again bool // a second flush is due after this one
	began time.Time
	done  bool
}

// flushes is the writer's view of its flush slots. Writer goroutine only.
type flushes struct {
	engine vfs.Engine
	busy   []bool // by slot
	flying []flight
	bytes  int64 // sum of n
	nextID uint64
	reaped []vfs.Flushed

	completed *atomic.Int64 // counts what came back good
	times     *times
	slow      func(n int64, took time.Duration) // is told how long each flush took
}

func newFlushes(engine vfs.Engine, depth int, completed *atomic.Int64, times *times, slow func(int64, time.Duration)) flushes {
	return flushes{engine: engine, busy: make([]bool, depth), flying: make([]flight, 0, depth), completed: completed, times: times, slow: slow}
}

// free reports whether another flush may begin.
func (f *flushes) free() bool { return len(f.flying) < len(f.busy) }

// begin starts a flush of g that makes everything below end durable, once the ones before it are.
func (f *flushes) begin(g *segment, end, n int64) {
	slot := 0
	for f.busy[slot] {
		slot++
	}
	f.busy[slot] = true
	f.nextID++
	f.flying = append(f.flying, flight{id: f.nextID, slot: slot, end: end, n: n, g: g, again: g.fresh, began: time.Now()})
	f.times.batch.Add(n, 1)
	g.fresh = false
	f.bytes += n
	f.send(&f.flying[len(f.flying)-1])
}

func (f *flushes) send(p *flight) { f.engine.Begin(p.g.slots[p.slot], p.id) }

// reap takes completions, waiting as Engine.Reap does, and returns the new end of the contiguous
// prefix of completed flushes, or durable if it did not move. The first flush that failed ends it: later
// completions, also of older flushes, no longer count.
func (f *flushes) reap(durable int64, wait time.Duration) (int64, error) {
	f.reaped = f.engine.Reap(f.reaped[:0], wait)
	for _, c := range f.reaped {
		if c.Err != nil {
			return durable, c.Err
		}
		for i := range f.flying {
			if f.flying[i].id == c.ID {
				f.landed(&f.flying[i])
			}
		}
		durable = f.popDone(durable)
	}
	return durable, nil
}

// landed takes note of a flush that succeeded, or begins the second.
func (f *flushes) landed(p *flight) {
	f.completed.Add(1)
	if p.again {
		p.again = false
		f.send(p)
		return
	}
	p.done = true
	f.busy[p.slot] = false
}

func (f *flushes) popDone(durable int64) int64 {
	n := 0
	for n < len(f.flying) && f.flying[n].done {
		durable = f.flying[n].end
		f.slow(f.flying[n].n, f.times.flush.AddTime(time.Since(f.flying[n].began)))
		f.bytes -= f.flying[n].n
		n++
	}
	f.flying = f.flying[:copy(f.flying, f.flying[n:])]
	return durable
}
