package derive

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"ringmq/store/internal/derive/index"
	"ringmq/store/record"
	"ringmq/store/vfs"
)

// IndexMark is how far the index is durable.
type IndexMark struct {
	Position int64 // physical offset: every record before it is in the index
	End      int64 // offset of the newest record that has an entry, 0 if there is none
	StoreMs  int64 // its store time
}

// IndexConfig is what an Indexer needs.
type IndexConfig struct {
	FS      vfs.FS
	Dir     string
	Options index.Options
	Off     bool // files that are there are kept right, nothing is put in and looked up

	Gather     time.Duration // after a first new message wait so long for others
	FlushBytes int64         // of the log between two flushes
	FlushAfter time.Duration // flush what is there this often
	Retry      time.Duration // after an error
	StopWithin time.Duration // longest that Stop goes on with what is missing

	Visible      func() int64 // any goroutine, as the next two
	Min          func() int64
	ReadAt       func(p []byte, off int64) error // of the visible log, all in one segment
	SegmentBytes int64
	Log          *slog.Logger
}

// Indexer puts the log's records into the index, up to what is visible, in a goroutine of its own: no
// message waits for it. It reads the log again for that, from the page cache as a rule.
type Indexer struct {
	cfg     IndexConfig
	started bool
	kick    chan struct{}
	stop    chan struct{}
	done    chan struct{}

	// Published by the owner, read by any goroutine.
	index    atomic.Pointer[index.Index] // nil while it is off
	mark     atomic.Pointer[IndexMark]
	position atomic.Int64 // every record before it is in the index, in memory at least
	idle     atomic.Bool  // it waits for Dispatched

	// The owner: the goroutine, or while that does not run whoever has the Indexer.
	min     int64 // begin of the log as the index knows it
	buf     []byte
	failing int // times in a row that the work failed
}

