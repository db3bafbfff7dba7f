package store

// Queue is the handle of one queue of a topic. It lives as long as its Store.
type Queue struct{}

// Topic returns the topic's name.
func (q *Queue) Topic() string { panic("building") }

// ID returns the queue's number in its topic.
func (q *Queue) ID() int32 { panic("building") }

// Min returns the first queue offset whose message is still there.
func (q *Queue) Min() int64 { panic("building") }

// Max returns the queue offset after the last visible message.
func (q *Queue) Max() int64 { panic("building") }

// Watch asks for one call of OnArrive when entries become visible from now on. Register first, then
// look at Max again: an entry is either seen by that look or reported. Any goroutine may call it.
func (q *Queue) Watch() { panic("building") }

// OpenQueue returns the handle of a queue and makes one if there is none. No file is made before
// the first entry. The topic must be a checked name. Any goroutine may call it.
func (s *Store) OpenQueue(topic string, id int32) *Queue { panic("building") }

// Queue returns the handle of a queue that was opened or found on the disk, else nil.
func (s *Store) Queue(topic string, id int32) *Queue { panic("building") }

// Queues calls f for each queue, in no order.
func (s *Store) Queues(f func(*Queue)) { panic("building") }
