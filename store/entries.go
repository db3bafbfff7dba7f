package store

import "ringmq/store/internal/derive/queue"

// Entry is one place of a queue.
type Entry struct {
	Offset int64 // physical offset of the record
	Bytes  int   // its size; 0 if there is no record any more, or never was one
	Tags   int64 // hash of its tags; for a delayed message the time of its delivery, in ms
}

// Entries adds the entries of a queue from a queue offset on to dst, at most so many, and fewer where a file or
// the queue ends; none outside of it. It reads no message. Any goroutine may call it; it may read a file.
func (s *Store) Entries(dst []Entry, q *Queue, from int64, most int) ([]Entry, error) {
	raw := make([]byte, most*queue.EntryBytes)
	n, err := q.entries.Read(raw, from)
	if err != nil {
		return dst, err
	}
	for i := range n {
		e := queue.Parse(raw[i*queue.EntryBytes:])
		ok, err := s.pointsToRecord(q, from+int64(i), e, nil)
		if err != nil {
			return dst, err
		}
		if !ok {
			dst = append(dst, Entry{Offset: e.Offset, Tags: e.Tags})
			continue
		}
		dst = append(dst, Entry{Offset: e.Offset, Bytes: int(e.Size), Tags: s.tagsOf(q, e)})
	}
	return dst, nil
}
