package store

import (
	"errors"
	"fmt"
	"math"
	"path"
	"strings"
	"syscall"
	"time"

	"ringmq/store/internal/cold"
	"ringmq/store/internal/derive"
	"ringmq/store/internal/derive/checkpoint"
	"ringmq/store/internal/derive/queue"
	"ringmq/store/internal/log"
	"ringmq/store/internal/mark"
	"ringmq/store/record"
	"ringmq/store/vfs"
)

// Recovered is what Open found and did.
type Recovered struct {
	From     int64  // the log was verified and dispatched again from here
	End      int64  // where it ends
	Records  int64  // verified
	Rebuilt  bool   // queues were found wrong and all built from the log's first file
	CutBytes int64  // behind the end, 0 if there was nothing
	CutValid int    // records in that which still verified
	CutFile  string // the copy of it
	Damage   []Hole // in order; not empty means that appends are refused (StopOnDamage)

	IndexFrom int64 // the log is put into the index from here on
}

// keptOpenFiles is how many queue files stay open while nobody reads or writes them: an eighth of what the
// process may have at most, because connections need theirs.
func keptOpenFiles() int {
	const most = 1024
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur >= 8*most {
		return most
	}
	return int(limit.Cur / 8)
}

// Open takes the directory's lock, recovers what is there, and starts the writer. What it cut, rebuilt
// or removed is logged; an error names path, reason and remedy.
func Open(fsys vfs.FS, o Options) (*Store, error) {
	o.Fill()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &Store{fs: fsys, o: o, queues: map[queueKey]*Queue{}}
	if err := s.lockDir(); err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.abandon())
	}
	return s, nil
}

