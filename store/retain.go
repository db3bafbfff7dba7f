package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"ringmq/store/internal/derive/queue"
)

// Retention says which files of the log go, the oldest first, and when messages are refused so that the
// disk does not fill up. The newest file never goes, nor one that a restart would read, from the last
// checkpoint on. The zero value keeps everything.
type Retention struct {
	// Keep is the age from which on a file may go; 0: age is no reason. A file is as old as the first
	// message behind it. (Stock brokers go by the file's time of modification, which a copy changes.)
	Keep  time.Duration
	Hours []int // of the day, by the local clock, in which files go for their age; none: any hour

	MaxBytes int64 // of the log's files together; 0: any number

	// Levels of the disk: percent of it that are used, the fuller one where the log has a disk of its own; of
	// several disks of the log the one with most room counts, for new files go there. 0: none.
	UsedPercent  int // from here on age counts at any hour
	ForcePercent int // from here on files go whatever their age
	WarnPercent  int // from here on messages are refused as well
	// MinFreeBytes: with less free messages are refused, and from two files of the log above it files go
	// whatever their age; 0: none.
	MinFreeBytes int64
	KeepYoung    bool // no file goes before its age, however full the disk is; messages are refused instead

	BatchMax int           // most files that go in one round; default 10
	Pause    time.Duration // between two of them
}

// complaints names what cannot be meant.
func (r *Retention) complaints(complain func(wrong bool, format string, args ...any)) {
	complain(r.Keep < 0, "messages are kept for %v: want a positive time", r.Keep)
	complain(slices.ContainsFunc(r.Hours, func(h int) bool { return h < 0 || h > 23 }), "hours %v of removal: want 0 to 23", r.Hours)
	complain(r.MaxBytes < 0 || r.MinFreeBytes < 0, "at most %d bytes of log, at least %d free: want 0 or more", r.MaxBytes, r.MinFreeBytes)
	for _, p := range []int{r.UsedPercent, r.ForcePercent, r.WarnPercent} {
		complain(p < 0 || p > 100, "a disk level of %d %%: want 0 to 100", p)
	}
	complain(r.above(r.UsedPercent, r.ForcePercent) || r.above(r.ForcePercent, r.WarnPercent),
		"disk levels %d, %d, %d %%: want each at most the next: old files go, any files go, messages are refused", r.UsedPercent, r.ForcePercent, r.WarnPercent)
	complain(r.BatchMax < 0 || r.Pause < 0, "%d files in a round with pauses of %v: want 0 or more", r.BatchMax, r.Pause)
}

func (r *Retention) above(level, next int) bool { return next > 0 && level > next }

// fits complains about a size of the log that is reached before a file could go.
func (r *Retention) fits(segmentBytes int64) error {
	if r.MaxBytes > 0 && r.MaxBytes < 2*segmentBytes {
		return fmt.Errorf("store: at most %d bytes of log in files of %d: the newest file never goes: want two files at least, or 0 for no limit", r.MaxBytes, segmentBytes)
	}
	return nil
}

// retention is the state of what removes files.
type retention struct {
	// The goroutine of Retain only.
	warned string // what was last said about what went wrong

	// Stored by the goroutine of Retain, loaded by any.
	refusal         atomic.Pointer[error] // why the disk's level keeps messages out
	used, free      atomic.Int64          // of the fuller disk, bytes
	percent         atomic.Int64          // of it that are used
	segments, files atomic.Int64          // removed: of the log, of queues
	segmentsForced  atomic.Int64          // of segments, before their age
	oldestMs        atomic.Int64          // store time of the oldest message
}

// Retain removes what may go whenever tick says, until ctx ends. The level of the disk is looked at once
// at the start and then with each tick. Appends and reads go on meanwhile. It must run in one goroutine at
// most, and have returned before Close.
func (s *Store) Retain(ctx context.Context, tick <-chan time.Time) {
	s.lookAtDisk()
	s.noteOldest()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
			s.retainRound(ctx)
		}
	}
}

