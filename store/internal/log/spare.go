package log

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync/atomic"
	"time"

	"ringmq/store/internal/filename"
)

// preparer makes segments ready before they are needed: full length, blocks reserved, the first
// zeros written, file and name durable. So no append waits for an allocation, and no offset is given
// out for which there is no room.
//
// A segment is made in a sub-directory and renamed when it is whole: the log's directory never holds
// a file of another length, which a stock broker refuses. It is a sub-directory and no sibling because
// the log's directory may be a mount point; stock brokers skip directories there.
type preparer struct {
	l     *Log
	asked chan int64 // base of the segment to make; room for one, and never more than one is asked for
	gone  goneSegments
	stop  chan struct{}
	done  chan struct{}

	// Stored by the preparer, read by any goroutine.
	failure atomic.Pointer[error] // why the last try failed
	news    atomic.Bool           // appends that were refused may fare otherwise now; the writer takes it back

	askedFor int64 // guarded by the log's lock; -1 before the first

	// Preparer goroutine only, and Start before that.
	recycled map[string][]string // by directory: files in its spareDir that wait to be used again
	named    string              // directory in which the next segment has its name, though perhaps not for good
}

func newPreparer(l *Log) *preparer {
	return &preparer{l: l, asked: make(chan int64, 1), gone: goneSegments{news: make(chan struct{}, 1)}, stop: make(chan struct{}), done: make(chan struct{}), askedFor: -1, recycled: map[string][]string{}}
}

// askLocked asks for the segment that begins at base, once.
func (p *preparer) askLocked(base int64) {
	if p.askedFor == base {
		return
	}
	p.askedFor = base
	p.asked <- base
}

// why tells an append what keeps the next segment: ErrBusy while it is made, else ErrNoSpace with
// what went wrong.
func (p *preparer) why() error {
	if err := p.failure.Load(); err != nil {
		return *err
	}
	return ErrBusy
}

// Unprepared says why the next segment cannot be made at present; nil while it can, or is there. Any
// goroutine may call it.
func (l *Log) Unprepared() error {
	if why := l.spare.failure.Load(); why != nil {
		return *why
	}
	return nil
}

func (p *preparer) run() {
	defer close(p.done)
	removing := remover{l: p.l}
	defer removing.close()
	for {
		select {
		case <-p.stop:
			return
		case <-p.gone.news:
			removing.take(p.gone.take())
		case <-removing.due:
			removing.step()
		case base := <-p.asked:
			g, ok := p.insist(base, &removing)
			if !ok {
				return
			}
			p.l.ready(g)
		}
	}
}

// insist tries until the segment is ready, or until the log closes. Meanwhile it goes on removing: that is
// what makes room.
func (p *preparer) insist(base int64, removing *remover) (*segment, bool) {
	retry := time.NewTicker(p.l.cfg.PrepareRetry)
	defer retry.Stop()
	for {
		began := time.Now()
		g, err := p.l.makeSegment(base)
		if err == nil {
			p.l.times.prepare.AddTime(time.Since(began))
			if p.failure.Swap(nil) != nil {
				p.l.cfg.Log.Info("store: messages are taken again: the next segment is ready", "segment", base)
			}
			return g, true
		}
		err = fmt.Errorf("%w: %w", ErrNoSpace, err)
		if p.failure.Swap(&err) == nil {
			p.l.cfg.Log.Error("store: cannot prepare the next segment; messages are refused once the current one is full; retrying", "err", err)
			p.tell()
		}
		if !p.removeUntil(retry.C, removing) {
			return nil, false
		}
	}
}

// removeUntil removes until it is time to try again; false when the log closes.
func (p *preparer) removeUntil(again <-chan time.Time, removing *remover) bool {
	for {
		select {
		case <-p.stop:
			return false
		case <-again:
			return true
		case <-p.gone.news:
			removing.take(p.gone.take())
		case <-removing.due:
			removing.step()
		}
	}
}

// ready offers g to the appenders.
func (l *Log) ready(g *segment) {
	l.mu.Lock()
	l.next = g
	l.roomLocked()
	l.mu.Unlock()
	l.counters.segments.Add(1)
	l.spare.tell()
}

// tell has the writer report that refused appends may be tried again.
func (p *preparer) tell() {
	p.news.Store(true)
	p.l.engine.Kick()
}

const spareDir = "spare"

// makeSegment makes the file that begins at base, durable on return, in the first directory where it can
// be made.
func (l *Log) makeSegment(base int64) (*segment, error) {
	var failed []error
	for _, dir := range l.turns(base) {
		g, err := l.makeSegmentIn(dir, base)
		if err == nil && len(failed) > 0 {
			l.cfg.Log.Warn("store: a file of the log was made in another directory than the one whose turn it was", "file", g.name(), "err", errors.Join(failed...))
		}
		if err == nil {
			return g, nil
		}
		if failed = append(failed, err); l.spare.named != "" { // nowhere else, or it is there twice
			break
		}
	}
	return nil, errors.Join(failed...)
}

func (l *Log) makeSegmentIn(dir string, base int64) (*segment, error) {
	fsys, name := l.cfg.FS, filename.Of(base)
	draft, err := l.takeRecycled(dir)
	recycled := draft != ""
	if !recycled && err == nil {
		draft = path.Join(dir, spareDir, name)
		err = l.fillDraft(draft)
	}
	if err != nil {
		_ = fsys.Remove(draft) // gives the space back
		return nil, fmt.Errorf("prepare segment %s: %w", name, err)
	}
	if err := fsys.Rename(draft, path.Join(dir, name)); err != nil {
		return nil, fmt.Errorf("prepare segment %s: %w", name, err)
	}
	l.spare.named = dir
	if err := fsys.SyncDir(dir); err != nil {
		return nil, fmt.Errorf("prepare segment %s: %w", name, err)
	}
	g, err := l.openSegment(place{dir: dir, base: base})
	if err != nil {
		return nil, err
	}
	l.spare.named = ""
	if g.zeroed = l.firstZeros(); recycled {
		g.recycled, g.zeroed = true, g.size
		l.counters.recycled.Add(1)
	}
	return g, nil
}

// firstZeros is how many bytes of a new segment are written before it is offered.
func (l *Log) firstZeros() int64 {
	if !l.cfg.FlushSync {
		return 0
	}
	return min(l.cfg.ZeroStepBytes, l.cfg.SegmentBytes)
}

// fillDraft makes a durable file of full length. One sync makes its first zeros safe: see zeroAhead.
func (l *Log) fillDraft(draft string) error {
	if err := l.cfg.FS.MkdirAll(path.Dir(draft)); err != nil {
		return err
	}
	f, err := l.cfg.FS.Create(draft)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Preallocate(l.cfg.SegmentBytes); err != nil {
		return err
	}
	if err := writeZeros(f, 0, l.firstZeros()); err != nil {
		return err
	}
	return f.Sync()
}

// clearDrafts removes what a killed process left of its next segment, and of dropped ones.
func (l *Log) clearDrafts() error {
	for _, dir := range l.cfg.Dirs {
		if err := l.clearDraftsIn(path.Join(dir, spareDir)); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) clearDraftsIn(dir string) error {
	names, err := l.cfg.FS.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("store: list drafts of segments: %w", err)
	}
	for _, name := range names {
		if err := l.cfg.FS.Remove(path.Join(dir, name)); err != nil {
			return fmt.Errorf("store: remove the draft of a segment: %w", err)
		}
	}
	return nil
}
