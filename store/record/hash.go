package record

import (
	"unicode/utf16"
	"unicode/utf8"
)

// TagsCode is what a queue entry keeps of a message's tags: 0 without tags, else the hash of the whole
// text as a signed number.
func TagsCode(tags []byte) int64 {
	return int64(JavaHash(tags)) // of an empty text it is 0
}

// JavaHash is Java's String.hashCode of the UTF-8 text b: h = 31*h + c over its UTF-16 code units, in
// 32 bits. A byte that is no UTF-8 counts as U+FFFD.
func JavaHash(b []byte) int32 {
	var h int32
	for i := 0; i < len(b); {
		if i+4 <= len(b) && b[i]|b[i+1]|b[i+2]|b[i+3] < utf8.RuneSelf { // four at a time: one waits for the other
			h = 31*31*31*31*h + 31*31*31*int32(b[i]) + 31*31*int32(b[i+1]) + 31*int32(b[i+2]) + int32(b[i+3])
			i += 4
			continue
		}
		if b[i] < utf8.RuneSelf {
			h = 31*h + int32(b[i])
			i++
			continue
		}
		r, n := utf8.DecodeRune(b[i:])
		i += n
		if r > 0xFFFF {
			high, low := utf16.EncodeRune(r)
			h = 31*h + high
			r = low
		}
		h = 31*h + r
	}
	return h
}
