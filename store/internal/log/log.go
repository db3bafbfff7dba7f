package log

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"ringmq/store/record"
	"ringmq/store/vfs"
	"ringmq/uring"
)

var (
	// ErrBusy means that there is no room right now; the same call succeeds later.
	ErrBusy = errors.New("store: busy")

	// ErrNoSpace means that there is no room before the disk has some again.
	ErrNoSpace = errors.New("store: no space for more messages")

	// ErrFailed means that a write or flush failed: nothing is stored any more by this process.
	ErrFailed = errors.New("store: the log has failed")

	// ErrClosed means that the log was closed.
	ErrClosed = errors.New("store: closed")

	// ErrTooLarge means that bytes can never be stored in one piece: they exceed a segment or staging.
	ErrTooLarge = errors.New("store: too large for one segment")

	// ErrOffset means that an offset is not inside the log.
	ErrOffset = errors.New("store: offset outside of the log")
)

// SlowFlush is the default of Config.SlowFlush.
const SlowFlush = time.Second

// UnflushedBytes is the default of Config.UnflushedBytes.
const UnflushedBytes = 64 << 20

// Config is what a Log needs. All fields must be set, except where 0 is said to choose.
type Config struct {
	FS           vfs.FS
	Dirs         []string // where new files go, in turn
	ReadOnly     []string // files here are read, and dropped with age, but no byte of them changes
	SegmentBytes int64
	StagingBytes int

	FlushSync       bool          // flush after every write
	FlushDepth      int           // flushes in flight
	FlushInterval   time.Duration // without FlushSync: look this often
	FlushLeastPages int           // without FlushSync: pages that make a flush worth it
	FlushThorough   time.Duration // without FlushSync: flush anything this often
	UnflushedBytes  int64         // without FlushSync: most that is written and not durable; 0: UnflushedBytes
	ZeroStepBytes   int64         // with FlushSync: piece in which zeros are written ahead, whole pages; 0: ZeroStepBytes
	PrepareRetry    time.Duration // try again after a segment could not be prepared

	Recycle bool // use the files of dropped segments again: every record must carry a check of all its bytes

	Log *slog.Logger

	SlowFlush time.Duration // a flush that takes longer has a line in the log; 0: SlowFlush

	// Full reports whether new files should rather go to another of Dirs; nil: never. Any goroutine.
	Full func(dir string) bool

	// Advanced runs on the writer goroutine when a mark moved, or when appends that were refused for
	// want of a segment may fare otherwise: it is there, or it cannot be made. It must not block.
	Advanced func(written, durable int64)

	// Failed runs once, on the writer goroutine, with the error that ended the log.
	Failed func(error)
}

// Log is the CommitLog. Lock guards the append side; methods whose name ends in Locked want it held.
type Log struct {
	cfg     Config
	engine  vfs.Engine
	staging *staging
	spare   *preparer
	zeros   *zeroAhead
	maps    *uring.Maps // of the segments

	// Published by their owners, read by any goroutine.
	segments             atomic.Pointer[[]*segment] // in order, without gaps; replaced, never changed
	writtenTo, durableTo atomic.Int64
	room                 atomic.Int64          // bytes from the tail to the end of the last ready segment
	refusal              atomic.Pointer[error] // why nothing is stored any more
	counters             counters
	times                times

	// mu guards what follows. Under it: memory work only; no lock is taken after it.
	mu      sync.Mutex
	tail    int64    // physical offset that the next byte gets
	current *segment // holds tail; nil in an empty log
	next    *segment // ready, nothing of it given out; nil while it is not there
	pieces  []piece  // staged, not yet taken by the writer
	pending int64    // bytes of pieces
	wakeAt  int64    // pending bytes at which an appender wakes the writer
	hurry   bool     // with FlushSync: somebody waits only until the pending bytes are written
	closing bool

	unsynced string // the caller of Drop only: directory whose last removal may not be on the disk

	done chan struct{} // closed when the writer goroutine has ended
}

// piece is staged bytes that go to one place of one segment.
type piece struct {
	seg    *segment
	off    int64 // physical
	pos    int64 // in staging
	n      int64
	blanks int64 // of n, bytes of a blank record, which ends the segment
	since  time.Time
}

