package store

import (
	"errors"
	"sort"

	"ringmq/store/record"
)

// StoreTime returns the store time in ms of the message at a queue offset, -1 if there is none. Any
// goroutine may call it.
func (s *Store) StoreTime(q *Queue, offset int64) (int64, error) {
	if q == nil {
		return -1, nil
	}
	e, ok, err := q.entries.Entry(offset)
	if err == nil && ok {
		ok, err = s.pointsToRecord(q, offset, e, nil)
	}
	if err != nil || !ok {
		return -1, err
	}
	return s.storeTimeAt(e.Offset)
}

// storeTimeAt returns the store time in ms of the record at a physical offset, -1 if it cannot be read.
func (s *Store) storeTimeAt(off int64) (int64, error) {
	var head [headBytes]byte
	if err := s.ReadAt(head[:], off); err != nil {
		return -1, err
	}
	at := 56 // of the store time, behind an IPv4 born host
	if int32(be32(head[36:]))&record.SysBornIPv6 != 0 {
		at = 68
	}
	return int64(be64(head[at:])), nil
}

// OffsetByTime returns a queue offset for a store time in ms: that of the first message at or after
// it, or with upper that of the last at or before it. Beyond the queue's messages it is the end of
// the queue, with upper its last message; before them it is the first (stock broker 5.5.0). Store times
// never go back in a queue, so the search halves. Any goroutine may call it.
func (s *Store) OffsetByTime(q *Queue, ms int64, upper bool) (int64, error) {
	if q == nil {
		return 0, nil
	}
	low, high := q.Min(), q.Max()
	var failed error
	n := sort.Search(int(high-low), func(i int) bool {
		t, err := s.StoreTime(q, low+int64(i))
		failed = errors.Join(failed, err)
		if upper {
			return t > ms
		}
		return t >= ms
	})
	at := low + int64(n)
	if upper {
		at--
	}
	return min(max(at, low), high), failed
}