// abandon lets go of what a failed open holds.
func (s *Store) abandon() error {
	var errs []error
	if s.index != nil {
		errs = append(errs, s.index.Close())
	}
	if s.cold != nil {
		errs = append(errs, s.cold.Close())
	}
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	if s.keeper != nil {
		errs = append(errs, s.keeper.Close())
	}
	if s.files != nil {
		errs = append(errs, s.files.Close())
	}
	if s.mark != nil {
		errs = append(errs, s.mark.Close())
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

func (s *Store) queueRoot() string { return path.Join(s.o.Dir, "consumequeue") }

func (s *Store) logConfig() log.Config {
	return log.Config{
		FS: s.fs, Dirs: s.o.CommitLogDirs, ReadOnly: s.o.ReadOnlyLogDirs, Full: s.full, SegmentBytes: s.o.SegmentBytes, StagingBytes: s.o.StagingBytes,
		FlushSync: s.o.FlushSync, FlushDepth: s.o.FlushDepth, FlushInterval: s.o.FlushInterval,
		FlushLeastPages: s.o.FlushLeastPages, FlushThorough: s.o.FlushThorough,
		PrepareRetry: time.Second, Recycle: s.o.Check != record.CheckOff, Log: s.o.Log,
		Advanced: s.advanced, Failed: s.failed,
	}
}

func (s *Store) failed(err error) {
	s.o.Log.Error("store: the log has failed: nothing is stored until a restart; reads go on", "dir", s.o.logPlace(), "err", err)
	if s.o.OnFail != nil {
		s.o.OnFail(err)
	}
}

// open recovers and starts. Nothing is changed before every reason to refuse the directory has been
// looked at and the mark of an unclean stop is durable.
func (s *Store) open() error {
	if err := s.refuseForeignForms(); err != nil {
		return err
	}
	point, trusted, err := checkpoint.Read(s.fs, s.o.Dir)
	if err != nil {
		return err
	}
	aborted, oursAborted, err := s.readAbort()
	if err != nil {
		return err
	}
	if s.batch, err = s.batchTopics(aborted && !oursAborted); err != nil {
		return err
	}
	if s.log, err = log.Open(s.logConfig()); err != nil {
		return err
	}
	s.o.SegmentBytes = s.log.SegmentBytes()
	s.cold = cold.New(s.coldOptions())
	if err := s.o.Retention.fits(s.o.SegmentBytes); err != nil {
		return err
	}
	found, err := queue.List(s.fs, s.queueRoot())
	if err != nil {
		return err
	}
	if err := s.adoptQueueSize(found, point.QueueFileBytes); err != nil {
		return err
	}
	if len(found) > 0 && s.log.End() == 0 {
		return fmt.Errorf("store: %s has no files but %s has queues: restore the log, or move the queues away to begin anew", s.o.logPlace(), s.queueRoot())
	}
	if err := s.holdAbort(); err != nil {
		return err
	}
	r := recovery{
		s: s, point: point, aborted: aborted, stockAborted: aborted && !oursAborted,
		trusted: trusted && (!aborted || oursAborted),
	}
	if err := r.run(); err != nil {
		return err
	}
	if aborted && !oursAborted && !s.held {
		return s.writeAbort()
	}
	return nil
}

// recovery is the work between opening the files and taking messages. One goroutine.
type recovery struct {
	s       *Store
	point   checkpoint.Checkpoint
	trusted bool // point is ours, and no stock broker has worked here since
	aborted bool // the store was not closed

	stockAborted bool // and it was a stock broker that did not
	fits         bool // the log still has what a trusted point was taken of

	durable  int64        // the log was on the disk up to here at least; what the mark says while trusted
	clean    bool         // the store was closed by us, and nobody touched it since
	must     record.Check // records from mustFrom on were written with it
	mustFrom int64

	start   int64 // the log is verified from here on
	last    int64 // offset of the newest record, -1 if there is none
	lastMs  int64 // its store time
	records int64
	odd     int64 // records that can be in no queue
	holed   bool  // the walk is behind damage: messages may be missing
	late    bool  // the disk is full, and something is written later
	told    int64 // Progress was told of the walk up to here
}

func (r *recovery) run() error {
	s := r.s
	var err error
	if s.mark, err = mark.Open(s.fs, s.o.Dir); err != nil {
		return s.explain(err)
	}
	r.choose()
	if err := s.log.Sync(r.start); err != nil { // before anything of it is believed
		return s.explain(err)
	}
	end, err := r.rebuild()
	if errors.Is(err, queue.ErrGap) && r.start > s.log.Min() {
		s.o.Log.Error("store: queues do not match the log: all are built anew from its first file", "err", err)
		s.found.Rebuilt, r.clean = true, false
		r.start, r.last, r.lastMs, r.records = s.log.Min(), -1, 0, 0
		if err := r.restart(); err != nil {
			return err
		}
		if err := s.log.Sync(r.start); err != nil {
			return s.explain(err)
		}
		end, err = r.rebuild()
	}
	if err != nil {
		return err
	}
	s.found.From, s.found.End, s.found.Records = r.start, end, r.records
	tail, err := r.tail(end)
	if err != nil {
		return s.explain(err)
	}
	damaged := mark.Damaged(tail.Whole, r.trusted, r.durable, int64(tail.Valid))
	if damaged && s.o.OnDamage == StopOnDamage {
		return r.stop(tail)
	}
	if err := r.cut(tail, damaged); vfs.IsNoSpace(err) && tail.Bytes > 0 {
		return r.holdUncut(tail, err)
	} else if err != nil {
		return s.explain(err)
	}
	if err := r.openIndex(end); err != nil {
		return s.explain(err)
	}
	return r.begin(end)
}

// restart makes the checkpoint name the log's first file, before any queue is touched: should this
// recovery be interrupted, no later one believes what it left half done.
func (r *recovery) restart() error {
	if !r.trusted {
		return nil // the queues were not believed in the first place
	}
	c := r.point
	c.Position, c.Last, c.StoreMs, c.Durable = r.start, -1, 0, r.durable
	c.Clean, c.Check, c.QueueEnds = false, record.CheckOff, 0
	if err := checkpoint.Write(r.s.fs, r.s.o.Dir, c, c.Stock); err != nil {
		return r.s.explain(err)
	}
	return nil
}

// choose sets where to start: at our checkpoint, else where the stock broker would.
func (r *recovery) choose() {
	l := r.s.log
	r.last, r.lastMs = -1, 0
	r.must = record.CheckOff
	if r.trusted {
		r.durable = max(r.point.Durable, r.s.mark.Durable())
	}
	if r.fits = r.trusted && r.pointFits(); r.fits {
		r.start, r.last, r.lastMs = r.point.Position, r.point.Last, r.point.StoreMs
		r.must, r.mustFrom = r.point.Check, r.point.Position
		r.clean = !r.aborted && r.point.Clean
		return
	}
	if l.End() > 0 {
		r.s.o.Log.Info("store: our checkpoint cannot be used: going by the stock broker's", "ours_is_newest", r.trusted, "position", r.point.Position, "stock", r.point.Stock)
	}
	r.start = l.Min()
	var rec record.Record
	for base := l.End() - l.SegmentBytes(); base > l.Min(); base -= l.SegmentBytes() {
		if l.RecordAt(base, &rec) == nil && r.stockStartsAt(&rec) {
			r.start = base
			return
		}
	}
}

// pointFits reports whether the log still has what the checkpoint was taken of.
func (r *recovery) pointFits() bool {
	l, p := r.s.log, r.point
	if p.Last < 0 {
		return p.Position == l.Min()
	}
	return l.Follows(p.Last, p.Position)
}

// stockStartsAt is the stock broker's rule (5.5.0) for the first record of a file. After a clean stop
// every record is in its queue, so that the newest file will do; missing entries are noticed there.
func (r *recovery) stockStartsAt(rec *record.Record) bool {
	stock := r.point.Stock
	switch {
	case rec.StoreMs == 0:
		return false
	case !r.aborted:
		return true
	case stock.LogicsPhys > 0:
		return rec.PhysOffset <= stock.LogicsPhys
	}
	return rec.StoreMs <= stock.LogicsMs
}

// rebuild opens the queues with the entries below start and walks the log from there, putting every
// record into its queue. It returns where the log ends.
func (r *recovery) rebuild() (end int64, err error) {
	s := r.s
	if s.files != nil {
		if err := s.files.Close(); err != nil {
			return 0, err
		}
	}
	if s.keeper != nil {
		if err := s.keeper.Close(); err != nil {
			return 0, err
		}
	}
	s.files = queue.NewFiles(s.fs, s.o.QueueFileBytes, keptOpenFiles())
	s.queues = map[queueKey]*Queue{}
	s.keeper = derive.NewKeeper(derive.Config{
		FS: s.fs, Dir: s.o.Dir, Queues: s.queueRoot(), Few: s.o.fewQueues, Interval: s.o.QueueFlushInterval, Bytes: s.o.checkpointBytes,
		Longest: 60 * s.o.QueueFlushInterval, Check: s.o.Check, QueueFileBytes: s.o.QueueFileBytes,
		Position: s.dispatched, Durable: s.log.Durable, Index: func() derive.IndexMark { return s.index.Mark() }, Log: s.o.Log,
	}, r.point)
	if err := s.keeper.Open(); err != nil {
		return 0, s.explain(err)
	}
	if err := r.attachQueues(); err != nil {
		return 0, err
	}
	return s.log.Walk(r.start, r.must, r.mustFrom, r.visit)
}

func (r *recovery) attachQueues() error {
	s := r.s
	found, err := queue.List(s.fs, s.queueRoot())
	if err != nil {
		return err
	}
	for _, f := range found {
		f.Judge(s.o.QueueFileBytes, r.point.QueueFileBytes != 0)
		if s.log.Min() == 0 && r.start > 0 && f.Bases[0] > 0 { // nothing was ever removed
			return fmt.Errorf("%w: %s/%d: its first file is missing", queue.ErrGap, f.Topic, f.ID)
		}
		entries, err := queue.Attach(s.files, s.queueRoot(), f, r.start, !r.clean)
		if errors.Is(err, queue.ErrGap) && r.start == s.log.Min() {
			s.o.Log.Error("store: a queue's files are wrong: they are made anew", "err", err)
			if err := f.Remove(s.fs, s.queueRoot()); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if err := s.keeper.Attached(entries); err != nil {
			return err
		}
		if entries.Trimmed() {
			s.keeper.Note(entries, queue.Change{First: true})
		}
		if err := r.checkLastEntry(entries); err != nil {
			return err
		}
		s.queues[queueKey{f.Topic, f.ID}] = &Queue{entries: entries, trusted: entries.Max()}
	}
	return r.checkEnds()
}

// checkEnds looks whether the queues are those that the checkpoint was taken of.
func (r *recovery) checkEnds() error {
	switch {
	case !r.fits || r.start != r.point.Position || r.s.keeper.Ends() == r.point.QueueEnds:
		return nil
	case r.start == r.s.log.Min():
		r.s.o.Log.Error("store: a queue is missing, or has lost its end, and the log has none of its messages any more")
		return nil
	}
	return fmt.Errorf("%w: a queue is missing, or has lost its end", queue.ErrGap)
}

// checkLastEntry looks whether the last entry below start points to a record. One that does not tells
// of a damaged or foreign file: ErrGap.
func (r *recovery) checkLastEntry(q *queue.Queue) error {
	e, ok, err := q.Entry(q.Max() - 1)
	if err != nil || !ok || e.Filler() || e.Offset < r.s.log.Min() {
		return err
	}
	var rec record.Record
	if err := r.s.log.RecordAt(e.Offset, &rec); err != nil || rec.Size != int(e.Size) {
		return fmt.Errorf("%w: %s/%d: entry %d points to %d, where no such record is", queue.ErrGap, q.Topic(), q.ID(), q.Max()-1, e.Offset)
	}
	return nil
}

// maxQueueOffset is beyond any real queue; its entries would have byte offsets without a file name.
const maxQueueOffset = math.MaxInt64 / queue.EntryBytes / 2

// visit puts one record into its queue.
func (r *recovery) visit(at int64, rec *record.Record) error {
	r.records++
	r.tell(at)
	r.last, r.lastMs = at, max(r.lastMs, rec.StoreMs)
	if !record.InQueue(rec.SysFlag) {
		return nil
	}
	if !pathSafe(rec.Topic) || rec.QueueID < 0 || rec.QueueOffset < 0 || rec.QueueOffset > maxQueueOffset {
		r.odd++
		return nil
	}
	if r.s.batch[string(rec.Topic)] {
		return nil
	}
	q := r.s.queueOf(rec.Topic, rec.QueueID).entries
	if q.Max() == 0 && rec.QueueOffset > 0 && r.start > r.s.log.Min() && !r.holed {
		return fmt.Errorf("%w: %s/%d: none, and the log has a message with offset %d", queue.ErrGap, rec.Topic, rec.QueueID, rec.QueueOffset)
	}
	e := queue.Entry{Offset: at, Size: int32(rec.Size), Tags: r.s.tags(string(rec.Topic), rec.Props, rec.StoreMs)}
	if err := r.putLight(rec, e); err != nil {
		return err
	}
	change, err := q.Put(rec.QueueOffset, q.Kept(rec.QueueOffset, e))
	if errors.Is(err, queue.ErrGap) && (r.holed || r.start == r.s.log.Min()) {
		r.s.o.Log.Error("store: the log has no message for some offsets of a queue", "err", err)
		change, err = q.PutBeyond(rec.QueueOffset, e)
	}
	if err != nil {
		return err
	}
	r.s.keeper.Note(q, change)
	if change.Due {
		return r.orLater(r.s.keeper.WriteFull())
	}
	return nil
}

// putLight puts a record's entry into the light queues that it is in as well. Their offsets stand in
// properties that clients can set: only those that go on where the queue ends are believed, and in a new
// queue the first, or any where older messages may be gone from the log.
func (r *recovery) putLight(rec *record.Record, e queue.Entry) error {
	for name, at := range derive.LightQueues(string(rec.Topic), rec.Props) {
		if !pathSafe([]byte(name)) || at > maxQueueOffset {
			continue
		}
		q := r.s.OpenQueue(name, 0).entries
		if at != q.Max() && (q.Max() > 0 || r.s.log.Min() == 0) {
			continue
		}
		change, err := q.Put(at, e)
		if err != nil {
			return err
		}
		r.s.keeper.Note(q, change)
		if change.Due {
			if err := r.orLater(r.s.keeper.WriteFull()); err != nil {
				return err
			}
		}
	}
	return nil
}

// progressBytes of the log are read between two calls of Options.Progress.
const progressBytes = 16 << 20

// tell reports that the walk has come to at. It may end anywhere in the last file.
func (r *recovery) tell(at int64) {
	if r.s.o.Progress == nil || at-r.told < progressBytes && at >= r.told {
		return
	}
	r.told = at
	r.s.o.Progress(at-r.start, r.s.log.End()-r.start)
}

// queueOf is OpenQueue for a name as it stands in a record.
func (s *Store) queueOf(topic []byte, id int32) *Queue {
	if q := s.queues[queueKey{string(topic), id}]; q != nil {
		return q
	}
	return s.OpenQueue(string(topic), id)
}

// pathSafe reports whether a topic can be a directory's name. Admission lets no other in; a log that
// came from elsewhere may hold one.
func pathSafe(topic []byte) bool {
	name := string(topic)
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
}

// tail looks at what follows the end of the log.
func (r *recovery) tail(end int64) (log.Tail, error) {
	if r.clean && end == r.start { // then zeros follow; but a file that was removed may have come back
		return log.Tail{End: end, Whole: end}, nil
	}
	return r.s.log.Inspect(end, r.must)
}

// cut removes what follows the end of the log, after a copy of it was made.
func (r *recovery) cut(tail log.Tail, damaged bool) error {
	s := r.s
	file, err := s.log.Cut(tail, path.Join(s.o.Dir, "cut"))
	if err != nil {
		return err
	}
	s.found.CutBytes, s.found.CutValid, s.found.CutFile = tail.Bytes, tail.Valid, file
	switch {
	case damaged:
		s.o.Log.Error("store: DAMAGE: the log was cut where bytes that were on the disk are no record any more; the copy has what followed", "at", tail.End, "durable", r.durable, "bytes", tail.Bytes, "whole", tail.Valid, "copy", file)
	case tail.Bytes > 0:
		s.o.Log.Warn("store: a torn end of the log was cut", "at", tail.End, "bytes", tail.Bytes, "whole", tail.Valid, "copy", file)
	}
	return nil
}

// resetMark makes the mark fit a log that recovery has changed, or that somebody else has written.
func (r *recovery) resetMark(end int64) error {
	if m := r.s.mark; r.trusted && m.Durable() <= end && !m.Made() {
		return nil
	}
	return r.s.mark.Set(end)
}

// show lets readers see the queues, and the log up to end.
func (r *recovery) show(end int64) error {
	s := r.s
	first := s.log.Min()
	for _, q := range s.queues {
		if err := q.entries.FixMin(first); err != nil {
			return err
		}
		q.entries.Settle()
		q.next = q.entries.Max()
	}
	if r.odd > 0 {
		s.o.Log.Error("store: records that can be in no queue were left out", "count", r.odd)
	}
	s.lastMs = r.lastMs
	s.readable.Store(end)
	s.visible.Store(end)
	return nil
}

// markEvery is how much newer than the durable mark what is durable may get.
const markEvery = time.Second

// begin starts the writer and the keeper at the end of the log.
func (r *recovery) begin(end int64) error {
	s := r.s
	if err := r.show(end); err != nil {
		return err
	}
	s.position.Position = derive.Position{End: end, Last: r.last, StoreMs: r.lastMs}
	if err := r.resetMark(end); err != nil {
		return s.explain(err)
	}
	if err := s.log.Start(end); err != nil {
		return s.explain(err)
	}
	if !r.clean || r.start != end || r.point.Check != s.o.Check || s.mark.Made() {
		err := r.orLater(s.keeper.Checkpoint(false))
		if err != nil {
			return errors.Join(s.explain(err), s.log.Drain())
		}
	}
	s.keeper.Start()
	s.index.Start()
	s.mark.Keep(min(markEvery, s.o.QueueFlushInterval), s.log.Durable, s.o.Log)
	s.o.Log.Info("store: open", "dir", s.o.Dir, "end", end, "verified_from", r.start, "records", r.records, "queues", len(s.queues), "closed_before", !r.aborted)
	return nil
}

// orLater drops an error of a full disk where the keeper may write later what there is no room for now:
// entries wait in memory, and the next start finds the log and the checkpoint that this one found.
func (r *recovery) orLater(err error) error {
	if !vfs.IsNoSpace(err) || !r.fits || r.s.found.Rebuilt {
		return err
	}
	if !r.late {
		r.late = true
		r.s.o.Log.Warn("store: the disk is full: queue entries and the checkpoint are written once there is room", "err", err)
	}
	return nil
}

// openIndex makes the index one of the log that ends at end, durably. What it lacks is put in later, in the
// background.
func (r *recovery) openIndex(end int64) (err error) {
	s := r.s
	var before *derive.IndexMark
	if r.fits {
		before = &derive.IndexMark{Position: r.point.IndexPosition, End: r.point.IndexEnd}
	}
	dropAfterMs := int64(math.MaxInt64)
	if r.stockAborted {
		dropAfterMs = r.point.Stock.IndexMs
	}
	s.index, err = derive.OpenIndexer(derive.IndexConfig{
		FS: s.fs, Dir: s.indexDir(), Options: s.o.index(), Off: s.o.NoIndex,
		Gather: s.o.indexGather, FlushBytes: s.o.indexFlushBytes, FlushAfter: 3 * time.Minute,
		Retry: time.Second, StopWithin: 5 * time.Second,
		Visible: s.visible.Load, Min: s.log.Min, ReadAt: s.ReadAt, SegmentBytes: s.o.SegmentBytes, Log: s.o.Log,
	}, end, before, dropAfterMs, s.isRecord)
	if err == nil {
		s.found.IndexFrom = s.index.Position()
	}
	return err
}

func (s *Store) indexDir() string { return path.Join(s.o.Dir, "index") }

// isRecord tells whether a whole record stands at an offset. Before the log is started only.
func (s *Store) isRecord(at int64) bool {
	var rec record.Record
	return s.log.RecordAt(at, &rec) == nil
}
