package memfs

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"ringmq/store/vfs"
)

// slot is a flush slot. It keeps its first error, as vfs.Flushed asks.
type slot struct {
	fs   *FS
	node *inode
	name string

	// Guarded by the FS's mutex.
	closed bool
	seen   int
	err    error
}

func (s *slot) Close() error {
	s.fs.mu.Lock()
	defer s.fs.mu.Unlock()
	if s.closed {
		return pathError("close", s.name, syscall.EBADF)
	}
	s.closed = true
	s.node.opens--
	s.fs.freeLocked(s.node)
	return nil
}

// WriteDurable makes just the pages that it writes durable. While a test holds flushes it is not
// supported, so that there are flushes to hold.
func (s *slot) WriteDurable(bufs [][]byte, off int64) (int, error) {
	f := s.fs
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.crashed:
		return 0, pathError("write", s.name, ErrCrashed)
	case s.closed:
		return 0, pathError("write", s.name, syscall.EBADF)
	case f.holding:
		return 0, errors.ErrUnsupported
	case s.err != nil:
		return 0, s.err
	}
	done, err := f.writeVecLocked(s.node, s.name, bufs, off)
	if err != nil {
		s.err = err
		return done, err
	}
	f.seq++
	f.finishLocked(s.node.snapshotRange(f.seq, off, int64(done)), f.countSyncLocked())
	if err := s.node.report(&s.seen); err != nil {
		s.err = pathError("write", s.name, err)
	}
	return done, s.err
}

// flush is one that has begun and not completed.
type flush struct {
	engine *engine
	slot   *slot
	id     uint64
	image  image
	err    error // planned by FailSync
}

// engine completes flushes inside Reap, or when the test releases them.
type engine struct {
	fs  *FS
	box *vfs.Mailbox
}

// NewEngine implements vfs.FS.
func (f *FS) NewEngine() (vfs.Engine, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.crashed {
		return nil, ErrCrashed
	}
	return &engine{fs: f, box: vfs.NewMailbox()}, nil
}

func (e *engine) Begin(s vfs.Slot, id uint64) {
	f, sl := e.fs, s.(*slot)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.crashed {
		e.box.Post(vfs.Flushed{ID: id, Err: pathError("fdatasync", sl.name, ErrCrashed)})
		return
	}
	for _, other := range f.flying {
		if other.slot == sl {
			panic(fmt.Sprintf("memfs: %s: a second flush on one slot", sl.name))
		}
	}
	f.seq++
	fl := &flush{engine: e, slot: sl, id: id, image: sl.node.snapshot(f.seq), err: f.countSyncLocked()}
	f.flying = append(f.flying, fl)
	if f.holding {
		f.held = append(f.held, fl)
		f.changed.Broadcast()
	}
}

// Reap lets each flush in flight complete with even odds, and at least one of them if it may wait.
func (e *engine) Reap(into []vfs.Flushed, wait time.Duration) []vfs.Flushed {
	f := e.fs
	f.mu.Lock()
	var free []*flush
	for _, fl := range f.flying {
		if fl.engine == e && !slices.Contains(f.held, fl) {
			free = append(free, fl)
		}
	}
	f.rng.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	for i, fl := range free {
		if i == 0 && wait != 0 || f.rng.IntN(2) == 0 {
			f.completeLocked(fl, fl.err)
		}
	}
	f.mu.Unlock()
	return e.box.Reap(into, wait)
}

func (e *engine) Kick() { e.box.Kick() }

// Close completes what is in flight, held or not.
func (e *engine) Close() error {
	f := e.fs
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fl := range slices.Clone(f.flying) {
		if fl.engine == e {
			f.completeLocked(fl, fl.err)
		}
	}
	return nil
}

func (e *engine) Name() string { return "mem" }

// completeLocked ends a flush: its image lands or is lost, and its engine is told.
func (f *FS) completeLocked(fl *flush, err error) {
	f.flying = slices.DeleteFunc(f.flying, func(o *flush) bool { return o == fl })
	f.held = slices.DeleteFunc(f.held, func(o *flush) bool { return o == fl })
	f.finishLocked(fl.image, err)
	sl := fl.slot
	if sl.err == nil {
		if err := sl.node.report(&sl.seen); err != nil {
			sl.err = pathError("fdatasync", sl.name, err)
		}
	}
	fl.engine.box.Post(vfs.Flushed{ID: fl.id, Err: sl.err})
}

// HoldFlushes makes every flush that begins from now on wait for Release.
func (f *FS) HoldFlushes() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.holding = true
}

// WaitHeld waits until n flushes are held, and returns how many are.
func (f *FS) WaitHeld(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.held) < n {
		f.changed.Wait()
	}
	return len(f.held)
}

// Release completes the i-th oldest held flush with err; nil lets it succeed.
func (f *FS) Release(i int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.completeLocked(f.held[i], err)
}

// ReleaseAll completes all held flushes, the oldest first, and ends HoldFlushes.
func (f *FS) ReleaseAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.holding = false
	for len(f.held) > 0 {
		f.completeLocked(f.held[0], f.held[0].err)
	}
}
