package inspect

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"ringmq/store/internal/derive/queue"
	"ringmq/store/internal/filename"
)

// batchEntryBytes is the size of an entry of a BatchConsumeQueue.
const batchEntryBytes = 46

// maxQueueFileBytes bounds the memory that looking at a file takes: a bit for each entry.
const maxQueueFileBytes = 1 << 30

type queueKey struct {
	topic string
	id    int32
}

// queueFile is one file of a queue.
type queueFile struct {
	// Constant.
	name string // path
	base int64  // byte offset of its start in the queue
	size int64

	// seen has a bit for each entry that leads to the message that asks for it, or that was found to
	// be wrong already. Set atomically while the log is walked.
	seen []uint64
}

func (f *queueFile) mark(entry int64) { atomic.OrUint64(&f.seen[entry/64], 1<<(entry%64)) }

func (f *queueFile) marked(entry int64) bool { return f.seen[entry/64]&(1<<(entry%64)) != 0 }

// queueDir is one queue: its files, and what the log says about it.
type queueDir struct {
	// Constant.
	key   queueKey
	dir   string
	batch bool        // a BatchConsumeQueue
	files []queueFile // in the order of their bases

	good     atomic.Int64 // entries that lead to their message
	pending  atomic.Int64 // entries that a running node will write
	messages atomic.Int64 // of a batch queue: its records in the log

	// mu guards what follows. Leaf.
	mu      sync.Mutex
	missing map[string]*fault // by the file that should hold the entries, or the directory
	wrong   map[string]*fault // entries that point to their message but tell other things of it
}

// fault counts findings of one kind and keeps the first one.
type fault struct {
	count int64
	at    int64
	text  string
}

// fileOf returns the file that holds a byte of the queue, nil if none does.
func (q *queueDir) fileOf(pos int64) *queueFile {
	i, found := slices.BinarySearchFunc(q.files, pos, func(f queueFile, pos int64) int { return cmp.Compare(f.base, pos) })
	if !found {
		i--
	}
	if i < 0 || pos >= q.files[i].base+q.files[i].size {
		return nil
	}
	return &q.files[i]
}

// add notes a finding about the entry with offset at. Any goroutine.
func (q *queueDir) add(faults *map[string]*fault, file string, at int64, text string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if *faults == nil {
		*faults = map[string]*fault{}
	}
	f := (*faults)[file]
	if f == nil {
		f = &fault{at: at, text: text}
		(*faults)[file] = f
	}
	f.count++
	if at < f.at { // files of the log are walked in any order
		f.at, f.text = at, text
	}
}

// queues are the queues of a directory.
type queues struct {
	d *Dir

	// Constant.
	batchTopics map[string]bool // they have their entries in a BatchConsumeQueue
	held        bool            // a node is at work: it may be ahead of what was read
	pendingFrom int64           // and may still have the entries of records from here on in memory

	// mu guards all; the queues guard themselves.
	mu  sync.RWMutex
	all map[queueKey]*queueDir

	odd []Verdict // of what is no queue, and of files with a wrong length
}

// listQueues finds the queues of both forms.
func (d *Dir) listQueues(batchTopics map[string]bool) *queues {
	qs := &queues{d: d, batchTopics: batchTopics, pendingFrom: math.MaxInt64, all: map[queueKey]*queueDir{}}
	qs.list("batchconsumequeue", true)
	qs.list("consumequeue", false)
	return qs
}

func (qs *queues) list(kind string, batch bool) {
	root := path.Join(qs.d.o.Dir, kind)
	if _, err := qs.d.fs.Stat(path.Join(root, "CURRENT")); err == nil {
		qs.odd = append(qs.odd, verdict(kind, Damaged, NotLooked, "it is of RocksDB (storeType=defaultRocksDB): with the stock broker stopped, move it away and run: ringmq store rebuild %s", qs.d.o.Dir))
		return
	}
	for _, topic := range qs.dirs(root) {
		if batch {
			qs.batchTopics[topic] = true
		}
		for _, name := range qs.dirs(path.Join(root, topic)) {
			id, err := strconv.ParseInt(name, 10, 32)
			if err != nil || id < 0 {
				continue // as the stock broker does
			}
			q := &queueDir{key: queueKey{topic, int32(id)}, dir: path.Join(root, topic, name), batch: batch}
			qs.listFiles(q)
			qs.all[q.key] = q
		}
	}
}

