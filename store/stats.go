package store

// Stats are counters since Open. All only grow.
type Stats struct {
	Appended      int64 // records
	AppendedBytes int64
	Busy          int64 // refusals with ErrBusy or ErrNoSpace
	Writes        int64
	Flushes       int64
	Segments      int64 // segments prepared
	ClockBackMs   int64 // largest step that the wall clock was behind the last store time
}

// Stats returns the counters. Any goroutine may call it.
func (s *Store) Stats() Stats { panic("building") }
