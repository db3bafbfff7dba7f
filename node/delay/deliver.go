package delay

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"ringmq/node/topic"
	"ringmq/store"
	"ringmq/store/record"
)

// keepBytes is the largest buffer that is kept from batch to batch: larger messages are rare.
const keepBytes = 1 << 20

// deliver appends the messages of due entries, as many as make a batch, to their own topics. If the log does not
// take them it returns when to try again, with the same message.
func (s *Schedule) deliver(l *level, due []store.Entry, now time.Time) (delivered bool, wait time.Duration) {
	n := batchLen(due)
	if s.pace.beside(now) {
		n = s.pace.take(due[:n], now)
	}
	read, err := s.read(due[:n])
	if err != nil {
		s.trouble(err)
		return false, failWait
	}
	s.lateMs.Store(max(now.UnixMilli()-due[0].Tags, 0))
	defer s.clear()
	s.prepare(l, due[:n], read)
	next, end := l.next.Load()+int64(n), int64(0)
	if len(s.puts) > 0 {
		took, err := s.append()
		if errors.Is(err, store.ErrBusy) {
			return false, busyWait
		}
		if err != nil {
			s.trouble(err)
			return false, failWait
		}
		if took < len(s.puts) {
			next = s.ends[took-1]
		}
		end = s.puts[took-1].End
		s.pace.own += int64(took)
		s.flying = append(s.flying, end)
		s.delivered.Add(int64(took))
		s.failing = false
	}
	l.goOn(next)
	s.opts.Table.deliver(l.n, next, end)
	return true, 0
}

// batchLen is how many of the entries make a batch; one at least.
func batchLen(due []store.Entry) int {
	n, bytes := 0, 0
	for n < len(due) && (n == 0 || bytes+due[n].Bytes <= batchBytes) {
		bytes += due[n].Bytes
		n++
	}
	return n
}

// read reads the records of entries, neighbours at once, and returns the bytes of each; none for a record that
// is not to be had any more. An error is the disk's: a later try may succeed.
func (s *Schedule) read(entries []store.Entry) ([][]byte, error) {
	total := 0
	for i := range entries {
		total += entries[i].Bytes
	}
	if cap(s.buf) < total {
		s.buf = make([]byte, total)
	}
	buf, read := s.buf[:total], make([][]byte, len(entries))
	for i := 0; i < len(entries); {
		n, bytes := neighbours(entries[i:])
		err := s.opts.Store.ReadAt(buf[:bytes], entries[i].Offset)
		if errors.Is(err, store.ErrOffset) && n > 1 {
			n, bytes = 1, entries[i].Bytes // one of them is damaged; which one?
			err = s.opts.Store.ReadAt(buf[:bytes], entries[i].Offset)
		}
		if err != nil && !errors.Is(err, store.ErrOffset) {
			return nil, err
		}
		for ; n > 0; n-- {
			if err == nil {
				read[i] = buf[:entries[i].Bytes]
			}
			buf = buf[entries[i].Bytes:]
			i++
		}
	}
	return read, nil
}

// neighbours is how many records stand one after the other from the first on, and their bytes.
func neighbours(entries []store.Entry) (n, bytes int) {
	n, bytes = 1, entries[0].Bytes
	for n < len(entries) && entries[n].Bytes > 0 && entries[n].Offset == entries[0].Offset+int64(bytes) {
		bytes += entries[n].Bytes
		n++
	}
	return n, bytes
}

// prepare makes the puts of a batch. A message that can never be delivered is left out, with a line in the log
// that tells where it is.
func (s *Schedule) prepare(l *level, entries []store.Entry, read [][]byte) {
	var bad error
	count := 0
	for i := range entries {
		err := s.put(entries[i].Offset, read[i], l.next.Load()+int64(i)+1)
		if err == nil {
			continue
		}
		if count++; bad == nil {
			bad = fmt.Errorf("offset %d, at %d of the log: %w", l.next.Load()+int64(i), entries[i].Offset, err)
		}
	}
	if count > 0 {
		s.opts.Log.Error("delay: messages cannot be delivered", "level", l.n, "count", count, "first", bad)
		s.dropped.Add(int64(count))
	}
}

// put adds the message of a record to the batch, as the stock broker delivers it: in the topic and queue that its
// properties name, all else as it is.
func (s *Schedule) put(at int64, raw []byte, next int64) error {
	var r record.Record
	if len(raw) == 0 {
		return errors.New("the log does not have it any more")
	}
	if err := record.Verify(raw, at, &r); err != nil {
		return err
	}
	name, queue, err := s.target(&r)
	if err != nil {
		return err
	}
	p := store.Put{Joined: len(s.puts) > 0, Message: r.Message()}
	p.Topic, p.QueueID = name, queue
	if p.Bytes, err = s.opts.Store.CopyBytes(&p.Message); err != nil {
		return err
	}
	p.Queue = s.opts.Store.OpenQueue(name, queue)
	s.puts, s.ends = append(s.puts, p), append(s.ends, next)
	return nil
}

// target is the topic and the queue that a message is for.
func (s *Schedule) target(r *record.Record) (string, int32, error) {
	name, _ := record.Prop(r.Props, record.PropRealTopic)
	if string(name) != s.name {
		if err := topic.CheckName(string(name)); err != nil {
			return "", 0, fmt.Errorf("%s: %w", record.PropRealTopic, err)
		}
		s.name = string(name)
	}
	if s.name == topic.Half || s.name == topic.Schedule {
		return "", 0, fmt.Errorf("%s: %s takes no delayed messages", record.PropRealTopic, s.name)
	}
	text, _ := record.Prop(r.Props, record.PropRealQueue)
	queue, err := strconv.ParseInt(string(text), 10, 32)
	if err != nil || queue < 0 {
		return "", 0, fmt.Errorf("%s=%q: want the number of a queue", record.PropRealQueue, text)
	}
	return s.name, int32(queue), nil
}

// append appends the puts as one, or fewer if they do not fit together, and returns how many.
func (s *Schedule) append() (took int, err error) {
	for took = len(s.puts); took > 0; took /= 2 {
		total := 0
		for i := range s.puts[:took] {
			total += s.puts[i].Bytes
		}
		if err = s.opts.Store.Reserve(total); err == nil {
			s.opts.Store.Append(s.puts[:took])
			err = s.puts[0].Err
		}
		if !errors.Is(err, store.ErrTooLarge) {
			return took, err
		}
	}
	return 0, err
}

// clear lets go of what the batch points to.
func (s *Schedule) clear() {
	clear(s.puts)
	s.puts, s.ends = s.puts[:0], s.ends[:0]
	if cap(s.buf) > keepBytes {
		s.buf = nil
	}
}
