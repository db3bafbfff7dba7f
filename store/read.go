package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"ringmq/store/internal/derive/queue"
	"ringmq/store/record"
	"ringmq/uring"
)

// Status is what a Get found, with the meanings and names of the stock broker.
type Status uint8

// The statuses of a Get, and what Got.Next is for each.
const (
	Found               Status = iota // Next: after the last message
	NoMatchedMessage                  // none passed Match; Next: after the last entry looked at
	MessageWasRemoving                // entries point to no record; Next: after them
	OffsetFoundNull                   // no entries at the offset; Next: where they go on
	OffsetOverflowBadly               // Offset > Max; Next: Max
	OffsetOverflowOne                 // Offset == Max; Next: Offset
	OffsetTooSmall                    // Offset < Min; Next: Min
	NoMatchedLogicQueue               // there is no such queue; Next: 0
	NoMessageInQueue                  // nothing was ever in it; Next: 0
	OffsetReset                       // a reset is pending; never from Get
)

var statusNames = [...]string{
	"FOUND", "NO_MATCHED_MESSAGE", "MESSAGE_WAS_REMOVING", "OFFSET_FOUND_NULL", "OFFSET_OVERFLOW_BADLY",
	"OFFSET_OVERFLOW_ONE", "OFFSET_TOO_SMALL", "NO_MATCHED_LOGIC_QUEUE", "NO_MESSAGE_IN_QUEUE", "OFFSET_RESET",
}

// String returns the stock broker's name of the status.
func (s Status) String() string { return statusNames[s] }

// Get says what to read from a queue.
type Get struct {
	Offset   int64                     // first queue offset wanted
	MaxCount int                       // most messages
	MaxBytes int                       // most bytes; the first message is given in any case
	Match    func(tagsCode int64) bool // nil takes all

	Access Access // how to read what is not in memory

	// MatchProps judges the properties of what Match takes, in the form of package record; nil takes all. It costs a
	// look at each of these messages. The bytes are valid during the call only.
	MatchProps func(props []byte) bool
}

// Access says how bytes are read that are not in memory.
type Access uint8

const (
	Through Access = iota // through the page cache; waits for the disk
	NoWait                // not at all: ErrCold
	Past                  // past the page cache, which others need; waits for the disk
)

// Got is the answer to a Get. Its memory is reused by the next Get into it, which must be of the same Store.
type Got struct {
	Status   Status
	Next     int64 // queue offset to ask for next
	Min, Max int64 // the queue's first offset, and the one after its last visible
	Runs     []Run // physical ranges in order, contiguous ones merged
	Count    int   // messages
	Bytes    int

	entries []byte
	window  window
	looked  int // bytes that looks at properties took
	reach   reach
}

// Run is a contiguous range of the log that holds whole records.
type Run struct {
	Offset int64
	Bytes  int
}

// scanEntries are looked at by one Get at least, whatever MaxCount is (stock broker 5.5.0,
// maxFilterMessageSize); a longer run of messages that do not match takes further Gets.
const scanEntries = 800

// Get finds messages of a queue by its entries; it reads no message unless MatchProps asks for its properties, or the entry is
// older than this process. A nil q is NoMatchedLogicQueue. Any goroutine may call it; with NoWait it does not wait for a
// disk, but may return ErrCold. It ends early, with what there is so far, rather than look at many messages: one call
// takes a loop about a millisecond while the page cache has them.
func (s *Store) Get(q *Queue, g Get, out *Got) error {
	*out = Got{Runs: out.Runs[:0], entries: out.entries, window: out.window, reach: reach{access: g.Access}}
	if q == nil {
		out.Status = NoMatchedLogicQueue
		return nil
	}
	out.Min, out.Max = q.Min(), q.Max()
	switch {
	case out.Max == 0:
		out.Status, out.Next = NoMessageInQueue, 0
	case g.Offset < out.Min:
		out.Status, out.Next = OffsetTooSmall, out.Min
	case g.Offset == out.Max:
		out.Status, out.Next = OffsetOverflowOne, g.Offset
	case g.Offset > out.Max:
		out.Status, out.Next = OffsetOverflowBadly, out.Max
	default:
		if g.Match == nil && g.MatchProps == nil && g.MaxCount < scanEntries { // the first entries will do, if all are good
			err := s.scan(q, g, out, g.MaxCount)
			if err != nil || out.Status == Found && out.Next-g.Offset == int64(out.Count) {
				return err
			}
			out.Runs, out.Count, out.Bytes = out.Runs[:0], 0, 0
		}
		return s.scan(q, g, out, max(scanEntries, g.MaxCount))
	}
	return nil
}