// end is the physical offset after p; a blank record reaches to the segment's end.
func (p piece) end() int64 {
	if p.blanks > 0 {
		return p.seg.end()
	}
	return p.off + p.n
}

// never is a wakeAt that no pending bytes reach.
const never = 1<<63 - 1

// Lock takes the append lock: short, no I/O under it.
func (l *Log) Lock() { l.mu.Lock() }

// Unlock ends an append and wakes the writer if it waits for what was staged.
func (l *Log) Unlock() {
	wake := l.pending >= l.wakeAt
	if wake {
		l.wakeAt = never
	}
	l.mu.Unlock()
	if wake {
		l.engine.Kick()
	}
}

// Reserve promises n bytes of staging and looks whether a segment can take them. It returns nil,
// ErrBusy, ErrNoSpace, ErrTooLarge, ErrFailed or ErrClosed. Any goroutine may call it.
func (l *Log) Reserve(n int) error {
	if why := l.refusal.Load(); why != nil {
		return *why
	}
	want := int64(n)
	if want+blankBytes > l.cfg.SegmentBytes || want > l.staging.limit {
		return fmt.Errorf("%w: %d bytes in segments of %d and staging of %d", ErrTooLarge, n, l.cfg.SegmentBytes, l.staging.limit)
	}
	if !l.staging.reserve(want) {
		l.counters.busy.Add(1)
		return ErrBusy
	}
	promised := l.staging.reserved.Load() - l.staging.unwritten.Load()
	if promised+blankBytes > l.room.Load() {
		l.staging.release(want)
		l.counters.busy.Add(1)
		return l.missingSegment()
	}
	return nil
}

// missingSegment has the next segment prepared if it is not there, and says why it is not.
func (l *Log) missingSegment() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.missingSegmentLocked()
}

func (l *Log) missingSegmentLocked() error {
	if l.next == nil {
		l.spare.askLocked(l.nextBaseLocked())
	}
	return l.spare.why()
}

// Release gives back n reserved bytes that will not be staged. Any goroutine may call it.
func (l *Log) Release(n int) { l.staging.release(int64(n)) }

// FitLocked makes sure that the next n bytes go to one segment, in one piece: it ends the current
// segment by a blank record if need be. Until it returns nil no offset may be given out. The errors
// are those of Reserve.
func (l *Log) FitLocked(n int) error {
	if why := l.refusal.Load(); why != nil {
		return *why
	}
	want := int64(n) + blankBytes
	switch {
	case l.current != nil && want <= l.current.end()-l.tail:
		return nil
	case want > l.cfg.SegmentBytes:
		return fmt.Errorf("%w: %d bytes in segments of %d", ErrTooLarge, n, l.cfg.SegmentBytes)
	case l.next == nil:
		l.counters.busy.Add(1)
		return l.missingSegmentLocked()
	}
	l.rollLocked()
	return nil
}

// StageLocked returns the memory for the next n bytes, which FitLocked has made room for, and their
// physical offset. The caller fills them before Unlock.
func (l *Log) StageLocked(n int) (dst []byte, off int64) {
	dst, off = l.stageLocked(n, 0)
	if l.next == nil && l.tail-l.current.base >= l.current.size/2 {
		l.spare.askLocked(l.current.end())
	}
	return dst, off
}

// HurryLocked has what is staged written without regard to the flushes in flight: its sender waits for
// the kernel only.
func (l *Log) HurryLocked() {
	if l.cfg.FlushSync && l.pending > 0 {
		l.hurry, l.wakeAt = true, min(l.wakeAt, 1)
	}
}

// TailLocked is the physical offset that the next byte gets, unless FitLocked rolls.
func (l *Log) TailLocked() int64 { return l.tail }

func (l *Log) stageLocked(n int, blanks int64) (dst []byte, off int64) {
	dst, pos := l.staging.takeLocked(n)
	off = l.tail
	if last := len(l.pieces) - 1; last >= 0 && l.pieces[last].seg == l.current {
		l.pieces[last].n += int64(n)
		l.pieces[last].blanks += blanks
	} else {
		l.pieces = append(l.pieces, piece{seg: l.current, off: off, pos: pos, n: int64(n), blanks: blanks, since: time.Now()})
	}
	l.pending += int64(n)
	l.tail += int64(n)
	l.roomLocked()
	return dst, off
}

