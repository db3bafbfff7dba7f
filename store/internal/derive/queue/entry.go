// Package queue is the ConsumeQueue of one queue of a topic: an array of entries that tells where in
// the log each message of the queue is. It can be rebuilt from the log.
//
//	<dir>/<topic>/<queue id>/<20 digits>      files of one size, named by the byte offset of their start
//
//	 0  i8  physical offset of the record
//	 8  i4  its size
//	12  i8  hash of its tags, or for a delayed message the time of its delivery
//
// Entry i stands at byte 20*i of the queue (stock broker 5.5.0). New entries wait in memory, the
// tail, until a page of them or a checkpoint is due; then one goroutine writes them (write.go). Any
// goroutine reads: from the tail or from the files (read.go). open.go finds a queue again after a
// stop and throws away what the log must confirm.
package queue

import (
	"encoding/binary"
	"math"
)

// EntryBytes is the size of an entry.
const EntryBytes = 20

var _ = [1]struct{}{}[EntryBytes-(8+4+8)]

// Entry points to one message.
type Entry struct {
	Offset int64 // physical offset of its record
	Size   int32
	Tags   int64
}

// preBlank fills the places before the first entry of a queue that does not begin at a file's start
// (stock broker 5.5.0).
var preBlank = Entry{Size: math.MaxInt32}

// Append adds e to dst.
func (e Entry) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.Offset))
	dst = binary.BigEndian.AppendUint32(dst, uint32(e.Size))
	return binary.BigEndian.AppendUint64(dst, uint64(e.Tags))
}

// Parse reads the entry at the start of src, which holds EntryBytes at least. Any bytes are an entry;
// Valid tells whether it may point to a record.
func Parse(src []byte) Entry {
	return Entry{
		Offset: int64(binary.BigEndian.Uint64(src)),
		Size:   int32(binary.BigEndian.Uint32(src[8:])),
		Tags:   int64(binary.BigEndian.Uint64(src[12:])),
	}
}

// Valid reports whether e is an entry at all, and not the zeros behind the last one.
func (e Entry) Valid() bool { return e.Offset >= 0 && e.Size > 0 }

// PreBlank reports whether e only fills a place before the queue's first entry.
func (e Entry) PreBlank() bool { return e == preBlank }

// filler takes the place of an entry whose message the log has lost, before the entry next. It has that
// one's offset, so that offsets grow along the queue, which searches rely on.
func filler(next Entry) Entry { return Entry{Offset: next.Offset, Size: math.MaxInt32} }

// Filler reports whether e only fills a place, before the first entry or between others.
func (e Entry) Filler() bool { return e.Size == math.MaxInt32 }

// Extended reports whether e has no tags but a place in consumequeue_ext, where a stock broker keeps them
// (5.5.0, enableConsumeQueueExt).
func (e Entry) Extended() bool { return e.Tags < math.MinInt32 }

// End is the physical offset after the record.
func (e Entry) End() int64 { return e.Offset + int64(e.Size) }
