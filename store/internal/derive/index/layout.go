package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"ringmq/store/record"
)

// Big-endian and signed, as all of the stock broker's files (5.5.0).
const (
	headBytes  = 40
	slotBytes  = 4
	entryBytes = 20
)

// geometry is where things stand in a file.
type geometry struct {
	slots, entries int32
}

// frontBytes is the length of head and slots.
func (g geometry) frontBytes() int64 { return headBytes + slotBytes*int64(g.slots) }

func (g geometry) fileBytes() int64 { return g.entryAt(g.entries) }

func (g geometry) slotAt(s int32) int64 { return headBytes + slotBytes*int64(s) }

func (g geometry) entryAt(number int32) int64 { return g.frontBytes() + entryBytes*int64(number) }

// slotOf is negative, and so no slot, for a negative hash; there is none but in a damaged file.
func (g geometry) slotOf(hash int32) int32 { return hash % g.slots }

// head is the begin of a file:
//
//	 0  i8  store time of the first entry's record
//	 8  i8  store time of the newest entry's record
//	16  i8  physical offset of the first entry's record
//	24  i8  physical offset of the newest entry's record
//	32  i4  slots that are used
//	36  i4  number of the next entry; 1 in an empty file
type head struct {
	beginMs, endMs     int64
	beginPhys, endPhys int64
	used               int32
	count              int32
}

var _ = [1]struct{}{}[headBytes-(4*8+2*4)]

func (h *head) append(dst []byte) []byte {
	for _, n := range [...]int64{h.beginMs, h.endMs, h.beginPhys, h.endPhys} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(n))
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.used))
	return binary.BigEndian.AppendUint32(dst, uint32(h.count))
}

// parseHead reads a head from headBytes at least. Zeros are that of an empty file.
func parseHead(b []byte) head {
	i8 := func(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }
	i4 := func(at int) int32 { return int32(binary.BigEndian.Uint32(b[at:])) }
	return head{beginMs: i8(0), endMs: i8(8), beginPhys: i8(16), endPhys: i8(24), used: i4(32), count: i4(36)}
}

// maxMs is beyond any clock. A clock that was set back may have put the end before the begin.
const maxMs = 1 << 52

// check says why this can be no head of a file that follows one with head before.
func (h *head) check(g geometry, before head) error {
	switch {
	case h.count < 0 || h.count > g.entries:
		return fmt.Errorf("its next entry is %d, of %d", h.count, g.entries)
	case h.empty() && *h == head{}:
		return nil
	case h.beginPhys < 0 || h.endPhys < h.beginPhys:
		return fmt.Errorf("it spans the log from %d to %d", h.beginPhys, h.endPhys)
	case min(h.beginMs, h.endMs) < 0 || max(h.beginMs, h.endMs) > maxMs:
		return fmt.Errorf("its records were stored from %d to %d ms", h.beginMs, h.endMs)
	case h.beginPhys < before.endPhys:
		return fmt.Errorf("it begins at %d of the log, and the file before it ends at %d", h.beginPhys, before.endPhys)
	case h.empty() && h.endPhys != before.endPhys:
		return errors.New("it has no entries, and does not follow the file before it")
	}
	return nil
}

func (h *head) empty() bool { return h.count <= 1 }

// next is the head of the file that follows one with head h.
func (h head) next() head {
	return head{beginMs: h.endMs, endMs: h.endMs, beginPhys: h.endPhys, endPhys: h.endPhys, count: 1}
}

// secondsAt is what an entry keeps of a store time. The first entry of a file is measured from the
// time that the file's head was given at its creation.
func (h *head) secondsAt(storeMs int64) int32 {
	if h.beginMs <= 0 {
		return 0
	}
	return int32(min(max((storeMs-h.beginMs)/1000, 0), math.MaxInt32))
}

// grow counts one more entry.
func (h *head) grow(phys, storeMs int64, newSlot bool) {
	if h.empty() {
		h.beginPhys, h.beginMs = phys, storeMs
	}
	h.endPhys, h.endMs = phys, storeMs
	if newSlot {
		h.used++
	}
	h.count++
}

// upTo is the head after the entry with that number, e. The slots in use are to be counted. Its end time
// is not known to the ms, and so not too early.
func (h head) upTo(number int32, e entry) head {
	h.count, h.endPhys = number+1, e.phys
	if number == 1 {
		h.endMs = h.beginMs
	} else {
		h.endMs = min(h.endMs, h.timeOf(number, e)+999)
	}
	return h
}

// timeOf is the store time of an entry's record, as it is known: in whole seconds from the file's first.
// What the first entry says of itself is measured from another time and not used. (The stock broker does
// use it, so that it takes that record for as much younger as the pause before it was long.)
func (h *head) timeOf(number int32, e entry) int64 {
	if number == 1 {
		return h.beginMs
	}
	return h.beginMs + 1000*int64(e.seconds)
}

// entry is one entry:
//
//	 0  i4  hash of the key
//	 4  i8  physical offset of the record
//	12  i4  seconds from the file's first store time to the record's
//	16  i4  number of the entry before it in its slot, 0 = none
type entry struct {
	hash    int32
	phys    int64
	seconds int32
	before  int32
}

var _ = [1]struct{}{}[entryBytes-(4+8+4+4)]

func (e entry) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(e.hash))
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.phys))
	dst = binary.BigEndian.AppendUint32(dst, uint32(e.seconds))
	return binary.BigEndian.AppendUint32(dst, uint32(e.before))
}

// parseEntry reads an entry from entryBytes at least.
func parseEntry(b []byte) entry {
	i4 := func(at int) int32 { return int32(binary.BigEndian.Uint32(b[at:])) }
	return entry{hash: i4(0), phys: int64(binary.BigEndian.Uint64(b[4:])), seconds: i4(12), before: i4(16)}
}

// hashOf is the hash of a whole key, topic included: Math.abs of its hash in Java, where that is not
// negative.
func hashOf(key []byte) int32 {
	h := record.JavaHash(key)
	if h < 0 {
		h = -h
	}
	return max(h, 0) // the smallest number has no positive one
}
