package log

import (
	"errors"
	"fmt"
	"path"
)

// Start begins to take appends at end, which is durable and followed by zeros. In an empty log the
// first segment is made before Start returns, so that a full disk is told at once. Close follows in any case.
func (l *Log) Start(end int64) error {
	if err := l.clearDrafts(); err != nil {
		return err
	}
	engine, err := l.cfg.FS.NewEngine()
	if err != nil {
		return fmt.Errorf("store: flusher: %w", err)
	}
	staging, err := newStaging(l.cfg.StagingBytes)
	if err != nil {
		return errors.Join(fmt.Errorf("store: staging: %w", err), engine.Close())
	}
	l.engine, l.staging, l.spare, l.zeros = engine, staging, newPreparer(l), newZeroAhead(l)
	l.tail, l.current = end, l.find(end)
	l.writtenTo.Store(end)
	l.durableTo.Store(end)
	if l.current == nil {
		if l.next, err = l.makeSegment(end); err != nil {
			return fmt.Errorf("store: %w", err) // Close ends the engine and gives the staging back
		}
		l.spare.askedFor = end
	}
	l.roomLocked()
	w := &writer{l: l, fly: newFlushes(engine, l.cfg.FlushDepth, &l.counters.completed, &l.times, l.slowFlush), written: end, durable: end, issued: end, told: [2]int64{end, end}}
	go w.run()
	go l.spare.run()
	go l.zeros.run()
	if l.current != nil && end-l.current.base >= l.current.size/2 {
		l.Lock()
		l.spare.askLocked(l.current.end())
		l.Unlock()
	}
	return nil
}

// Drain refuses appends from now on, and returns when all that was staged is written and flushed, or
// the log has failed: then it returns why.
func (l *Log) Drain() error {
	l.mu.Lock()
	l.closing = true
	why := ErrClosed
	l.refusal.CompareAndSwap(nil, &why)
	l.mu.Unlock()
	l.engine.Kick()
	<-l.done
	l.zeros.close()
	close(l.spare.stop)
	<-l.spare.done
	if err := l.Err(); !errors.Is(err, ErrClosed) {
		return err
	}
	return l.zeroRest()
}

// Close removes a prepared segment that nothing was written to and closes the files; readers that
// hold ranges keep theirs. Drain comes before it, unless the log was never started.
func (l *Log) Close() error {
	var errs []error
	if l.next != nil {
		l.next.shared.Release()
		errs = append(errs, l.removeUnused(l.next))
		l.next = nil
	}
	if l.spare != nil {
		l.spare.gone.close()
		errs = append(errs, l.clearDrafts())
	}
	for _, dir := range l.cfg.Dirs {
		_ = l.cfg.FS.Remove(path.Join(dir, spareDir)) // empty, or never made
	}
	l.closeSegments()
	if l.engine != nil {
		errs = append(errs, l.engine.Close(), l.staging.mem.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("store: close the log: %w", err)
	}
	return nil
}

// refuse makes every later append fail with why.
func (l *Log) refuse(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusal.Store(&why)
	l.pieces, l.pending, l.hurry = nil, 0, false
}

// removeUnused removes a prepared segment. What a recycled one holds is gone for good when it returns: a stock
// broker that starts after a power cut would begin a file with that behind it.
func (l *Log) removeUnused(g *segment) error {
	err := l.cfg.FS.Remove(g.name())
	if err == nil && g.recycled {
		err = l.cfg.FS.SyncDir(g.dir)
	}
	return err
}
