package store

import "ringmq/uring"

// Status is what a Get found, with the meanings and names of the stock broker.
type Status uint8

const (
	Found Status = iota
	NoMatchedMessage
	MessageWasRemoving
	OffsetFoundNull
	OffsetOverflowBadly
	OffsetOverflowOne
	OffsetTooSmall
	NoMatchedLogicQueue
	NoMessageInQueue
	OffsetReset
)

var statusNames = [...]string{
	"FOUND", "NO_MATCHED_MESSAGE", "MESSAGE_WAS_REMOVING", "OFFSET_FOUND_NULL", "OFFSET_OVERFLOW_BADLY",
	"OFFSET_OVERFLOW_ONE", "OFFSET_TOO_SMALL", "NO_MATCHED_LOGIC_QUEUE", "NO_MESSAGE_IN_QUEUE", "OFFSET_RESET",
}

// String returns the stock broker's name of the status.
func (s Status) String() string { return statusNames[s] }

// Get says what to read from a queue.
type Get struct {
	Offset   int64 // first queue offset wanted
	MaxCount int
	MaxBytes int
	Match    func(tagsCode int64) bool // nil takes all
}

// Got is the answer to a Get. Its slices are reused by the next Get into it.
type Got struct {
	Status   Status
	Next     int64 // queue offset to ask for next
	Min, Max int64 // the queue's first offset, and the one after its last visible
	Runs     []Run // contiguous physical ranges in order, merged
	Count    int   // messages
	Bytes    int
}

// Run is a contiguous range of the log that holds whole records.
type Run struct {
	Offset int64
	Bytes  int
}

// Get finds messages of a queue by its entries; it reads no message. A nil q gives
// NoMatchedLogicQueue. Any goroutine may call it; it may read the entries from a file.
func (s *Store) Get(q *Queue, g Get, out *Got) error { panic("building") }

// Range returns n bytes of the visible log from off as something that can be sent from the file.
// The caller must Release it. A range never spans two segments: ErrOffset.
func (s *Store) Range(off int64, n int) (uring.FileRange, error) { panic("building") }

// ReadAt fills p with the visible log from off; a range within one segment, else ErrOffset.
func (s *Store) ReadAt(p []byte, off int64) error { panic("building") }

// OffsetByTime returns the queue offset for a store time, as the stock broker's search does: the
// first at or after ms, or with upper the last at or before ms.
func (s *Store) OffsetByTime(q *Queue, ms int64, upper bool) (int64, error) { panic("building") }

// StoreTime returns the store time in ms of the message at a queue offset, -1 if there is none.
func (s *Store) StoreTime(q *Queue, offset int64) (int64, error) { panic("building") }

// MinOffset returns the first physical offset of the log.
func (s *Store) MinOffset() int64 { panic("building") }
