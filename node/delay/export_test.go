package delay

import "time"

// Pass delivers what is due and what there is room for, as Run does.
func (s *Schedule) Pass() time.Duration { return s.pass() }

// Flying is how many batches are not visible yet.
func (s *Schedule) Flying() int { return len(s.flying) }

// BatchBytes is about how much one batch holds.
const BatchBytes = batchBytes

// Sent notes a delivery; see deliver.
func (t *Table) Sent(level int, next, end int64) { t.deliver(level, next, end) }

// Done is the offset of a level.
func (t *Table) Done(level int) int64 { return t.get(level) }
