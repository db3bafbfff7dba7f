package queue

// CountBelow returns the queue offset after the last entry that points below a physical offset, 0 if
// there is none, and keeps it. It belongs to the goroutine that writes.
func (q *Queue) CountBelow(at int64) (int64, error) {
	q.mu.Lock()
	first := q.first
	q.mu.Unlock()
	end := q.Max()
	last, ok, err := q.Entry(end - 1)
	if err != nil {
		return 0, err
	}
	if ok && last.Offset >= at {
		if end, err = q.search(max(first, q.counted), func(e Entry) bool { return !e.PreBlank() && e.Offset >= at }); err != nil {
			return 0, err
		}
	}
	if end == first {
		end = 0
	}
	q.counted = end
	return end, nil
}

// Counted is what CountBelow returned last, 0 before.
func (q *Queue) Counted() int64 { return q.counted }
