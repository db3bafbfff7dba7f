package inspect

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"ringmq/store/internal/derive"
	"ringmq/store/record"
)

// batchEntry is an entry of a BatchConsumeQueue (stock broker 5.5.0, topics with queue.type=BatchCQ):
//
//	 0  i8  physical offset of the record
//	 8  i4  its size
//	12  i8  hash of its tags
//	20  i8  its store time
//	28  i8  queue offset of the first message in it
//	36  i2  how many messages are in it
//	38  i4  -1
//	42  i4  0
type batchEntry struct {
	offset  int64
	size    int32
	tags    int64
	storeMs int64
	base    int64
	count   int16
}

var _ = [1]struct{}{}[batchEntryBytes-(8+4+8+8+8+2+4+4)]

func parseBatchEntry(b []byte) batchEntry {
	be := binary.BigEndian
	return batchEntry{
		offset: int64(be.Uint64(b)), size: int32(be.Uint32(b[8:])), tags: int64(be.Uint64(b[12:])),
		storeMs: int64(be.Uint64(b[20:])), base: int64(be.Uint64(b[28:])), count: int16(be.Uint16(b[36:])),
	}
}

func (e batchEntry) valid() bool { return e.offset >= 0 && e.size > 0 && e.base >= 0 && e.count > 0 }

// judgeBatch is the verdict on the files of a batch queue: each entry is held to its record, and their
// number to that of the queue's records.
func (qs *queues) judgeBatch(q *queueDir, logEnd int64) (all []Verdict) {
	led := int64(0)
	for i := range q.files {
		f := &q.files[i]
		good, v := qs.judgeBatchFile(q, f, logEnd)
		led += good
		all = append(all, v)
	}
	q.good.Store(led)
	if n := q.messages.Load() - led; n > 0 {
		all = append(all, verdict(qs.d.rel(q.dir), Repairable, Missing, "%s without an entry", plural(n, "record")))
	}
	return all
}

// judgeBatchFile stops at the first wrong entry: those behind it seldom tell more.
func (qs *queues) judgeBatchFile(q *queueDir, f *queueFile, logEnd int64) (good int64, v Verdict) {
	name := qs.d.rel(f.name)
	file, err := qs.d.fs.OpenRead(f.name)
	if err != nil {
		return 0, verdict(name, Repairable, Unreadable, "%v", err)
	}
	defer file.Close()
	v = verdict(name, Repairable, Empty, "no entry")
	old := int64(0)
	err = eachUnit(file, batchEntryBytes, func(_ int64, b []byte) bool {
		e := parseBatchEntry(b)
		if !e.valid() {
			return false
		}
		switch why := qs.d.batchFault(q, e); {
		case e.offset >= logEnd:
			v = verdict(name, Repairable, Beyond, "an entry behind the log's end %d, to %d", logEnd, e.offset).at(e.base)
			return false
		case len(qs.d.logs) == 0 || e.offset < qs.d.logs[0].base:
			old++
		case why != "":
			v = verdict(name, Repairable, Wrong, "%s", why).at(e.base)
			return false
		default:
			good++
		}
		v = verdict(name, OK, Good, "%s", plural(good+old, "batch entry"))
		return true
	})
	if err != nil {
		v = verdict(name, Repairable, Unreadable, "%v", err)
	}
	return good, v
}

// batchFault says what an entry tells wrongly of its record, "" if nothing.
func (d *Dir) batchFault(q *queueDir, e batchEntry) string {
	var r record.Record
	if err := d.Record(e.offset, &r); err != nil {
		return fmt.Sprintf("offset %d points to %d, where no whole record is (%v)", e.base, e.offset, err)
	}
	base, count := r.QueueOffset, int64(1)
	if r.SysFlag&record.SysInnerBatch != 0 {
		base, count = propInt(r.Props, record.PropInnerBase), propInt(r.Props, record.PropInnerNum)
	}
	tags, _ := derive.StockLevels.Tags(q.key.topic, r.Props)
	if string(r.Topic) != q.key.topic || r.QueueID != q.key.id || int(e.size) != r.Size || e.base != base ||
		int64(e.count) != count || e.storeMs != r.StoreMs || e.tags != tags {
		return fmt.Sprintf("offset %d does not tell what the record at %d is: %s/%d with offset %d", e.base, e.offset, printable(r.Topic), r.QueueID, base)
	}
	return ""
}

// propInt returns a number from properties, -1 if there is none.
func propInt(props []byte, name string) int64 {
	text, _ := record.Prop(props, name)
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return -1
	}
	return n
}