// scan looks at limit entries at most, from g.Offset on, which is inside the queue.
func (s *Store) scan(q *Queue, g Get, out *Got, limit int) error {
	if cap(out.entries) < limit*queue.EntryBytes {
		out.entries = make([]byte, limit*queue.EntryBytes)
	}
	if g.Access == NoWait && !q.entries.Cached(g.Offset, limit) {
		return ErrCold
	}
	n, err := q.entries.Read(out.entries[:limit*queue.EntryBytes], g.Offset)
	if err != nil {
		return err
	}
	if n == 0 {
		out.Status, out.Next = OffsetFoundNull, out.Max
		if out.Min = q.Min(); g.Offset < out.Min { // removed meanwhile
			out.Status, out.Next = OffsetTooSmall, out.Min
		}
		return nil
	}
	if g.Access == Past && g.MatchProps == nil {
		s.expect(g, out.entries[:n*queue.EntryBytes])
	}
	out.Status, out.Next = NoMatchedMessage, g.Offset
	for i := range n {
		e := queue.Parse(out.entries[i*queue.EntryBytes:])
		if out.full(g, e) || out.looked >= maxLookedBytes {
			break
		}
		at := g.Offset + int64(i)
		out.Next = at + 1
		if e.Valid() && g.Match != nil {
			if e.Extended() && g.Access == NoWait && !s.inReach(&out.reach, e.Offset, int(e.Size)) {
				return ErrCold
			}
			if !g.Match(s.tagsOf(q, e)) {
				continue
			}
		}
		wanted, ok, err := s.judge(q, at, g, out, out.entries[i*queue.EntryBytes:n*queue.EntryBytes])
		if err != nil {
			return err
		}
		if !ok && out.Count == 0 {
			out.Status = MessageWasRemoving
		}
		if wanted {
			out.add(e)
		}
	}
	return nil
}

// judge tells of the first of some entries, which stands at queue offset at, whether it points to a record (ok), and
// whether that is wanted.
func (s *Store) judge(q *Queue, at int64, g Get, out *Got, entries []byte) (wanted, ok bool, err error) {
	e := queue.Parse(entries)
	if g.MatchProps == nil {
		ok, err = s.pointsToRecord(q, at, e, &out.reach)
		return ok, ok, err
	}
	if !s.inLog(e) {
		return false, false, nil
	}
	props, ok, err := s.look(out, entries)
	return ok && g.MatchProps(props), ok, err
}

// tagsOf returns the hash of a message's tags, or the time of its delivery. One that only a stock broker's
// consumequeue_ext has is made from the message.
func (s *Store) tagsOf(q *Queue, e queue.Entry) int64 {
	if !e.Extended() {
		return e.Tags
	}
	var r record.Record
	if record.Parse(s.readRecord(nil, e.Offset), &r) != nil {
		return e.Tags // pointsToRecord tells what is wrong with it
	}
	return s.tags(q.Topic(), r.Props, r.StoreMs)
}

// full reports whether e no longer fits.
func (o *Got) full(g Get, e queue.Entry) bool {
	return o.Count > 0 && (o.Count >= g.MaxCount || o.Bytes+int(e.Size) > g.MaxBytes)
}

func (o *Got) add(e queue.Entry) {
	o.Status = Found
	o.Count++
	o.Bytes += int(e.Size)
	if n := len(o.Runs); n > 0 && o.Runs[n-1].Offset+int64(o.Runs[n-1].Bytes) == e.Offset {
		o.Runs[n-1].Bytes += int(e.Size)
		return
	}
	o.Runs = append(o.Runs, Run{e.Offset, int(e.Size)})
}

