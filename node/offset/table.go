// Package offset is the table of consumer offsets: how far each group has read each queue.
//
// Offsets live in memory, where commits of known queues are one atomic store, and are written to
// consumerOffset.json in the shape of the stock broker 5.5.0 every few seconds. A crash therefore takes back
// the commits of that time, as on a stock broker, and consumers see some messages again. Start with Table;
// file.go has the bytes, flush.go when they are written, clamp.go what happens after a recovery.
package offset

import (
	"fmt"
	"log/slog"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"ringmq/netio/wire"
	"ringmq/store/vfs"
)

// Options says how a Table works; the zero value of a field means "choose for me".
type Options struct {
	Now func() time.Time
	Log *slog.Logger
}

// Table holds the offsets of all groups.
type Table struct {
	// Set by Load, constant afterwards.
	fsys vfs.FS
	path string
	opts Options

	// Loaded by anyone, stored under mu. The maps are never changed once they are published; the numbers in
	// them are.
	groups atomic.Pointer[map[string]topics]

	// changes counts commits that changed something; any goroutine.
	changes atomic.Int64

	mu sync.Mutex // makes queues known; leaf lock, map work only

	// persist orders the writers of the file and guards what follows. It is held over the write.
	persist   sync.Mutex
	version   wire.DataVersion
	persisted int64           // value of changes that the file holds
	pull      map[key]offsets // pullOffsetTable, carried over for the stock broker
}

// topics and queues are what one group has read; both are copied when they grow.
type (
	topics map[string]queues
	queues map[int32]*atomic.Int64
)

// key and offsets are the file's view.
type (
	key     struct{ topic, group string }
	offsets map[int32]int64
)

// Commit stores how far a group has read a queue: the offset of the next message it wants. It may move back.
// A negative queue or offset is refused with an error, and nothing changes. Commits of a queue that the group
// has committed before allocate nothing and take no lock. Not durable on return: see Persist.
func (t *Table) Commit(group, topic []byte, queue int32, offset int64) error {
	if queue < 0 || offset < 0 {
		return fmt.Errorf("offset: commit %d of queue %d of %s by %s: want no negative number", offset, queue, topic, group)
	}
	at := (*t.groups.Load())[string(group)][string(topic)][queue]
	if at == nil {
		at = t.know(string(group), string(topic), queue)
	}
	if at.Swap(offset) != offset {
		t.changes.Add(1)
	}
	return nil
}

// unknown is the value of a queue that was made known and has no offset yet.
const unknown = math.MinInt64

// know returns the place of a queue's offset, which it makes if need be.
func (t *Table) know(group, topic string, queue int32) *atomic.Int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := *t.groups.Load()
	if at := was[group][topic][queue]; at != nil {
		return at // another commit was faster
	}
	at := new(atomic.Int64)
	at.Store(unknown)
	byQueue := grown(was[group][topic], queue, at)
	byTopic := grown(was[group], topic, byQueue)
	byGroup := grown(was, group, byTopic)
	t.groups.Store(&byGroup)
	return at
}

// grown is a copy of m with one more entry.
func grown[M ~map[K]V, K comparable, V any](m M, k K, v V) M {
	c := make(M, len(m)+1)
	maps.Copy(c, m)
	c[k] = v
	return c
}

// Get returns the committed offset of a queue; 0 and false if there is none. It takes no lock and allocates nothing.
func (t *Table) Get(group, topic []byte, queue int32) (int64, bool) {
	at := (*t.groups.Load())[string(group)][string(topic)][queue]
	if at == nil {
		return 0, false
	}
	if offset := at.Load(); offset != unknown {
		return offset, true
	}
	return 0, false
}
