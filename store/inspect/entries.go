package inspect

import (
	"fmt"
	"io"
	"slices"

	"ringmq/store/internal/derive/queue"
	"ringmq/store/record"
	"ringmq/store/vfs"
)

// entryCounts is what the entries of one file are, as far as the log's records did not tell.
type entryCounts struct {
	valid  int64
	old    int64 // they point below the log's begin
	beyond fault
	wrong  fault
}

// judgeQueue is the verdict on each file of a queue, and on what has no file. The log was walked.
func (qs *queues) judgeQueue(q *queueDir, logEnd int64) []Verdict {
	var all []Verdict
	if len(q.files) == 0 && len(q.missing) == 0 && q.messages.Load() == 0 {
		return nil
	}
	for i := range q.files {
		all = append(all, qs.judgeFile(q, &q.files[i], logEnd)...)
	}
	if m := q.missing[q.dir]; m != nil {
		all = append(all, verdict(qs.d.rel(q.dir), Repairable, Missing, "%s without an entry and without a file for it, first %s", plural(m.count, "message"), m.text).at(m.at))
	}
	return all
}

func (qs *queues) judgeFile(q *queueDir, f *queueFile, logEnd int64) []Verdict {
	name := qs.d.rel(f.name)
	if f.size < queue.EntryBytes {
		return []Verdict{verdict(name, Repairable, Empty, "%s and no entry", plural(f.size, "byte"))}
	}
	c, err := qs.countEntries(f, logEnd)
	if err != nil {
		return []Verdict{verdict(name, Repairable, Unreadable, "%v", err)}
	}
	var all []Verdict
	for _, w := range []*fault{q.wrong[f.name], &c.wrong} {
		if w != nil && w.count > 0 {
			all = append(all, verdict(name, Repairable, Wrong, "%s; the first: %s", plural(w.count, "wrong entry"), w.text).at(w.at))
		}
	}
	if m := q.missing[f.name]; m != nil {
		all = append(all, verdict(name, Repairable, Missing, "%s without an entry, first %s", plural(m.count, "message"), m.text).at(m.at))
	}
	switch {
	case c.beyond.count > 0 && qs.held:
		all = append(all, verdict(name, OK, InUse, "%s, %d of them newer than what was read of the log", plural(c.valid, "entry"), c.beyond.count))
	case c.beyond.count > 0:
		all = append(all, verdict(name, Repairable, Beyond, "%s behind the log's end %d, the first to %s", plural(c.beyond.count, "entry"), logEnd, c.beyond.text).at(c.beyond.at))
	}
	switch {
	case len(all) > 0:
	case c.valid == 0 && q.pending.Load() > 0:
		all = append(all, verdict(name, OK, InUse, "no entry yet"))
	case c.valid == 0:
		all = append(all, verdict(name, Repairable, Empty, "no entry: a stock broker would take the zeros for one"))
	case c.old > 0:
		all = append(all, verdict(name, OK, Good, "%s, %d of them of messages that the log no longer has", plural(c.valid, "entry"), c.old))
	default:
		all = append(all, verdict(name, OK, Good, "%s", plural(c.valid, "entry")))
	}
	return all
}

// countEntries looks at all entries of a file that no record of the log asked for.
func (qs *queues) countEntries(f *queueFile, logEnd int64) (c entryCounts, err error) {
	file, err := qs.d.fs.OpenRead(f.name)
	if err != nil {
		return c, err
	}
	defer file.Close()
	first := f.base / queue.EntryBytes
	err = eachUnit(file, queue.EntryBytes, func(i int64, b []byte) bool {
		e := queue.Parse(b)
		switch {
		case !e.Valid() || e.Filler():
			return true
		case f.marked(i):
		case e.Offset >= logEnd:
			c.beyond.add(first+i, fmt.Sprint(e.Offset))
		case len(qs.d.logs) == 0 || e.Offset < qs.d.logs[0].base:
			c.old++
		default:
			text := ""
			if c.wrong.count == 0 {
				text = qs.d.whyWrong(f.name, first+i, e)
			}
			c.wrong.add(first+i, text)
		}
		c.valid++
		return true
	})
	return c, err
}

func (f *fault) add(at int64, text string) {
	if f.count == 0 {
		f.at, f.text = at, text
	}
	f.count++
}

// whyWrong says what an entry points to instead of its message.
func (d *Dir) whyWrong(file string, offset int64, e queue.Entry) string {
	var r record.Record
	if err := d.Record(e.Offset, &r); err != nil {
		return fmt.Sprintf("offset %d points to %d, where no whole record is (%v)", offset, e.Offset, err)
	}
	return fmt.Sprintf("offset %d points to %d, where the message %s/%d with offset %d is", offset, e.Offset, printable(r.Topic), r.QueueID, r.QueueOffset)
}

// eachUnit calls f for each whole unit of a file, until it returns false. The bytes are valid during
// the call only.
func eachUnit(file vfs.File, unit int, f func(i int64, b []byte) bool) error {
	size, err := file.Size()
	if err != nil {
		return err
	}
	buf := make([]byte, 3000*unit)
	for off := int64(0); ; off += int64(len(buf)) {
		off = dataFrom(file, off, size)
		i := off / int64(unit)
		off = i * int64(unit)
		n, err := file.ReadAt(buf, off)
		if err != nil && err != io.EOF {
			return fmt.Errorf("cannot be read at %d: %w", off, err)
		}
		for b := range slices.Chunk(buf[:n-n%unit], unit) {
			if !f(i, b) {
				return nil
			}
			i++
		}
		if n < len(buf) {
			return nil
		}
	}
}