// OpenIndexer opens the index and makes it fit the log, which ends at end, durably, and takes no messages
// yet. before is the mark of a checkpoint that can be trusted, nil if there is none. Files with records
// stored after dropAfterMs are dropped; that is for those of a stock broker that was killed. isRecord
// tells whether a record stands at an offset.
func OpenIndexer(cfg IndexConfig, end int64, before *IndexMark, dropAfterMs int64, isRecord func(int64) bool) (*Indexer, error) {
	x := &Indexer{
		cfg: cfg, min: cfg.Min(),
		kick: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	opened, err := index.Open(cfg.FS, cfg.Dir, cfg.Options)
	if err != nil {
		return nil, err
	}
	if err := x.fit(opened, end, dropAfterMs, isRecord); err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	at, newest := x.resume(opened), opened.CompleteTo().Offset
	if before != nil && before.Position >= at && before.Position <= end && before.End == newest {
		at = before.Position // records without keys lie between
	}
	x.publish(opened, at)
	x.position.Store(at)
	if cfg.Off {
		return x, opened.Close()
	}
	x.index.Store(opened)
	return x, nil
}

// NoIndex returns an Indexer that touches no file and has nothing to look into.
func NoIndex() *Indexer {
	x := &Indexer{cfg: IndexConfig{Off: true}}
	x.mark.Store(&IndexMark{})
	return x
}

// fit makes the index one of this log.
func (x *Indexer) fit(i *index.Index, end, dropAfterMs int64, isRecord func(int64) bool) error {
	if err := i.DropAfter(dropAfterMs); err != nil {
		return err
	}
	if err := i.Truncate(end); err != nil {
		return err
	}
	if newest := i.CompleteTo().Offset; newest > x.min && !isRecord(newest) {
		x.cfg.Log.Warn("store: the index is of another log: it is built anew", "dir", x.cfg.Dir, "newest", newest)
		if err := i.Truncate(0); err != nil {
			return err
		}
	}
	return i.DropBelow(x.min)
}

// resume is where the log must be put in again from.
func (x *Indexer) resume(i *index.Index) int64 {
	return max(i.CompleteTo().Offset, x.cfg.Min())
}

func (x *Indexer) publish(i *index.Index, at int64) {
	to := i.CompleteTo()
	x.mark.Store(&IndexMark{Position: at, End: to.Offset, StoreMs: to.StoreMs})
}

// Mark is how far the index is durable. Any goroutine may call it.
func (x *Indexer) Mark() IndexMark { return *x.mark.Load() }

// Position is how far the log has been put in. Any goroutine may call it.
func (x *Indexer) Position() int64 { return x.position.Load() }

// ErrNoIndex means that there is no index to look into.
var ErrNoIndex = errors.New("store: there is no index of keys")

// Find looks messages up; newest is the newest record in the index. ErrNoIndex under Off. Any goroutine may
// call it.
func (x *Indexer) Find(q index.Query) (offsets []int64, newest index.Position, err error) {
	i := x.index.Load()
	if i == nil {
		return nil, newest, ErrNoIndex
	}
	offsets, err = i.Find(q)
	return offsets, i.Newest(), err
}

// Dispatched takes notice that more of the log is visible, or that its oldest file is gone. Any goroutine may
// call it; it does not wait.
func (x *Indexer) Dispatched() {
	if x.idle.Load() && x.idle.Swap(false) {
		select {
		case x.kick <- struct{}{}:
		default:
		}
	}
}

// Start begins the work in a goroutine.
func (x *Indexer) Start() {
	if x.cfg.Off {
		return
	}
	x.started = true
	go x.run()
}

// Stop ends the goroutine. With complete it then puts in what is missing and flushes; what is not done
// within StopWithin, or fails, is left to the next start.
func (x *Indexer) Stop(complete bool) {
	if !x.started {
		return
	}
	x.started = false
	close(x.stop)
	<-x.done
	if !complete {
		return
	}
	deadline := time.Now().Add(x.cfg.StopWithin)
	err := x.catchUp(func() bool { return time.Now().After(deadline) })
	if err == nil {
		err = x.flush()
	}
	x.report(err)
}

// Close stops the work and lets go of the files.
func (x *Indexer) Close() error {
	x.Stop(false)
	if i := x.index.Swap(nil); i != nil {
		return i.Close()
	}
	return nil
}

func (x *Indexer) run() {
	defer close(x.done)
	tick := time.NewTicker(x.cfg.FlushAfter)
	defer tick.Stop()
	for {
		err := x.catchUp(x.stopping)
		if err == nil && due(tick) {
			err = x.flush()
		}
		x.report(err)
		if err != nil {
			if !x.pause(x.cfg.Retry) {
				return
			}
			x.repair()
			continue
		}
		if !x.await(tick) || !x.pause(x.cfg.Gather) {
			return
		}
	}
}

// due reports whether the ticker has ticked since it was asked last.
func due(tick *time.Ticker) bool {
	select {
	case <-tick.C:
		return true
	default:
		return false
	}
}

func (x *Indexer) stopping() bool {
	select {
	case <-x.stop:
		return true
	default:
		return false
	}
}

// pause waits for d; false if it is time to stop.
func (x *Indexer) pause(d time.Duration) bool {
	if d <= 0 {
		return !x.stopping()
	}
	select {
	case <-x.stop:
		return false
	case <-time.After(d):
		return true
	}
}

// await waits until there is something to put in or to flush; false if it is time to stop.
func (x *Indexer) await(tick *time.Ticker) bool {
	x.idle.Store(true)
	defer x.idle.Store(false)
	if x.cfg.Visible() > x.position.Load() || x.cfg.Min() > x.min { // it came before idle was set: nobody kicks for it
		return true
	}
	select {
	case <-x.stop:
		return false
	case <-x.kick:
		return true
	case <-tick.C:
		x.report(x.flush())
		return true
	}
}

// report logs where the outcome changes.
func (x *Indexer) report(err error) {
	switch {
	case err != nil && x.failing == 0:
		x.cfg.Log.Error("store: the message index cannot be written; look-ups by key lack new messages meanwhile; retrying", "err", err)
	case err == nil && x.failing > 0:
		x.cfg.Log.Info("store: the message index can be written again")
	}
	if x.failing++; err == nil {
		x.failing = 0
	}
}

// repair opens the index anew when an error does not pass by itself: after a failed sync the disk may lack
// what was put in since the last flush. On a full disk it would be for nothing, so it is done ever more
// rarely: after 2, 4, 8 … failures in a row.
func (x *Indexer) repair() {
	if n := x.failing; n < 2 || n&(n-1) != 0 {
		return
	}
	fresh, err := index.Open(x.cfg.FS, x.cfg.Dir, x.cfg.Options)
	if err != nil {
		x.report(err)
		return
	}
	x.position.Store(x.resume(fresh))
	x.publish(fresh, x.position.Load())
	if err := x.index.Swap(fresh).Close(); err != nil {
		x.report(err)
	}
}

// flush makes durable what was put in.
func (x *Indexer) flush() error {
	at := x.position.Load()
	if at == x.Mark().Position {
		return nil
	}
	i := x.index.Load()
	if err := i.Flush(); err != nil {
		return err
	}
	x.publish(i, at)
	return nil
}

// catchUp puts in what is visible, or less once enough holds.
func (x *Indexer) catchUp(enough func() bool) error {
	if min := x.cfg.Min(); min > x.min {
		if err := x.index.Load().DropBelow(min); err != nil {
			return err
		}
		x.min = min
	}
	for {
		visible := x.cfg.Visible()
		at := max(x.position.Load(), x.cfg.Min())
		if at >= visible || enough() {
			return nil
		}
		began := time.Now()
		if err := x.putPiece(at, min(visible, x.segmentEnd(at))); err != nil {
			if at < x.cfg.Min() { // removed while it was read
				continue
			}
			return err
		}
		if x.position.Load()-x.Mark().Position >= x.cfg.FlushBytes {
			if err := x.flush(); err != nil {
				return err
			}
		}
		if x.cfg.Visible() > visible { // senders are at work, and come first
			x.pause(yield * time.Since(began))
		}
	}
}

// yield is how many times as long as it works the indexer rests while messages arrive. So it takes a fifth of
// a CPU at most, and lags where they come faster than that can put in.
const yield = 4

func (x *Indexer) segmentEnd(at int64) int64 { return (at/x.cfg.SegmentBytes + 1) * x.cfg.SegmentBytes }

// pieceBytes of the log are read at once.
const pieceBytes = 256 << 10

// putPiece puts in the records that begin at at, as far as one piece goes, the first in any case; limit is
// where its segment or what is visible ends.
func (x *Indexer) putPiece(at, limit int64) error {
	b, err := x.read(at, min(pieceBytes, limit-at))
	if err != nil {
		return err
	}
	var r record.Record
	err = record.Parse(b, &r)
	if errors.Is(err, record.ErrTorn) && r.Size > len(b) && at+int64(r.Size) <= limit {
		if b, err = x.read(at, int64(r.Size)); err != nil {
			return err
		}
		err = record.Parse(b, &r)
	}
	for ; err == nil && r.PhysOffset == at; err = record.Parse(b, &r) {
		if err := x.index.Load().Put(&r); err != nil {
			return err
		}
		at += int64(r.Size)
		b = b[r.Size:]
		x.position.Store(at)
		if len(b) == 0 {
			return nil
		}
	}
	if errors.Is(err, record.ErrTorn) && at+int64(max(r.Size, record.MinBlankBytes)) <= limit {
		return nil // it begins the next piece
	}
	return x.skip(at, limit, err)
}

func (x *Indexer) read(at, n int64) ([]byte, error) {
	if int64(cap(x.buf)) < n || cap(x.buf) > 4*pieceBytes && n <= pieceBytes {
		x.buf = make([]byte, n)
	}
	x.buf = x.buf[:n]
	return x.buf, x.cfg.ReadAt(x.buf, at)
}

// skip goes on at the end of the segment, or of what is visible: after a blank record, or where what stands
// is no record.
func (x *Indexer) skip(at, limit int64, err error) error {
	if !errors.Is(err, record.ErrBlank) {
		x.cfg.Log.Error("store: what follows in this file of the log is not put into the message index: no record stands there", "at", at, "until", limit, "err", fmt.Sprint(err))
	}
	x.position.Store(limit)
	return nil
}
