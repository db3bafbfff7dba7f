package record

import (
	"bytes"
	"hash/crc32"
	"strings"
)

// Check is the kind of whole-record check; the package comment defines the forms.
type Check uint8

// The kinds of check. The zero value is the default.
const (
	CheckTrailer  Check = iota // ours: no reader shows it
	CheckProperty              // the stock broker's: readers show a property "__CRC32#"
	CheckOff                   // none, as a stock broker does by default
)

// String returns the name that broker.conf uses.
func (c Check) String() string {
	switch c {
	case CheckTrailer:
		return "trailer"
	case CheckProperty:
		return "property"
	case CheckOff:
		return "off"
	}
	return "unknown"
}

const (
	trailerName   = "~r"
	trailerMark   = "\x02" + trailerName
	trailerDigits = 6
	trailerBytes  = len(trailerMark) + trailerDigits

	propertyMark   = "__CRC32#\x01"
	propertyDigits = 10
	propertyBytes  = len(propertyMark) + propertyDigits + 1
)

const base64URL = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

var trailerMarkBytes = []byte(trailerMark)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// BodyCRC is the CRC that a record keeps of its body, and that the protocol uses everywhere: CRC-32
// (IEEE) without its top bit.
func BodyCRC(body []byte) uint32 {
	return crc32.ChecksumIEEE(body) & 0x7FFFFFFF
}

// extraBytes is what the check adds to clean properties of propsBytes bytes that end in last: the
// entry, and a separator where one is missing; 0 when the check is off or there is no room.
func (c Check) extraBytes(propsBytes int, last byte) int {
	extra := 0
	switch c {
	case CheckTrailer:
		extra = trailerBytes
		if propsBytes > 0 && last == propSep {
			extra--
		}
	case CheckProperty:
		extra = propertyBytes
		if propsBytes > 0 && last != propSep {
			extra++
		}
	}
	if propsBytes+extra > MaxPropsBytes {
		return 0
	}
	return extra
}

// append writes the extra bytes that extraBytes announced to the record that begins at dst[start].
// The record must be complete but for them, its lengths included.
func (c Check) append(dst []byte, start, extra int) []byte {
	if c == CheckTrailer {
		if extra < trailerBytes {
			dst = dst[:len(dst)-1] // the separator that is there is the tail's first byte
		}
		tail := trailerOf(dst[start:])
		return append(dst, tail[:]...)
	}
	if extra > propertyBytes {
		dst = append(dst, propSep)
	}
	tail := propertyOf(dst[start:])
	return append(dst, tail[:]...)
}

// trailerOf returns the last nine bytes of a record that is head before them.
func trailerOf(head []byte) (tail [trailerBytes]byte) {
	copy(tail[:], trailerMark)
	crc := crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, trailerMarkBytes)
	bits := uint64(crc) << 4 // 36 bits, as base64 pads 4 bytes to 6 digits
	for i := range trailerDigits {
		tail[len(tail)-1-i] = base64URL[bits&63]
		bits >>= 6
	}
	return tail
}

// propertyOf returns the last twenty bytes of a record that is head before them.
func propertyOf(head []byte) [propertyBytes]byte {
	return propertyTail(BodyCRC(head))
}

func propertyTail(crc uint32) (tail [propertyBytes]byte) {
	copy(tail[:], propertyMark)
	for i := range propertyDigits {
		tail[len(propertyMark)+i] = '0' + byte(crc%10)
		crc /= 10
	}
	tail[propertyBytes-1] = propSep
	return tail
}

