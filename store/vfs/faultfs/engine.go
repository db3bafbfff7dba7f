package faultfs

import (
	"maps"
	"slices"
	"time"

	"ringmq/store/vfs"
)

// engine passes flushes on, except those that fail or lie here.
type engine struct {
	fs    *FS
	below vfs.Engine
	box   *vfs.Mailbox // holds kicks for after a cut, when below must not be asked any more

	// The writer's.
	own      []vfs.Flushed // completed here, to be told by the next Reap
	inFlight map[uint64]bool
}

// NewEngine implements vfs.FS.
func (f *FS) NewEngine() (vfs.Engine, error) {
	if err := f.alive(); err != nil {
		return nil, err
	}
	below, err := f.below.NewEngine()
	if err != nil {
		return nil, err
	}
	e := &engine{fs: f, below: below, box: vfs.NewMailbox(), inFlight: map[uint64]bool{}}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.engines = append(f.engines, e)
	return e, nil
}

// Begin is counted.
func (e *engine) Begin(s vfs.Slot, id uint64) {
	lie := e.fs.lied(site("flush"))
	if _, err := e.fs.count(s.(*slot).file.Name()); err != nil || lie {
		e.own = append(e.own, vfs.Flushed{ID: id, Err: err})
		return
	}
	e.inFlight[id] = true
	e.below.Begin(s.(*slot).Slot, id)
}

// Reap tells what completed here before it waits for anything below. After a cut all that is in flight
// ends with ErrPower, and nothing completes below.
func (e *engine) Reap(into []vfs.Flushed, wait time.Duration) []vfs.Flushed {
	e.endAfterCut()
	if len(e.own) > 0 {
		wait = 0
	}
	if e.fs.IsCut() {
		into = e.box.Reap(into, wait)
	} else {
		told := len(into)
		into = e.below.Reap(into, wait)
		for _, done := range into[told:] {
			delete(e.inFlight, done.ID)
		}
		e.endAfterCut() // it may have been what ended the wait
	}
	into = append(into, e.own...)
	e.own = e.own[:0]
	return into
}

func (e *engine) endAfterCut() {
	if !e.fs.IsCut() {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(e.inFlight)) {
		e.own = append(e.own, vfs.Flushed{ID: id, Err: ErrPower})
	}
	clear(e.inFlight)
}

func (e *engine) Kick() {
	e.box.Kick()
	e.below.Kick()
}

// Close leaves flushes in flight alone after a cut: closing the engine below would complete them.
func (e *engine) Close() error {
	if e.fs.IsCut() {
		return nil
	}
	return e.below.Close()
}

func (e *engine) Name() string { return e.below.Name() }