// pointsToRecord judges an entry before it is served. One that this process made is right. One that
// was found on the disk may be damaged, or may point to what has been removed. by tells how the log is read; nil: Through.
func (s *Store) pointsToRecord(q *Queue, at int64, e queue.Entry, by *reach) (bool, error) {
	if !s.inLog(e) {
		return false, nil
	}
	if at >= q.trusted {
		return true, nil
	}
	var head [headBytes]byte
	if e.Size < headBytes {
		return false, nil
	}
	err := s.readBy(by, head[:], e.Offset)
	if errors.Is(err, ErrOffset) { // across two segments: no record does that
		return false, nil
	}
	return isHeadOf(head[:], e), err
}

// inLog reports whether e points into the visible log.
func (s *Store) inLog(e queue.Entry) bool {
	return e.Valid() && !e.Filler() && e.Offset >= s.log.Min() && e.End() <= s.readable.Load()
}

// isHeadOf reports whether the record that head begins is the one of e. head has headBytes at least.
func isHeadOf(head []byte, e queue.Entry) bool {
	return be32(head) == uint32(e.Size) && isHead(head, e.Offset)
}

// isHead tells whether the head of a record that stands at off says so itself.
func isHead(head []byte, off int64) bool {
	magic := be32(head[4:])
	return be64(head[28:]) == uint64(off) && (magic == record.MagicV1 || magic == record.MagicV2)
}

// headBytes is the part of a record that has size, magic, own offset and store time (package record).
const headBytes = 76

func be32(b []byte) uint32 { return binary.BigEndian.Uint32(b) }
func be64(b []byte) uint64 { return binary.BigEndian.Uint64(b) }

// Range returns n bytes of the visible log from off as something that can be sent from the file. The
// caller must Release it. ErrOffset if they are not all visible, or not all in one segment.
func (s *Store) Range(off int64, n int) (uring.FileRange, error) {
	if off < 0 || n < 0 || off > s.readable.Load()-int64(n) {
		return uring.FileRange{}, fmt.Errorf("%w: %d bytes at %d, visible up to %d", ErrOffset, n, off, s.readable.Load())
	}
	if h, ok := s.found.hole(off, n); ok {
		return uring.FileRange{}, fmt.Errorf("%w: %d bytes at %d: the log is damaged from %d to %d", ErrOffset, n, off, h.From, h.To)
	}
	r, err := s.log.Range(off, n)
	if err != nil {
		return r, fmt.Errorf("%w: %d bytes at %d", err, n, off)
	}
	return r, nil
}

// Ranges appends the Range of each run to into. Runs that follow each other in one segment share one use of its file, as
// uring.FileRange.Shares says; all must be released, and only together. After an error nothing was appended.
func (s *Store) Ranges(into []uring.FileRange, runs []Run) ([]uring.FileRange, error) {
	had, readable, end := len(into), s.readable.Load(), int64(-1)
	var base int64 // of the segment of the last range, which ends at end
	for _, r := range runs {
		if base <= r.Offset && r.Offset+int64(r.Bytes) <= min(end, readable) && len(s.found.Damage) == 0 {
			last := &into[len(into)-1]
			last.Shares = true
			into = append(into, uring.FileRange{File: last.File, Off: r.Offset - base, Len: r.Bytes})
			continue
		}
		fr, err := s.Range(r.Offset, r.Bytes)
		if err != nil {
			for _, held := range into[had:] {
				held.Release()
			}
			return into[:had], err
		}
		into = append(into, fr)
		base, end, _ = s.log.Span(r.Offset)
	}
	return into, nil
}

// ReadAt fills p with the visible log from off; the bounds are those of Range.
func (s *Store) ReadAt(p []byte, off int64) error {
	r, err := s.Range(off, len(p))
	if err != nil {
		return err
	}
	defer r.Release()
	if n, err := r.ReadAt(p, 0); n < len(p) {
		return fmt.Errorf("store: read %d bytes at %d: %w", len(p), off, err)
	}
	return nil
}

// MinOffset returns the first physical offset of the log.
func (s *Store) MinOffset() int64 { return s.log.Min() }