// retainRound looks once for what may go, and removes it.
func (s *Store) retainRound(ctx context.Context) {
	disk := s.lookAtDisk()
	if s.Err() != nil { // nothing is removed from a log that has failed or is damaged
		return
	}
	forced, aged := s.forced(disk), s.ageCounts(disk)
	for removed := 0; removed < s.o.Retention.BatchMax && ctx.Err() == nil; removed++ {
		base := s.log.Min()
		why := s.whyGo(base, removed < forced, aged)
		if why == "" {
			break
		}
		if removed > 0 && !pause(ctx, s.o.Retention.Pause) {
			break
		}
		if err := s.drop(base, why); err != nil {
			s.warn("store: a file of the log cannot be removed; retrying", err)
			break
		}
	}
	s.noteOldest()
}

// pause waits, and reports whether to go on.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// space is how full a disk is.
type space struct {
	dir        string // on it
	used, free int64
	percent    int
}

// reached reports whether the disk is used to a level; 0 is none.
func (d space) reached(level int) bool { return level > 0 && d.over(level) >= 0 }

// over is how many bytes the disk is used beyond a level, negative below it.
func (d space) over(level int) int64 { return d.used - (d.used+d.free)/100*int64(level) }

// lookAtDisk finds the fuller one of the disks, and lets messages in or keeps them out.
func (s *Store) lookAtDisk() space {
	worst, err := s.roomiest()
	queues, err2 := s.spaceOf(s.o.Dir)
	if err := errors.Join(err, err2); err != nil {
		s.warn("store: the space on the disk is not known", err)
		return space{free: math.MaxInt64}
	}
	if queues.percent > worst.percent {
		worst = queues
	}
	k := &s.retention
	k.used.Store(worst.used)
	k.free.Store(worst.free)
	k.percent.Store(int64(worst.percent))
	s.protect(worst)
	return worst
}

// roomiest is the disk of the log that is used least.
func (s *Store) roomiest() (best space, err error) {
	for i, dir := range s.o.CommitLogDirs {
		d, err := s.spaceOf(dir)
		if err != nil {
			return d, err
		}
		if i == 0 || d.percent < best.percent {
			best = d
		}
	}
	return best, nil
}

func (s *Store) spaceOf(dir string) (space, error) {
	free, total, err := s.fs.Space(dir)
	d := space{dir: dir, used: total - free, free: free}
	if err == nil && total > 0 {
		d.percent = int(math.Ceil(float64(d.used) * 100 / float64(total)))
	}
	return d, err
}

// full reports whether the disk of a directory has reached the level from which on files go whatever
// their age: new ones go to another then (stock broker 5.5.0).
func (s *Store) full(dir string) bool {
	d, err := s.spaceOf(dir)
	return err == nil && (d.reached(s.o.Retention.ForcePercent) || d.free < s.o.Retention.MinFreeBytes)
}

// protect refuses appends while the disk is too full, and takes them again afterwards.
func (s *Store) protect(d space) {
	r, why := &s.o.Retention, error(nil)
	switch {
	case d.reached(r.WarnPercent):
		why = fmt.Errorf("%w: the disk of %s is used to %d %%, messages are refused from %d %% on: make room there", ErrNoSpace, d.dir, d.percent, r.WarnPercent)
	case d.free < r.MinFreeBytes:
		why = fmt.Errorf("%w: the disk of %s has %d bytes free, messages are refused below %d: make room there", ErrNoSpace, d.dir, d.free, r.MinFreeBytes)
	}
	before := s.retention.refusal.Load()
	switch {
	case why != nil:
		s.retention.refusal.Store(&why)
		if before == nil {
			s.o.Log.Error("store: messages are refused until the disk has room; reads go on", "err", why)
		}
	case before != nil:
		s.retention.refusal.Store(nil)
		s.o.Log.Info("store: messages are taken again: the disk has room", "used_percent", d.percent, "free_bytes", d.free)
	}
}

// Refusing says why no message is taken at present, nil while they are. What Err says is final; all else
// mends by itself once the disk has room. Any goroutine may call it.
func (s *Store) Refusing() error {
	if err := s.Err(); err != nil {
		return err
	}
	if err := s.keeper.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	if why := s.retention.refusal.Load(); why != nil {
		return *why
	}
	return s.log.Unprepared()
}

