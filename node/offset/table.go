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
	"slices"
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

	commits numbers // any goroutine
	pulls   numbers // up to where each group has been given messages; any goroutine

	// changes counts commits that changed something; any goroutine.
	changes atomic.Int64

	// persist orders the writers of the file and guards what follows. It is held over the write.
	persist   sync.Mutex
	version   wire.DataVersion
	persisted int64 // value of changes that the file holds
}

// numbers is a number for each queue that each group has read. Any goroutine may use it.
type numbers struct {
	// Loaded by anyone, stored under mu. The maps are never changed once they are published; the numbers in
	// them are.
	groups atomic.Pointer[map[string]topics]

	mu sync.Mutex // makes queues known; leaf lock, map work only
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
	if t.commits.place(group, topic, queue).Swap(offset) != offset {
		t.changes.Add(1)
	}
	return nil
}

// Get returns the committed offset of a queue; 0 and false if there is none. It takes no lock and allocates nothing.
func (t *Table) Get(group, topic []byte, queue int32) (int64, bool) {
	return t.commits.get(group, topic, queue)
}

// Pulled notes up to where a group has been given the messages of a queue: the offset after the last one. That is for
// people who look at the group: it is stored with the next commits, and is no reason to store them. The queue
// must exist. Pulls of a queue that the group has pulled before allocate nothing and take no lock.
func (t *Table) Pulled(group, topic []byte, queue int32, next int64) {
	t.pulls.place(group, topic, queue).Store(next)
}

// PullOffset returns what Pulled has noted, 0 if nothing.
func (t *Table) PullOffset(group, topic []byte, queue int32) int64 {
	next, _ := t.pulls.get(group, topic, queue)
	return next
}

// Topics returns the topics that a group has committed offsets of, sorted.
func (t *Table) Topics(group string) []string {
	return slices.Sorted(maps.Keys((*t.commits.groups.Load())[group]))
}

// Each calls f for every committed offset. Commits go on meanwhile.
func (t *Table) Each(f func(group, topic string, queue int32, offset int64)) {
	for group, byTopic := range *t.commits.groups.Load() {
		for topic, byQueue := range byTopic {
			for queue, at := range byQueue {
				if offset := at.Load(); offset != unknown {
					f(group, topic, queue, offset)
				}
			}
		}
	}
}

// unknown is the value of a queue that was made known and has no number yet.
const unknown = math.MinInt64

// place returns where the number of a queue is, and makes it known if need be.
func (n *numbers) place(group, topic []byte, queue int32) *atomic.Int64 {
	if at := (*n.groups.Load())[string(group)][string(topic)][queue]; at != nil {
		return at
	}
	return n.know(string(group), string(topic), queue)
}

func (n *numbers) know(group, topic string, queue int32) *atomic.Int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	was := *n.groups.Load()
	if at := was[group][topic][queue]; at != nil {
		return at // another one was faster
	}
	at := new(atomic.Int64)
	at.Store(unknown)
	byQueue := grown(was[group][topic], queue, at)
	byTopic := grown(was[group], topic, byQueue)
	byGroup := grown(was, group, byTopic)
	n.groups.Store(&byGroup)
	return at
}

// grown is a copy of m with one more entry.
func grown[M ~map[K]V, K comparable, V any](m M, k K, v V) M {
	c := make(M, len(m)+1)
	maps.Copy(c, m)
	c[k] = v
	return c
}

func (n *numbers) get(group, topic []byte, queue int32) (int64, bool) {
	at := (*n.groups.Load())[string(group)][string(topic)][queue]
	if at == nil {
		return 0, false
	}
	if number := at.Load(); number != unknown {
		return number, true
	}
	return 0, false
}

// table is what is known now, as the file has it.
func (n *numbers) table() map[string]offsets {
	table := map[string]offsets{}
	for group, byTopic := range *n.groups.Load() {
		for topic, byQueue := range byTopic {
			offs := make(offsets, len(byQueue))
			for queue, at := range byQueue {
				if number := at.Load(); number != unknown {
					offs[queue] = number
				}
			}
			table[key{topic, group}.String()] = offs
		}
	}
	return table
}
