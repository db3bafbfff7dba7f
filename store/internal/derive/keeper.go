package derive

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"ringmq/store/internal/derive/checkpoint"
	"ringmq/store/internal/derive/queue"
	"ringmq/store/record"
	"ringmq/store/vfs"
)

// Position is how far the log has been put into the queues, in memory at least.
type Position struct {
	End     int64 // physical offset: every record before it is in its queue
	Last    int64 // offset of the record that ends there, -1 if there is none
	StoreMs int64 // its store time
}

// Config is what a Keeper needs.
type Config struct {
	FS     vfs.FS
	Dir    string
	Queues string // directory of the queues

	Interval time.Duration // look this often, and write at most one checkpoint in that time
	Bytes    int64         // bytes of the log between two checkpoints
	Longest  time.Duration // longest time between two checkpoints while messages arrive
	Check    record.Check  // what new records carry
	Few      int           // up to so many queues are synced one by one, more by one syncfs

	QueueFileBytes int64

	Position func() Position  // any goroutine
	Durable  func() int64     // end of the log on the disk; any goroutine
	Index    func() IndexMark // how far the index is durable; any goroutine
	Log      *slog.Logger
}

// Keeper owns the files of the queues and the checkpoint.
type Keeper struct {
	cfg  Config
	kick chan struct{}
	stop chan struct{}
	done chan struct{}

	// Any goroutine.
	failure  atomic.Pointer[error] // why entries cannot be written at present
	waiting  atomic.Int64          // bytes of entries in memory
	position atomic.Int64          // of the checkpoint on the disk
	asked    atomic.Bool           // so much was dispatched that the next one is due
	hurried  atomic.Bool           // somebody waits for the next one

	// mu guards what follows. Memory only; no lock is taken under it.
	mu      sync.Mutex
	changed []*queue.Queue // since the last checkpoint
	full    []*queue.Queue // tails to be written

	// The keeper goroutine, or while it does not run whoever owns the Keeper.
	ends     uint64                 // digest of where the queues end, see Ends
	last     checkpoint.Checkpoint  // as on the disk
	lastTime time.Time              // when it was written
	volume   vfs.Volume             // of the queues' directory
	lost     error                  // a sync failed: what the files have is not known
	ready    *checkpoint.Checkpoint // its queues are durable, the log not yet
	dirs     map[string]struct{}    // to be synced before the next checkpoint
}

