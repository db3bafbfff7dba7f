package inspect

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"ringmq/store/internal/derive"
	"ringmq/store/internal/derive/queue"
	"ringmq/store/record"
)

// matcher holds the records that one goroutine finds to the queues: each asks for one entry, and the
// entry must say of it what it is. What remains unmarked in the queues afterwards points to something
// else (entries.go).
type matcher struct {
	qs     *queues
	blocks map[*queueFile]*block
}

// block is a part of a queue file, kept because the next record of the queue needs the next entry.
type block struct {
	number int64
	entry  []byte
}

const (
	blockEntries = 204 // in a page
	blockBytes   = blockEntries * queue.EntryBytes

	// maxBlocks bounds the memory of a matcher: 4096 × 4 KiB.
	maxBlocks = 4096
)

func (qs *queues) matcher() *matcher {
	return &matcher{qs: qs, blocks: map[*queueFile]*block{}}
}

// note is told of each record of the log.
func (m *matcher) note(at int64, r *record.Record) {
	if !record.InQueue(r.SysFlag) || r.QueueID < 0 || !nameSafe(r.Topic) {
		return // in no queue
	}
	q := m.qs.find(r.Topic, r.QueueID)
	if q.batch {
		q.messages.Add(1)
		return
	}
	m.match(q, r.QueueOffset, at, r, true)
	m.noteDispatched(at, r)
}

// nameSafe reports whether a topic can be a directory's name.
func nameSafe(topic []byte) bool {
	name := string(topic)
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
}

// maxQueueOffset is beyond any real queue; its entries would have byte offsets without a file name.
const maxQueueOffset = math.MaxInt64 / queue.EntryBytes / 2

// match compares the entry with offset offset of q with the record at at. An entry that is not there
// counts only if it is expected.
func (m *matcher) match(q *queueDir, offset, at int64, r *record.Record, expected bool) {
	if offset < 0 || offset > maxQueueOffset {
		return
	}
	pos := offset * queue.EntryBytes
	f := q.fileOf(pos)
	var e queue.Entry
	if f != nil {
		e = m.entry(f, (pos-f.base)/queue.EntryBytes)
	}
	switch {
	case !e.Valid() || e.Filler() || e.Offset != at:
		switch {
		case expected && at >= m.qs.pendingFrom:
			q.pending.Add(1)
		case expected:
			holder := q.dir
			if f != nil {
				holder = f.name
			}
			q.add(&q.missing, holder, offset, fmt.Sprintf("the message at %d", at))
		}
		return
	case int(e.Size) != r.Size:
		q.add(&q.wrong, f.name, offset, fmt.Sprintf("it says %d bytes, its message at %d has %d", e.Size, at, r.Size))
	case !m.tagsFit(q, e.Tags, r):
		q.add(&q.wrong, f.name, offset, fmt.Sprintf("its tags hash %d is not that of its message at %d", e.Tags, at))
	default:
		q.good.Add(1)
	}
	f.mark((pos - f.base) / queue.EntryBytes)
}

// tagsFit reports whether an entry's tags are those of its record. For a delayed message they are the
// time of its delivery, and which delay a level stands for is a setting.
func (m *matcher) tagsFit(q *queueDir, tags int64, r *record.Record) bool {
	topic := q.key.topic
	if len(r.Topic) != len(topic) || string(r.Topic) != topic { // dispatched to a queue of another name
		topic = string(r.Topic)
	}
	want, delayed := derive.StockLevels.Tags(topic, r.Props)
	if delayed {
		return tags >= r.StoreMs
	}
	if isExtAddress(tags) {
		got, err := m.qs.d.extTags(q.key, tags)
		return err == nil && got == want
	}
	return tags == want
}

// lightPrefix is how the names of queues begin whose id is always 0 (stock broker 5.5.0, enableLmq).
const lightPrefix = "%LMQ%"

// noteDispatched matches the entries of a message in further queues. Whether they are made is a
// setting, so none is missed.
func (m *matcher) noteDispatched(at int64, r *record.Record) {
	names, ok := record.Prop(r.Props, record.PropQueues)
	if !ok {
		return
	}
	offsets, _ := record.Prop(r.Props, record.PropQueueOffsets)
	name, offset := strings.Split(string(names), ","), strings.Split(string(offsets), ",")
	if len(name) != len(offset) {
		return
	}
	for i := range name {
		id := r.QueueID
		if strings.HasPrefix(name[i], lightPrefix) {
			id = 0
		}
		n, err := strconv.ParseInt(offset[i], 10, 64)
		if q := m.qs.existing(name[i], id); q != nil && !q.batch && err == nil {
			m.match(q, n, at, r, false)
		}
	}
}

// entry reads an entry; one that cannot be read is as good as none, and is reported when the file is
// read as a whole.
func (m *matcher) entry(f *queueFile, n int64) queue.Entry {
	b := m.blocks[f]
	if b == nil || b.number != n/blockEntries {
		b = m.load(f, n/blockEntries)
	}
	i := int(n%blockEntries) * queue.EntryBytes
	if i+queue.EntryBytes > len(b.entry) {
		return queue.Entry{}
	}
	return queue.Parse(b.entry[i:])
}

func (m *matcher) load(f *queueFile, number int64) *block {
	if len(m.blocks) >= maxBlocks {
		clear(m.blocks)
	}
	b := m.blocks[f]
	if b == nil {
		b = &block{entry: make([]byte, blockBytes)}
		m.blocks[f] = b
	}
	b.number, b.entry = number, b.entry[:0]
	file, err := m.qs.d.fs.OpenRead(f.name)
	if err != nil {
		return b
	}
	defer file.Close()
	n, _ := file.ReadAt(b.entry[:blockBytes], number*blockBytes)
	b.entry = b.entry[:n]
	return b
}