// judge looks for a check at the end of rec, whose last propsBytes bytes are its properties. It
// returns the kind that it found, and whether it holds.
//
// A check with one wrong byte in its own form would look like a record without a check. So bytes that
// are one byte away from the right check for the record before them count as a damaged check; for
// bytes that are none, the odds of that are below one in a billion.
func judge(rec []byte, propsBytes int) (found Check, holds bool) {
	if propsBytes >= trailerBytes {
		head, tail := rec[:len(rec)-trailerBytes], rec[len(rec)-trailerBytes:]
		if distance(tail, trailerMark) <= 1 {
			want := trailerOf(head)
			wrong := distance(tail, string(want[:]))
			if wrong <= 1 || isTrailerEntry(tail[1:]) && tail[0] == propSep {
				return CheckTrailer, wrong == 0
			}
		}
	}
	if propsBytes >= propertyBytes {
		head, tail := rec[:len(rec)-propertyBytes], rec[len(rec)-propertyBytes:]
		if distance(tail, propertyMark) <= 1 {
			want := propertyOf(head)
			wrong := distance(tail, string(want[:]))
			if wrong <= 1 || hasPropertySuffix(tail[:propertyBytes-1]) && tail[propertyBytes-1] == propSep {
				return CheckProperty, wrong == 0
			}
		}
	}
	return CheckOff, true
}

// distance counts the bytes in which b differs from want, over the length of want.
func distance(b []byte, want string) int {
	n := 0
	for i := range len(want) {
		if b[i] != want[i] {
			n++
		}
	}
	return n
}

// isTrailerEntry reports whether the entry (without separators) is a CheckTrailer's.
func isTrailerEntry(entry []byte) bool {
	if len(entry) != len(trailerName)+trailerDigits || string(entry[:len(trailerName)]) != trailerName {
		return false
	}
	for _, d := range entry[len(trailerName):] {
		if strings.IndexByte(base64URL, d) < 0 {
			return false
		}
	}
	return true
}

// hasPropertySuffix reports whether the entry ends in a CheckProperty's entry. It need not be all of
// it: a stock broker writes no separator before the check of a batch element that ends in none.
func hasPropertySuffix(entry []byte) bool {
	const n = propertyBytes - 1
	if len(entry) < n || string(entry[len(entry)-n:len(entry)-propertyDigits]) != propertyMark {
		return false
	}
	for _, d := range entry[len(entry)-propertyDigits:] {
		if d < '0' || d > '9' {
			return false
		}
	}
	return true
}

// cleanEntry returns what remains of one entry of incoming properties when everything that could be
// taken for a check is removed from it, and whether the entry stays at all.
func cleanEntry(entry []byte) (kept []byte, stays bool) {
	if bytes.HasPrefix(entry, []byte(propertyMark)) {
		return nil, false
	}
	for hasPropertySuffix(entry) {
		entry = entry[:len(entry)-(propertyBytes-1)]
	}
	return entry, !isTrailerEntry(entry)
}

// mayHoldCheck is a quick look for what cleanEntry removes: for a byte of each that properties hardly hold.
func mayHoldCheck(props []byte) bool {
	return bytes.IndexByte(props, trailerName[0]) >= 0 || bytes.IndexByte(props, propertyMark[len(propertyMark)-2]) >= 0
}

// measureClean returns the length of props without incoming checks, and the last byte of what remains.
func measureClean(props []byte) (n int, last byte) {
	if !mayHoldCheck(props) {
		return len(props), lastByte(props)
	}
	for rest := props; len(rest) > 0; {
		var entry []byte
		var ended bool
		entry, ended, rest = cutEntry(rest)
		kept, stays := cleanEntry(entry)
		if !stays {
			continue
		}
		if len(kept) > 0 {
			n, last = n+len(kept), lastByte(kept)
		}
		if ended {
			n, last = n+1, propSep
		}
	}
	return n, last
}

// appendClean appends props without incoming checks.
func appendClean(dst, props []byte) []byte {
	if !mayHoldCheck(props) {
		return append(dst, props...)
	}
	for rest := props; len(rest) > 0; {
		var entry []byte
		var ended bool
		entry, ended, rest = cutEntry(rest)
		kept, stays := cleanEntry(entry)
		if !stays {
			continue
		}
		dst = append(dst, kept...)
		if ended {
			dst = append(dst, propSep)
		}
	}
	return dst
}

// lastByte is 0 for no bytes at all.
func lastByte(b []byte) byte {
	if len(b) == 0 {
		return 0
	}
	return b[len(b)-1]
}