// dirs lists the directories in dir; what cannot be listed gets a verdict.
func (qs *queues) dirs(dir string) (names []string) {
	all, err := qs.d.names(dir)
	if err != nil {
		qs.odd = append(qs.odd, verdict(qs.d.rel(dir), Damaged, Unreadable, "%v", err))
	}
	for _, name := range all {
		if info, err := qs.d.fs.Stat(path.Join(dir, name)); err == nil && info.Dir {
			names = append(names, name)
		}
	}
	return names
}

// listFiles finds the files of a queue.
func (qs *queues) listFiles(q *queueDir) {
	names, err := qs.d.names(q.dir)
	if err != nil {
		qs.odd = append(qs.odd, verdict(qs.d.rel(q.dir), Damaged, Unreadable, "%v", err))
	}
	unit := int64(queue.EntryBytes)
	if q.batch {
		unit = batchEntryBytes
	}
	for _, name := range names {
		file := path.Join(q.dir, name)
		info, err := qs.d.fs.Stat(file)
		if err != nil || info.Dir {
			continue
		}
		base, err := filename.Base(name)
		if err != nil {
			qs.odd = append(qs.odd, verdict(qs.d.rel(file), Repairable, Stray, "no file of a queue, and no store opens beside it: move it away"))
			continue
		}
		if info.Size > maxQueueFileBytes {
			qs.odd = append(qs.odd, verdict(qs.d.rel(file), Repairable, WrongLength, "%d bytes are more than a queue file ever has", info.Size))
			continue
		}
		q.files = append(q.files, queueFile{name: file, base: base, size: info.Size, seen: make([]uint64, info.Size/unit/64+1)})
	}
}

// lengths gives verdicts on files whose length is not that of their kind: known for queues if it is not
// 0, else that of most.
func (qs *queues) lengths(known int64) (odd []Verdict) {
	for _, batch := range []bool{false, true} {
		usual := qs.usualLength(batch)
		if !batch && known > 0 {
			usual = known
		}
		for _, q := range qs.all {
			for i := range q.files {
				if f := &q.files[i]; q.batch == batch && f.size != usual && !(qs.held && f.size < usual) { // it may be in the making
					odd = append(odd, verdict(qs.d.rel(f.name), Repairable, WrongLength, "%d bytes, but queue files here have %d", f.size, usual))
				}
			}
		}
	}
	return odd
}

// usualLength is the length of most files of a kind; of the longest ones where that is not one.
func (qs *queues) usualLength(batch bool) (usual int64) {
	count := map[int64]int{}
	for _, q := range qs.all {
		for i := range q.files {
			if q.batch == batch {
				count[q.files[i].size]++
			}
		}
	}
	for size, n := range count {
		if n > count[usual] || n == count[usual] && size > usual {
			usual = size
		}
	}
	return usual
}

// find returns a queue, making one without files for a queue that the log speaks of.
func (qs *queues) find(topic []byte, id int32) *queueDir {
	qs.mu.RLock()
	q := qs.all[queueKey{string(topic), id}]
	qs.mu.RUnlock()
	if q != nil {
		return q
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	key := queueKey{string(topic), id}
	if q := qs.all[key]; q != nil {
		return q
	}
	kind := "consumequeue"
	if qs.batchTopics[key.topic] {
		kind = "batchconsumequeue"
	}
	q = &queueDir{key: key, batch: qs.batchTopics[key.topic], dir: path.Join(qs.d.o.Dir, kind, key.topic, fmt.Sprint(id))}
	qs.all[key] = q
	return q
}

// existing returns a queue that has files, else nil.
func (qs *queues) existing(topic string, id int32) *queueDir {
	qs.mu.RLock()
	defer qs.mu.RUnlock()
	if q := qs.all[queueKey{topic, id}]; q != nil && len(q.files) > 0 {
		return q
	}
	return nil
}

// sorted returns the queues by name.
func (qs *queues) sorted() []*queueDir {
	all := make([]*queueDir, 0, len(qs.all))
	for _, q := range qs.all {
		all = append(all, q)
	}
	slices.SortFunc(all, func(a, b *queueDir) int {
		return cmp.Or(cmp.Compare(a.key.topic, b.key.topic), cmp.Compare(a.key.id, b.key.id))
	})
	return all
}