// forced is how many files must go whatever their age, so that the disk has room. It is reckoned once for
// a round: what was removed may show as free only later.
func (s *Store) forced(d space) int {
	r := &s.o.Retention
	if r.KeepYoung {
		return 0
	}
	var want int64
	if d.reached(r.ForcePercent) {
		want = d.over(r.ForcePercent) + 1
	}
	if enough := r.MinFreeBytes + 2*s.o.SegmentBytes; r.MinFreeBytes > 0 && d.free < enough {
		want = max(want, enough-d.free)
	}
	if r.ForcePercent > 0 && d.free < 2*s.o.SegmentBytes && s.log.Unprepared() != nil { // no room for the next, whatever the percentage
		want = max(want, 1)
	}
	return int((want + s.o.SegmentBytes - 1) / s.o.SegmentBytes)
}

// ageCounts reports whether files may go for their age in this round.
func (s *Store) ageCounts(d space) bool {
	r := &s.o.Retention
	switch {
	case r.Keep == 0:
		return false
	case len(r.Hours) == 0, slices.Contains(r.Hours, s.o.Now().Hour()):
		return true
	}
	return d.reached(r.UsedPercent)
}

const goneForSpace = "the disk is full"

// whyGo says why the oldest file may go; empty if it may not.
func (s *Store) whyGo(base int64, forced, aged bool) string {
	end, r := base+s.o.SegmentBytes, &s.o.Retention
	large := r.MaxBytes > 0 && s.log.End()-base > r.MaxBytes
	switch {
	case end >= s.keeper.Checkpointed(): // the newest, or a restart would want it
		if end < s.visible.Load() && (forced || large) {
			s.keeper.Hurry() // then it may go in the next round
		}
		return ""
	case forced:
		return goneForSpace
	case large:
		return "size"
	case aged && s.isOld(end):
		return "age"
	}
	return ""
}

// isOld reports whether the file that ends at end has only messages of the age at which they go.
func (s *Store) isOld(end int64) bool {
	ms, err := s.storeTimeAt(end)
	if err != nil {
		s.warn("store: the age of the oldest file is not known: it stays", err)
		return false
	}
	return ms > 0 && ms <= s.o.Now().Add(-s.o.Retention.Keep).UnixMilli()
}

// drop removes the oldest file. Before it goes no queue offers its messages any more, and if it cannot go all of
// them are offered as before.
func (s *Store) drop(base int64, why string) error {
	end := base + s.o.SegmentBytes
	going := func() { s.Queues(func(q *Queue) { s.raiseMin(q.entries, end) }) }
	if err := s.log.Drop(base, why != goneForSpace, going); err != nil {
		return err
	}
	s.index.Dispatched() // its files of those messages go as well
	s.retention.segments.Add(1)
	if why == goneForSpace {
		s.retention.segmentsForced.Add(1)
	}
	s.o.Log.Info("store: the oldest file of the log was removed", "why", why, "begins", base, "ends", end, "used_percent", s.retention.percent.Load())
	s.Queues(func(q *Queue) {
		n, err := q.entries.DropBelow()
		s.retention.files.Add(int64(n))
		if err != nil {
			s.warn("store: a queue file cannot be removed; retrying with the next one", err)
		}
	})
	return nil
}

// raiseMin moves the first offset of a queue to its first message at or behind min.
func (s *Store) raiseMin(q *queue.Queue, min int64) {
	e, ok, err := q.Entry(q.Min())
	if err == nil && ok && !e.PreBlank() && e.Offset >= min {
		return
	}
	if err == nil {
		err = q.FixMin(min)
	}
	if err != nil { // its entries below min are not served in any case
		s.warn("store: the first offset of a queue is not known", err)
	}
}

// noteOldest keeps the store time of the oldest message.
func (s *Store) noteOldest() {
	base := s.log.Min()
	if base+headBytes > s.readable.Load() {
		return
	}
	if ms, err := s.storeTimeAt(base); err == nil {
		s.retention.oldestMs.Store(ms)
	}
}

// warn logs what went wrong, once while the same goes wrong again.
func (s *Store) warn(text string, err error) {
	if all := text + err.Error(); all != s.retention.warned {
		s.retention.warned = all
		s.o.Log.Warn(text, "err", err)
	}
}