// NewKeeper returns a keeper that does not run yet; found is the checkpoint on the disk.
func NewKeeper(cfg Config, found checkpoint.Checkpoint) *Keeper {
	k := &Keeper{
		cfg: cfg, last: found, lastTime: time.Now(), dirs: map[string]struct{}{},
		kick: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	k.position.Store(found.Position)
	return k
}

// Open takes hold of the file system of the queues. From then on it tells when something that was written to
// it got lost; so it comes before the first write.
func (k *Keeper) Open() (err error) {
	if err := k.cfg.FS.MkdirAll(k.cfg.Queues); err != nil {
		return err
	}
	k.volume, err = k.cfg.FS.Volume(k.cfg.Queues)
	return err
}

// Close lets go of it. The keeper must not run.
func (k *Keeper) Close() error {
	if k.volume == nil {
		return nil
	}
	return k.volume.Close()
}

// Err says why entries cannot be written, nil while they can. The keeper tries again by itself.
func (k *Keeper) Err() error {
	if err := k.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// Waiting is how many bytes of entries are in memory only.
func (k *Keeper) Waiting() int64 { return k.waiting.Load() }

// Note takes notice of an entry that was put into q. Any goroutine may call it.
func (k *Keeper) Note(q *queue.Queue, c queue.Change) {
	k.waiting.Add(int64(c.Bytes))
	if !c.First && !c.Due {
		return
	}
	k.mu.Lock()
	if c.First {
		k.changed = append(k.changed, q)
	}
	if c.Due {
		k.full = append(k.full, q)
	}
	k.mu.Unlock()
	if c.Due {
		k.wake()
	}
}

// Dispatched takes notice that the log was put into the queues up to end. Any goroutine may call it.
func (k *Keeper) Dispatched(end int64) {
	if end-k.position.Load() >= k.cfg.Bytes && !k.asked.Swap(true) {
		k.wake()
	}
}

// Hurry makes the next checkpoint due if anything came since the last. Any goroutine may call it.
func (k *Keeper) Hurry() {
	k.hurried.Store(true)
	k.wake()
}

func (k *Keeper) wake() {
	select {
	case k.kick <- struct{}{}:
	default:
	}
}

// Checkpointed is the position of the checkpoint on the disk. Any goroutine may call it.
func (k *Keeper) Checkpointed() int64 { return k.position.Load() }

// Start begins the work in a goroutine.
func (k *Keeper) Start() { go k.run() }

// Stop ends the goroutine and waits for it.
func (k *Keeper) Stop() {
	close(k.stop)
	<-k.done
}

func (k *Keeper) run() {
	defer close(k.done)
	tick := time.NewTicker(k.cfg.Interval)
	defer tick.Stop()
	for {
		select {
		case <-k.stop:
			return
		case <-k.kick:
		case <-tick.C:
		}
		err := k.WriteFull()
		if err == nil {
			err = k.checkpointIfDue()
		}
		k.report(err)
	}
}

// report publishes the outcome of the latest work, and logs where it changes.
func (k *Keeper) report(err error) {
	before := k.Err()
	switch {
	case err == nil && before != nil:
		k.failure.Store(nil)
		k.cfg.Log.Info("store: messages are taken again: queue entries can be written")
	case err != nil:
		k.failure.Store(&err)
		if before == nil {
			k.cfg.Log.Error("store: queue entries cannot be written; messages are refused meanwhile; retrying", "err", err)
		}
	}
}

// WriteFull writes the tails that are full. It belongs to the keeper goroutine, or to recovery while
// that does not run.
func (k *Keeper) WriteFull() error {
	k.mu.Lock()
	full := k.full
	k.full = nil
	k.mu.Unlock()
	return k.writeAll(full, &k.full)
}

// writeAll writes the tails of queues; those that fail go back to list.
func (k *Keeper) writeAll(queues []*queue.Queue, list *[]*queue.Queue) error {
	var errs []error
	for _, q := range queues {
		moved, err := q.Write()
		k.waiting.Add(-moved * queue.EntryBytes)
		if err != nil {
			errs = append(errs, err)
			k.mu.Lock()
			*list = append(*list, q)
			k.mu.Unlock()
		}
	}
	return errors.Join(errs...)
}

// checkpointIfDue writes a checkpoint when enough of the log came since the last, or any of it and
// the time is over.
func (k *Keeper) checkpointIfDue() error {
	if k.ready != nil {
		return k.finish()
	}
	behind, since := k.cfg.Position().End-k.last.Position, time.Since(k.lastTime)
	much := behind >= k.spacing() || k.waiting.Load() >= plentyBytes
	much = much || behind > 0 && k.hurried.Load()
	if behind > 0 && since >= k.cfg.Longest || much && since >= k.cfg.Interval {
		return k.prepare(false)
	}
	return nil
}

// plentyBytes of entries in memory make a checkpoint due, which writes them all.
const plentyBytes = 16 << 20

// Queues beyond spacedQueues stretch the spacing in proportion, up to maxStretch times: a restart reads what no
// checkpoint has.
const (
	spacedQueues = 4096
	maxStretch   = 8
)

// spacing is how much of the log lies between two checkpoints. Where tens of thousands of queues change,
// each checkpoint opens and writes that many files, so that it pays to do it more rarely.
func (k *Keeper) spacing() int64 {
	k.mu.Lock()
	changed := int64(len(k.changed))
	k.mu.Unlock()
	return k.cfg.Bytes * min(max(changed, spacedQueues), maxStretch*spacedQueues) / spacedQueues
}

// Checkpoint makes the queues durable up to the position now, and the files name it. The keeper must
// not run, and the log must be durable up to the position. clean says that nothing follows.
func (k *Keeper) Checkpoint(clean bool) error {
	k.ready = nil
	return k.prepare(clean)
}

// lose ends the checkpoints of this process: after a failed sync the kernel may have forgotten entries, and the
// next one would say that all is well. The next start puts in again what came since the last checkpoint.
func (k *Keeper) lose(err error) error {
	k.lost = fmt.Errorf("a sync failed, restart to have the queues made right: %w", err)
	return k.lost
}

// prepare makes durable what the queues hold up to the position. Only then may a checkpoint name it.
func (k *Keeper) prepare(clean bool) error {
	p := k.cfg.Position() // before the list is taken: what is put later belongs to the next one
	k.mu.Lock()
	changed := k.changed
	k.changed = nil
	k.mu.Unlock()
	err := k.syncQueues(changed)
	if err == nil {
		err = k.countEnds(changed, p.End)
	}
	if err != nil {
		k.mu.Lock()
		k.changed = append(k.changed, changed...)
		k.mu.Unlock()
		return err
	}
	c := k.last
	c.Position, c.Last, c.Durable, c.StoreMs = p.End, p.Last, p.End, p.StoreMs
	c.Clean, c.Check, c.QueueFileBytes = clean, k.cfg.Check, k.cfg.QueueFileBytes
	c.QueueEnds = k.ends
	index := k.cfg.Index()
	c.IndexPosition, c.IndexEnd, c.Stock.IndexMs = index.Position, index.End, index.StoreMs
	if p.Last >= 0 {
		c.Stock.PhysicMs, c.Stock.LogicsMs, c.Stock.LogicsPhys = p.StoreMs, p.StoreMs, p.Last
	}
	k.ready = &c
	return k.finish()
}

func (k *Keeper) syncQueues(changed []*queue.Queue) error {
	if k.lost != nil {
		return k.lost
	}
	for _, q := range changed {
		q.Unlist()
		moved, err := q.Write()
		k.waiting.Add(-moved * queue.EntryBytes)
		if err != nil {
			return err
		}
	}
	if len(changed) > k.cfg.Few {
		if err := k.volume.Sync(); err != nil {
			return k.lose(err)
		}
		for _, q := range changed {
			q.Synced()
		}
		clear(k.dirs)
		return nil
	}
	for _, q := range changed {
		if err := q.Sync(k.dirs); err != nil {
			return k.lose(err)
		}
	}
	for dir := range k.dirs {
		if err := k.cfg.FS.SyncDir(dir); err != nil {
			return k.lose(err)
		}
		delete(k.dirs, dir)
	}
	return nil
}

// finish writes the checkpoint that is ready, once the log is durable up to it. Without that a power
// cut could leave a checkpoint beyond the log's end.
func (k *Keeper) finish() error {
	if k.ready.Position > k.cfg.Durable() {
		return nil
	}
	if err := checkpoint.Write(k.cfg.FS, k.cfg.Dir, *k.ready, k.last.Stock); err != nil {
		return err
	}
	k.last, k.ready, k.lastTime = *k.ready, nil, time.Now()
	k.position.Store(k.last.Position)
	k.asked.Store(false)
	k.hurried.Store(false)
	return nil
}
