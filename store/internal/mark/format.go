// Package mark keeps the durable mark: an offset up to which the log is known to be on the disk. After
// a crash it tells the torn end of the log, which nobody was promised, from damage to what was.
//
// It has a file of its own, because it moves far more often than a checkpoint is worth its price: one
// small write in place and one flush, by a goroutine of its own.
package mark

import (
	"encoding/binary"
	"hash/crc32"
)

// Name is the file's name in the store directory.
const Name = "ringmq.durable"

// The file is two slots, each at the start of a page, so that one that is torn while it is written
// leaves the other. The newer one counts. A slot, big-endian:
//
//	 0  8   "ringmqdm"
//	 8  i4  version, 1
//	12  i4  zero
//	16  i8  number of the write: odd ones go to the second slot
//	24  i8  the mark: the log is on the disk up to here at least
//	32  i4  CRC-32C of all before
const (
	magic     = "ringmqdm"
	version   = 1
	slotBytes = 36
	pageBytes = 4096
	fileBytes = 2 * pageBytes
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// slot is what one slot says.
type slot struct{ number, durable int64 }

func (s slot) append(dst []byte) []byte {
	from := len(dst)
	dst = append(dst, magic...)
	dst = binary.BigEndian.AppendUint64(dst, version<<32)
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.number))
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.durable))
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[from:], castagnoli))
}

// parse returns what a slot says; false if it is not intact, or of a version that is not known.
func parse(b []byte) (slot, bool) {
	if len(b) < slotBytes || string(b[:8]) != magic || binary.BigEndian.Uint64(b[8:]) != version<<32 ||
		crc32.Checksum(b[:slotBytes-4], castagnoli) != binary.BigEndian.Uint32(b[slotBytes-4:]) {
		return slot{}, false
	}
	s := slot{number: int64(binary.BigEndian.Uint64(b[16:])), durable: int64(binary.BigEndian.Uint64(b[24:]))}
	return s, s.number >= 0 && s.durable >= 0
}

// newest returns what the file's bytes say; false if no slot is intact.
func newest(b []byte) (s slot, ok bool) {
	for at := 0; at < len(b) && at < fileBytes; at += pageBytes {
		if one, intact := parse(b[at:]); intact && (!ok || one.number > s.number) {
			s, ok = one, true
		}
	}
	return s, ok
}

// Judge returns the mark that the bytes of the file tell, 0 if none: nothing is known to be durable. ok
// is whether a slot was intact.
func Judge(b []byte) (durable int64, ok bool) {
	s, ok := newest(b)
	return s.durable, ok
}

// Damaged is the rule by which recovery and verification tell damage from a torn end, where the log's
// first bad place is at end. Where ringmq wrote last (known) what was durable must still be there.
// Elsewhere there is no mark, and a whole record behind the place is the witness.
func Damaged(end int64, known bool, durable, recordsBehind int64) bool {
	if known {
		return end < durable
	}
	return recordsBehind > 0
}
