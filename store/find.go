package store

import (
	"fmt"

	"ringmq/store/internal/derive/index"
	"ringmq/store/record"
)

// Query asks for messages by a key: one of their keys, or the id that the client gave them.
type Query struct {
	Topic string
	Key   string
	Tags  bool // Key is all that a message has for tags

	Max            int   // at most so many: the newest
	BeginMs, EndMs int64 // store times, both included; they are known in whole seconds only

	// Hashed takes all messages that the index has under the key's hash, without a look at them. That is
	// the stock broker's answer (5.5.0): its clients compare the keys. Others may have the same hash, and
	// some may be gone from the log.
	Hashed bool
}

// Lookup is what a Find found.
type Lookup struct {
	Offsets []int64 // physical, in ascending order

	// The newest message in the index; both 0 when nothing was found (stock broker 5.5.0).
	NewestOffset, NewestMs int64
}

// findEffort bounds what one Find reads: 8,192 times of an index file or of a message, or half a million entries that stand
// together. Who sends many messages with one key, or with keys of one hash, holds nobody up with it.
const findEffort = 8192 * index.ReadEffort

// Find returns the messages that have a key. It does not look for ever: behind very many entries of one hash older
// messages are left out, and if nothing was found by then it is an error. The index lacks the newest for some milliseconds, and older
// ones while it catches up after a start (Stats.Indexed). ErrNoIndex if there is none. Find reads files and may
// take long. Any goroutine may call it.
func (s *Store) Find(q Query) (Lookup, error) {
	wanted := index.Query{Topic: q.Topic, Key: q.Key, Tags: q.Tags, Max: q.Max, BeginMs: q.BeginMs, EndMs: q.EndMs, Effort: findEffort}
	if !q.Hashed {
		var buf []byte
		wanted.Accept = func(at int64) bool {
			var r record.Record
			buf = s.readRecord(buf, at)
			return record.Parse(buf, &r) == nil && wanted.Matches(&r)
		}
	}
	offsets, newest, err := s.index.Find(wanted)
	if err != nil || len(offsets) == 0 {
		return Lookup{}, err
	}
	return Lookup{Offsets: offsets, NewestOffset: newest.Offset, NewestMs: newest.StoreMs}, nil
}

// Record returns the message at a physical offset of the visible log, as bytes, verified. Any offset may be
// asked for: ErrOffset where no message begins. It reads a file and may take long. Any goroutine may call it.
func (s *Store) Record(at int64) ([]byte, error) {
	n, err := s.recordBytes(at)
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	if err := s.ReadAt(b, at); err != nil {
		return nil, err
	}
	var r record.Record
	if err := record.Verify(b, at, &r); err != nil {
		return nil, fmt.Errorf("%w: no message begins at %d: %w", ErrOffset, at, err)
	}
	return b, nil
}

// recordBytes returns the size of the record at at by its head, which must stand there; ErrOffset otherwise. Nobody is
// made to reserve memory for a size that some bytes inside a message seem to say.
func (s *Store) recordBytes(at int64) (int64, error) {
	var head [headBytes]byte
	if err := s.ReadAt(head[:], at); err != nil {
		return 0, err
	}
	n := int64(be32(head[:]))
	if !isHead(head[:], at) || n < headBytes || n > s.o.SegmentBytes || at+n > s.readable.Load() {
		return 0, fmt.Errorf("%w: no message begins at %d", ErrOffset, at)
	}
	return n, nil
}

// readRecord reads the record at at into buf, or memory that is larger; nothing if there is none any more.
func (s *Store) readRecord(buf []byte, at int64) []byte {
	n, err := s.recordBytes(at)
	if err != nil {
		return buf[:0]
	}
	if int64(cap(buf)) < n {
		buf = make([]byte, n)
	}
	if buf = buf[:n]; s.ReadAt(buf, at) != nil {
		return buf[:0]
	}
	return buf
}
