package store

import "ringmq/store/record"

// Put is one message to be appended and what became of it.
type Put struct {
	record.Message
	Queue  *Queue
	Bytes  int  // what RecordBytes said and Reserve got
	Joined bool // with the Put before it: same queue, contiguous, one segment

	// Filled by Append. Err is nil, ErrBusy, ErrNoSpace, ErrFailed or ErrClosed; a refused Put takes
	// no offsets.
	Offset      int64 // physical offset of the record
	End         int64 // physical offset after it: acknowledged when a mark reaches it
	QueueOffset int64
	StoreMs     int64
	Err         error
}

// RecordBytes returns the size of the record that m becomes, or why it cannot be stored.
func (s *Store) RecordBytes(m *record.Message) (int, error) { panic("building") }

// Reserve takes staging for a record of n bytes. It returns nil, ErrBusy, ErrNoSpace, ErrFailed or
// ErrClosed. Any goroutine may call it; what it gave must go to Append or to Unreserve.
func (s *Store) Reserve(n int) error { panic("building") }

// Unreserve gives back what Reserve took.
func (s *Store) Unreserve(n int) { panic("building") }

// Append gives each Put its offsets and copies it into staging, under one short lock. It consumes
// the reservations, also those of refused Puts. Nothing of the Puts is referenced afterwards. The
// result is not stored yet: wait for a mark to reach End. Any goroutine may call it.
func (s *Store) Append(puts []Put) { panic("building") }