// rollLocked ends the current segment and enters the next.
func (l *Log) rollLocked() {
	if l.current != nil {
		room := l.current.end() - l.tail
		dst, _ := l.stageLocked(blankBytes, blankBytes)
		record.AppendBlank(dst[:0], int(room))
	}
	l.current, l.next = l.next, nil
	l.tail = l.current.base
	all := append([]*segment(nil), *l.segments.Load()...)
	if n := len(all); n > 0 && all[n-1].end() != l.current.base {
		panic(fmt.Sprintf("store: segment %d follows one that ends at %d", l.current.base, all[n-1].end()))
	}
	all = append(all, l.current)
	l.segments.Store(&all)
	l.roomLocked()
}

func (l *Log) nextBaseLocked() int64 {
	if l.current == nil {
		return l.tail
	}
	return l.current.end()
}

// roomLocked publishes how much fits into what is ready. A record never spans segments, so the real
// room is smaller; FitLocked judges exactly.
func (l *Log) roomLocked() {
	var room int64
	if l.current != nil {
		room = l.current.end() - l.tail
	}
	if l.next != nil {
		room = max(room, 0) + l.next.size
	}
	l.room.Store(room)
}

// Written is the end of what the kernel has. Any goroutine may call it, as for what follows.
func (l *Log) Written() int64 { return l.writtenTo.Load() }

// Durable is the end of what is on the disk.
func (l *Log) Durable() int64 { return l.durableTo.Load() }

// Err says why nothing is stored any more, nil while all is well.
func (l *Log) Err() error {
	if why := l.refusal.Load(); why != nil {
		return *why
	}
	return nil
}

// Min is the physical offset of the first byte of the first segment; 0 in an empty log.
func (l *Log) Min() int64 {
	if all := *l.segments.Load(); len(all) > 0 {
		return all[0].base
	}
	return 0
}

// find returns the segment that holds off, nil if none does.
func (l *Log) find(off int64) *segment {
	all := *l.segments.Load()
	if len(all) == 0 || off < all[0].base {
		return nil
	}
	i := (off - all[0].base) / l.cfg.SegmentBytes
	if i >= int64(len(all)) {
		return nil
	}
	return all[i]
}

// Span returns the offsets of the segment that holds off; not ok if none does.
func (l *Log) Span(off int64) (base, end int64, ok bool) {
	g := l.find(off)
	if g == nil {
		return 0, 0, false
	}
	return g.base, g.end(), true
}

// Kept is a segment that stays open until Release.
type Kept interface {
	// Direct is its file for reads past the page cache. It belongs to the segment.
	Direct() (vfs.Direct, error)
	Release()
}

// Keep holds the segment of off open; not ok if none does.
func (l *Log) Keep(off int64) (Kept, bool) {
	g := l.find(off)
	if g == nil || !g.shared.Acquire() {
		return nil, false
	}
	return g, true
}

// Cached reports whether n bytes from off, all in one segment, are read without waiting for the disk; not known where the
// kernel does not tell.
func (l *Log) Cached(off int64, n int) (cached, known bool) {
	g := l.find(off)
	if g == nil || !g.shared.Acquire() {
		return true, true // there is nothing to wait for
	}
	defer g.shared.Release()
	return vfs.Cached(g.file, off-g.base, int64(n))
}

// Range returns n written bytes from off, all in one segment, for somebody to send. The caller must
// Release it.
func (l *Log) Range(off int64, n int) (uring.FileRange, error) {
	g := l.find(off)
	if g == nil || n < 0 || off+int64(n) > g.end() || !g.shared.Acquire() {
		return uring.FileRange{}, ErrOffset
	}
	return uring.FileRange{File: g.shared, Off: off - g.base, Len: n}, nil
}

// ReadAt fills p from off; all of it in one segment.
func (l *Log) ReadAt(p []byte, off int64) error {
	r, err := l.Range(off, len(p))
	if err != nil {
		return err
	}
	defer r.Release()
	if n, err := r.ReadAt(p, 0); n < len(p) {
		return fmt.Errorf("store: read %d bytes at %d: %w", len(p), off, err)
	}
	return nil
}
