package store

import (
	"sync/atomic"

	"ringmq/store/internal/derive/queue"
)

// Queue is the handle of one queue of a topic. It lives as long as its Store.
type Queue struct {
	entries *queue.Queue
	trusted int64 // entries from this queue offset on were written by this process; constant

	next    int64       // guarded by the log's append lock: queue offset of the next message
	watched atomic.Bool // somebody wants OnArrive
}

type queueKey struct {
	topic string
	id    int32
}

// Topic returns the topic's name.
func (q *Queue) Topic() string { return q.entries.Topic() }

// ID returns the queue's number in its topic.
func (q *Queue) ID() int32 { return q.entries.ID() }

// Min returns the first queue offset whose message is still there; Max in a queue without messages.
func (q *Queue) Min() int64 { return q.entries.Min() }

// Max returns the queue offset after the last visible message.
func (q *Queue) Max() int64 { return q.entries.Max() }

// Watch asks for one call of OnArrive when entries become visible from now on. Call it first and then
// look at Max again: an entry is either seen by that look or reported. Any goroutine may call it.
func (q *Queue) Watch() { q.watched.Store(true) }

// OpenQueue returns the handle of a queue and makes one if there is none. No file is made before the
// first entry. The topic becomes a directory's name: it must have been checked. Any goroutine may
// call it.
func (s *Store) OpenQueue(topic string, id int32) *Queue {
	if q := s.Queue(topic, id); q != nil {
		return q
	}
	s.queuesMu.Lock()
	defer s.queuesMu.Unlock()
	key := queueKey{topic, id}
	if q := s.queues[key]; q != nil {
		return q
	}
	q := &Queue{entries: queue.New(s.files, s.queueRoot(), topic, id)}
	s.queues[key] = q
	return q
}

// Queue returns the handle of a queue that was opened or was found on the disk, else nil. It makes
// nothing and allocates nothing. Any goroutine may call it.
func (s *Store) Queue(topic string, id int32) *Queue {
	s.queuesMu.RLock()
	defer s.queuesMu.RUnlock()
	return s.queues[queueKey{topic, id}]
}

// Queues calls f for each queue, in no order. f may call methods of the Store.
func (s *Store) Queues(f func(*Queue)) {
	s.queuesMu.RLock()
	all := make([]*Queue, 0, len(s.queues))
	for _, q := range s.queues {
		all = append(all, q)
	}
	s.queuesMu.RUnlock()
	for _, q := range all {
		f(q)
	}
}
