package inspect

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"ringmq/store/internal/derive/queue"
	"ringmq/store/record"
)

// ErrNoQueue means that a queue has no file.
var ErrNoQueue = errors.New("inspect: no such queue on the disk")

// Visit is told of a record; it is valid during the call only. An error ends the scan, which returns
// it.
type Visit func(at int64, r *record.Record) error

// end is the physical offset behind the last file of the log.
func (d *Dir) end() int64 {
	if len(d.logs) == 0 {
		return 0
	}
	return d.logs[len(d.logs)-1].base + d.size
}

// Bounds returns the physical offsets between which the files of the log lie.
func (d *Dir) Bounds() (from, to int64) {
	if len(d.logs) == 0 {
		return 0, 0
	}
	return d.logs[0].base, d.end()
}

// Scan visits the whole records that begin at from or behind it and before to, and tells gap of what
// lies between them, the zeros behind the log's end included.
func (d *Dir) Scan(ctx context.Context, from, to int64, visit Visit, gap func(g Gap) error) error {
	for _, f := range d.logs {
		if f.base+d.size <= from || f.base >= to {
			continue
		}
		if err := d.scanFile(ctx, f, from, to, visit, gap); err != nil {
			if errors.Is(err, errEnough) {
				return nil
			}
			return err
		}
	}
	return nil
}

// errEnough ends a scan early without a failure.
var errEnough = errors.New("inspect: enough")

func (d *Dir) scanFile(ctx context.Context, f logFile, from, to int64, visit Visit, gap func(g Gap) error) error {
	w, err := d.walker(f)
	if err != nil {
		return fmt.Errorf("inspect: %w", err)
	}
	defer w.file.Close()
	start := int64(0) // where records are known to begin
	var r record.Record
	if from > f.base && w.recordAt(from-f.base, &r) == nil {
		start = from - f.base
	}
	_, err = w.walk(start, func(at int64, r *record.Record) error {
		switch {
		case at >= to:
			return errEnough
		case at < from:
			return ctx.Err()
		}
		if err := visit(at, r); err != nil {
			return err
		}
		return ctx.Err()
	}, func(g Gap) error {
		switch {
		case g.At >= to:
			return errEnough
		case g.At+g.Bytes <= from:
			return ctx.Err()
		}
		if err := gap(g); err != nil {
			return err
		}
		return ctx.Err()
	})
	return err
}

// ScanFrom is where a scan for records stored at ms or later can begin: the start of the newest file
// whose first record is older. Store times grow along the log.
func (d *Dir) ScanFrom(ms int64) int64 {
	from, _ := d.Bounds()
	var r record.Record
	for _, f := range d.logs {
		if d.Record(f.base, &r) != nil || r.StoreMs >= ms {
			break
		}
		from = f.base
	}
	return from
}

// Queue visits the messages with queue offsets from from on and before to, as the queue's entries lead
// to them; bad is told of an entry that leads to no record of this queue.
func (d *Dir) Queue(ctx context.Context, topic string, id int32, from, to int64, visit Visit, bad func(offset int64, err error) error) error {
	if !nameSafe([]byte(topic)) {
		return fmt.Errorf("%w: topic %q is no name", ErrNoQueue, topic)
	}
	qs := &queues{d: d, all: map[queueKey]*queueDir{}}
	q := &queueDir{key: queueKey{topic, id}, dir: path.Join(d.o.Dir, "consumequeue", topic, strconv.Itoa(int(id)))}
	qs.listFiles(q)
	if len(q.files) == 0 {
		return fmt.Errorf("%w: %s", ErrNoQueue, q.dir)
	}
	m := qs.matcher()
	var r record.Record
	for i := range q.files {
		f := &q.files[i]
		first := f.base / queue.EntryBytes
		for offset := max(from, first); offset < min(to, first+f.size/queue.EntryBytes); offset++ {
			e := m.entry(f, offset-first)
			if !e.Valid() || e.Filler() {
				continue
			}
			err := d.queued(q.key, offset, e, &r)
			if err == nil {
				err = visit(e.Offset, &r)
			} else {
				err = bad(offset, err)
			}
			if err = errors.Join(err, ctx.Err()); err != nil {
				return err
			}
		}
	}
	return nil
}

// queued reads the record that an entry leads to, and makes sure that it is of that queue.
func (d *Dir) queued(key queueKey, offset int64, e queue.Entry, r *record.Record) error {
	if err := d.Record(e.Offset, r); err != nil {
		return fmt.Errorf("offset %d points to %d: %w", offset, e.Offset, err)
	}
	light := strings.HasPrefix(key.topic, lightPrefix) // of a message of another topic
	if !light && (string(r.Topic) != key.topic || r.QueueID != key.id || r.QueueOffset != offset) {
		return fmt.Errorf("offset %d points to %d, where the message %s/%d with offset %d is", offset, e.Offset, printable(r.Topic), r.QueueID, r.QueueOffset)
	}
	return nil
}

// printable is text for a terminal, whatever its bytes are.
func printable(b []byte) string {
	text := strconv.Quote(string(b))
	if inner := text[1 : len(text)-1]; inner == string(b) {
		return inner
	}
	return text
}
