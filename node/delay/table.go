package delay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"sync"
	"time"

	"ringmq/netio/wire"
	"ringmq/store/sidefile"
	"ringmq/store/vfs"
)

// Table is how far each level has been delivered: delayOffset.json in the shape of the stock broker 5.5.0. An
// offset gets into it only when everything before it is delivered and durable, so that a crash may repeat a
// delivery and never forgets one. Any goroutine may use it.
type Table struct {
	// Set by Load, constant afterwards.
	fsys vfs.FS
	path string
	now  func() time.Time
	log  *slog.Logger

	// mu guards what follows. Leaf lock: memory only.
	mu      sync.Mutex
	done    map[int]int64 // by level: the queue offset that is delivered next
	sent    []sent        // what is not known to be durable yet, in the order of the log
	changed bool          // done differs from the file

	// persist orders the writers of the file and guards what follows. It is held over the write.
	persist sync.Mutex
	version wire.DataVersion
}

// sent says that a level is delivered up to next when the log is durable up to end.
type sent struct {
	level     int
	next, end int64
}

// file is delayOffset.json. A stock broker leaves the levels without quotes, which is no JSON, and reads both
// forms; quotes are written here.
type file struct {
	DataVersion wire.DataVersion `json:"dataVersion"`
	Offsets     map[int]int64    `json:"offsetTable"` // by level, from 1 on
}

// Load reads the table from the file at path, or from its backup; neither there is an empty table.
func Load(fsys vfs.FS, path string, now func() time.Time, log *slog.Logger) (*Table, error) {
	t := &Table{fsys: fsys, path: path, now: now, log: log}
	var f file
	_, backup, err := sidefile.Read(fsys, path, func(b []byte) error {
		f = file{}
		return wire.Unmarshal(b, &f)
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("delay: %w", sidefile.Remedy(err, ": all delayed messages that the log still has are then delivered again"))
	}
	if backup {
		log.Warn("delayed messages: the file of offsets is missing or damaged, read its backup", "path", path)
	}
	t.version, t.done = f.DataVersion, f.Offsets
	if t.done == nil {
		t.done = map[int]int64{}
	}
	return t, nil
}

// get returns the offset of a level, 0 if none is known.
func (t *Table) get(level int) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done[level]
}

// set replaces the offset of a level.
func (t *Table) set(level int, next int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.setLocked(level, next)
}

func (t *Table) setLocked(level int, next int64) {
	if was, known := t.done[level]; !known || was != next {
		t.done[level] = next
		t.changed = true
	}
}

// deliver notes that a level is delivered up to next by records that end at the physical offset end.
func (t *Table) deliver(level int, next, end int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent = append(t.sent, sent{level, next, end})
}

// settle takes over what is durable by now.
func (t *Table) settle(durable int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for ; n < len(t.sent) && t.sent[n].end <= durable; n++ {
		t.setLocked(t.sent[n].level, t.sent[n].next)
	}
	t.sent = t.sent[:copy(t.sent, t.sent[n:])]
}

// Persist writes the table to its file if it has changed since the last time; durable on return. durable is the
// store's mark of that name: it tells which deliveries count.
func (t *Table) Persist(durable int64) error {
	t.persist.Lock()
	defer t.persist.Unlock()
	t.settle(durable)
	offsets, changed := t.take()
	if !changed {
		return nil
	}
	version := t.version
	version.Counter++
	version.Timestamp = t.now().UnixMilli()
	if err := sidefile.WriteJSON(t.fsys, t.path, file{version, offsets}); err != nil {
		t.giveBack()
		return fmt.Errorf("delay: persist %s: %w", t.path, err)
	}
	t.version = version
	return nil
}

// File returns what delayOffset.json would hold now: what is delivered and durable, by level. Any goroutine may call it.
func (t *Table) File() any {
	t.persist.Lock()
	version := t.version
	t.persist.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	return file{version, maps.Clone(t.done)}
}

// take returns a copy of the offsets that will be in the file.
func (t *Table) take() (offsets map[int]int64, changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	changed, t.changed = t.changed, false
	return maps.Clone(t.done), changed
}

// giveBack notes that what take returned did not get into the file.
func (t *Table) giveBack() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed = true
}

// Run persists the table at each tick until ctx ends.
func (t *Table) Run(ctx context.Context, tick <-chan time.Time, durable func() int64) {
	sidefile.Keep(ctx, tick, t.log, "the offsets of delayed messages", func() error { return t.Persist(durable()) })
}
