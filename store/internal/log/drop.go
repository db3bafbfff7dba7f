package log

import (
	"fmt"
	"path"
	"slices"
	"sync"
	"time"

	"ringmq/store/internal/filename"
)

const (
	// shrinkBytes of a dropped file are given back at a time, with shrinkPause between: a file system
	// that frees a large file at once holds up its journal, and with it the flushes of the log.
	shrinkBytes = 64 << 20
	shrinkPause = 10 * time.Millisecond
)

// Drop takes the oldest segment, which begins at base, out of the log: Min moves to the next one. When
// the last reader has let go of it, its file becomes a later segment if reuse is set and Config.Recycle
// permits it, else its space is given back, without hurry. All of it must be durable, and it must not be
// the last one. going, which may be nil, is called when nothing can fail any more, and before Min moves: readers
// find all of the segment until it returns. That it is gone is not durable on return: after a crash it may be
// there again. After an error all is as before. One goroutine at a time may call it.
func (l *Log) Drop(base int64, reuse bool, going func()) error {
	all := *l.segments.Load()
	if len(all) < 2 || all[0].base != base || all[0].end() > l.Durable() {
		return fmt.Errorf("%w: segment %s cannot be dropped", ErrOffset, filename.Of(base))
	}
	g := all[0]
	if err := l.takeName(g); err != nil {
		return fmt.Errorf("store: drop segment %s: %w", filename.Of(base), err)
	}
	if going != nil {
		going()
	}
	l.mu.Lock()
	all = slices.Clone((*l.segments.Load())[1:])
	l.segments.Store(&all)
	l.mu.Unlock()
	l.counters.dropped.Add(1)
	g.reuse = reuse && l.cfg.Recycle
	g.dropped = l.spare.gone.add
	g.shared.Release()
	return nil
}

// takeName takes the name of the oldest segment out of its directory: to the spares, or away where that
// is read-only, for there nothing is made. The names before it, in another directory, are gone for good first.
func (l *Log) takeName(g *segment) error {
	fsys := l.cfg.FS
	if l.unsynced != "" && l.unsynced != g.dir {
		if err := fsys.SyncDir(l.unsynced); err != nil {
			return err
		}
	}
	l.unsynced = g.dir
	if g.fixed {
		return fsys.Remove(g.name())
	}
	if err := fsys.MkdirAll(path.Join(g.dir, spareDir)); err != nil {
		return err
	}
	return fsys.Rename(g.name(), g.spareName())
}

// spareName is the path of a dropped segment's file.
func (g *segment) spareName() string { return path.Join(g.dir, spareDir, filename.Of(g.base)) }

// goneSegments are dropped segments that nobody reads any more.
type goneSegments struct {
	news chan struct{} // room for one

	mu     sync.Mutex // leaf; guards what follows
	list   []*segment
	closed bool
}

// add takes a segment over from its last reader; any goroutine.
func (s *goneSegments) add(g *segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed { // its name is gone, or will be at the next start
		g.closeFiles()
		return
	}
	s.list = append(s.list, g)
	select {
	case s.news <- struct{}{}:
	default:
	}
}

func (s *goneSegments) take() []*segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.list
	s.list = nil
	return list
}

// close closes the files that wait, and those to come at once.
func (s *goneSegments) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, g := range s.list {
		g.closeFiles()
	}
	s.list = nil
}

// remover keeps dropped segments for reuse, or gives back their space, a piece at a time. Preparer
// goroutine only.
type remover struct {
	l     *Log
	left  []*segment
	due   <-chan time.Time // when the next piece may go; nil if there is none
	begun bool             // the first of left is shrinking
}

// take adds segments.
func (r *remover) take(gone []*segment) {
	r.left = append(r.left, gone...)
	if r.due == nil && len(r.left) > 0 {
		r.due = time.After(0)
	}
}

// step gives back one piece. What fails is logged and left to the next start.
func (r *remover) step() {
	g := r.left[0]
	done, err := r.shrink(g)
	if err != nil {
		r.l.cfg.Log.Error("store: cannot remove a dropped file of the log; the next start tries again", "segment", filename.Of(g.base), "err", err)
	}
	if done || err != nil {
		g.closeFiles()
		r.left, r.begun = r.left[1:], false
	}
	r.due = nil
	if len(r.left) > 0 {
		r.due = time.After(shrinkPause)
	}
}

func (r *remover) shrink(g *segment) (done bool, err error) {
	fsys := r.l.cfg.FS
	if g.fixed { // it has no name left
		return true, nil
	}
	if !r.begun { // before its bytes go: a power cut must not bring its old name back without them
		if err := fsys.SyncDir(g.dir); err != nil {
			return false, err
		}
		r.begun = true
		if kept, err := r.l.keepForReuse(g); kept || err != nil {
			return true, err
		}
	}
	size, err := g.file.Size()
	if err != nil {
		return false, err
	}
	if size > shrinkBytes {
		return false, g.file.Truncate(size - shrinkBytes)
	}
	return true, fsys.Remove(g.spareName())
}

// close closes the files that are left. Their names are the next start's, or clearDrafts'.
func (r *remover) close() {
	for _, g := range r.left {
		g.closeFiles()
	}
	r.left = nil
}
