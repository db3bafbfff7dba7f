package delay

import "time"

// Pass delivers what is due and what there is room for, as Run does.
func (s *Schedule) Pass() time.Duration { return s.pass() }

// Flying is how many batches are not visible yet.
func (s *Schedule) Flying() int { return len(s.flying) }

// Due reports whether a message is due that was not delivered.
func (s *Schedule) Due() bool {
	for _, l := range s.levels {
		q, next := s.queue(l), l.next.Load()
		if q == nil || next >= q.Max() {
			continue
		}
		entries, err := s.opts.Store.Entries(nil, q, next, 1)
		if err == nil && len(entries) > 0 && l.isDue(next, entries[0].Tags, s.opts.Clock.Now()) {
			return true
		}
	}
	return false
}

// BatchBytes is about how much one batch holds.
const BatchBytes = batchBytes

// Sent notes a delivery; see deliver.
func (t *Table) Sent(level int, next, end int64) { t.deliver(level, next, end) }

// Done is the offset of a level.
func (t *Table) Done(level int) int64 { return t.get(level) }
