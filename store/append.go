package store

import (
	"fmt"

	"ringmq/store/internal/derive/queue"
	"ringmq/store/record"
)

// Put is one message to be appended and what became of it.
type Put struct {
	record.Message
	Queue  *Queue
	Bytes  int  // what RecordBytes said and Reserve got
	Joined bool // with the Put before it: stored together or not at all, contiguous, one segment
	Hurry  bool // its sender waits for Marks.Written only: a flush in flight shall not hold it up

	// Filled by Append. A Put with an Err takes no offsets.
	Offset      int64 // physical offset of the record
	End         int64 // physical offset after it: stored when a mark reaches it
	QueueOffset int64 // 0 for a message that has no place in its queue
	StoreMs     int64
	Err         error // ErrBusy, ErrNoSpace, ErrTooLarge, ErrFailed or ErrClosed
}

// RecordBytes returns the size of the record that m becomes, or why it cannot be stored.
func (s *Store) RecordBytes(m *record.Message) (int, error) {
	if len(m.Body) > s.o.MaxMessageBytes {
		return 0, fmt.Errorf("%w: body of %d bytes, at most %d are allowed", ErrTooLarge, len(m.Body), s.o.MaxMessageBytes)
	}
	return m.Size(s.o.Check)
}

// CopyBytes is RecordBytes for a copy of a message that was stored before: what the largest body is by now is
// no reason to lose it.
func (s *Store) CopyBytes(m *record.Message) (int, error) { return m.Size(s.o.Check) }

// maxWaitingBytes of queue entries may be in memory only: two million entries, some seconds of a full
// load, while the disk is busy with a checkpoint.
const maxWaitingBytes = 40 << 20

// Reserve takes staging for n bytes of records. It returns nil, ErrBusy, ErrNoSpace, ErrTooLarge,
// ErrFailed or ErrClosed. What it gave must go to Append or to Unreserve. Any goroutine may call it.
func (s *Store) Reserve(n int) error {
	if err := s.keeper.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	if why := s.retention.refusal.Load(); why != nil {
		return *why
	}
	if s.keeper.Waiting() > maxWaitingBytes {
		return ErrBusy
	}
	return s.log.Reserve(n)
}

// Unreserve gives back what Reserve took.
func (s *Store) Unreserve(n int) { s.log.Release(n) }

// Append gives each Put its offsets and copies it into staging, under one short lock. It consumes
// the reservations, also those of refused Puts; a Put and those joined to it are refused together.
// Nothing of the Puts is referenced afterwards. What was appended is stored when a mark reaches its
// End. Any goroutine may call it; the order of the log is the order of the calls.
func (s *Store) Append(puts []Put) {
	var refused, appended, bytes int
	now := s.o.Now().UnixMilli()
	s.log.Lock()
	now = s.storeTimeLocked(now)
	for i := 0; i < len(puts); {
		n, size := joined(puts[i:])
		if err := s.log.FitLocked(size); err != nil {
			refuse(puts[i:i+n], err)
			refused += size
		} else {
			s.stageLocked(puts[i:i+n], now)
			appended += n
			bytes += size
		}
		i += n
	}
	s.log.Unlock()
	s.counters.appended.Add(int64(appended))
	s.counters.appendedBytes.Add(int64(bytes))
	if refused > 0 {
		s.log.Release(refused)
	}
}

// joined returns how many Puts belong together with the first, and the bytes of them all.
func joined(puts []Put) (n, size int) {
	n, size = 1, puts[0].Bytes
	for n < len(puts) && puts[n].Joined {
		size += puts[n].Bytes
		n++
	}
	return n, size
}

func refuse(puts []Put, err error) {
	for i := range puts {
		puts[i].Err = err
	}
}

// storeTimeLocked makes store times that never go back: searches by time rely on it.
func (s *Store) storeTimeLocked(now int64) int64 {
	if behind := s.lastMs - now; behind > 0 {
		s.counters.clockBehind(behind)
		return s.lastMs
	}
	s.lastMs = now
	return now
}

// stageLocked appends puts, for which there is room in one segment.
func (s *Store) stageLocked(puts []Put, now int64) {
	hurry := false
	for i := range puts {
		p := &puts[i]
		hurry = hurry || p.Hurry
		e := entry{storeMs: now}
		if record.InQueue(p.SysFlag) {
			e.queue, e.at = p.Queue, p.Queue.next
			p.Queue.next++
		}
		dst, off := s.log.StageLocked(p.Bytes)
		if got := p.Message.Append(dst[:0], s.o.Check, e.at, off, now); len(got) != p.Bytes {
			panic(fmt.Sprintf("store: record of %d bytes, %d were reserved", len(got), p.Bytes))
		}
		p.Offset, p.End, p.QueueOffset, p.StoreMs, p.Err = off, off+int64(p.Bytes), e.at, now, nil
		e.Entry = queue.Entry{Offset: off, Size: int32(p.Bytes), Tags: s.tags(p.Topic, p.Props, now)}
		s.pending = append(s.pending, e)
	}
	if hurry {
		s.log.HurryLocked()
	}
}

// tags is what the queue entry of a message holds beside its place: the hash of its tags, or the time of its
// delivery.
func (s *Store) tags(topic string, props []byte, storeMs int64) int64 {
	code, relative := s.o.DelayLevels.Tags(topic, props)
	if relative {
		code += storeMs
	}
	return code
}
