// Package record is one message as bytes: how a record of the CommitLog is written, parsed and
// judged, and the small formats inside it: properties, batch bodies, tag hashes, message ids. It does
// no I/O and keeps nothing.
//
// The layout is that of the stock broker 5.5.0. All numbers are big-endian and signed; A and B are 4
// bytes for an IPv4 host and 16 for an IPv6 one.
//
//	 0  i4   total size, this field included
//	 4  i4   magic: V1 0xDAA320A7, V2 0xDAA320AB, blank 0xCBD43194
//	 8  i4   CRC-32 (IEEE) of the body as stored, & 0x7FFFFFFF; 0 for an empty body
//	12  i4   queue id
//	16  i4   flag: the application's own
//	20  i8   queue offset
//	28  i8   physical offset: where the record itself stands in the CommitLog
//	36  i4   sysFlag
//	40  i8   born time, ms since 1970
//	48  A+i4 born host, port
//	    i8   store time, ms since 1970
//	    B+i4 store host, port
//	    i4   reconsume times
//	    i8   prepared transaction offset
//	    i4+n body
//	    n    topic: length as u1 (at most 127) in V1, as i2 in V2
//	    i2+n properties: name 0x01 value 0x02, repeated; the last 0x02 may be missing
//
// A blank record fills a segment's end: its size, its magic, zeros. A record never spans segments.
//
// # Whole-record checks
//
// The body CRC covers neither topic nor properties, so a record glued together from two messages by a
// power cut in a recycled segment can pass it. Records therefore end in a check of their own, inside
// the properties, where every stock reader takes it for one more entry:
//
//   - CheckTrailer: the record's last nine bytes are 0x02 '~' 'r' and six digits: the unpadded
//     base64url form of the big-endian CRC-32C (Castagnoli) of all bytes of the record before the
//     digits. The 0x02 is the separator that ends the entry before, or one of its own where the
//     properties are empty or do not end in one. The entry has no name-value separator, and stock
//     readers skip such entries.
//   - CheckProperty: the stock broker's form (enabledAppendPropCRC): the last twenty bytes are
//     "__CRC32#" 0x01, ten decimal digits, least significant first, 0x02; the number is the CRC-32
//     (IEEE) & 0x7FFFFFFF of all bytes before these twenty.
//
// Any number is a valid check, 0 as well: a check is missing when its form is missing. Where
// properties and check together would exceed 32767 bytes the record is stored without. An incoming
// entry of either form is removed before a record is written, whatever the check, so that only a
// writer's own check can stand there. Verify holds a record to the check that it carries, and to the
// stock rule (sizes and body CRC) if it carries none; Record.Lacks tells the cases apart in which it
// should carry one.
package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// Magic numbers of the records in a CommitLog.
const (
	MagicV1    uint32 = 0xDAA320A7 // the topic's length is one byte
	MagicV2    uint32 = 0xDAA320AB // the topic's length is two bytes
	MagicBlank uint32 = 0xCBD43194 // filler up to the end of a segment
)

// Limits of the format.
const (
	MaxTopicBytes = 255       // what stock brokers take; above 127 the record is V2
	MaxPropsBytes = 1<<15 - 1 // the length is a signed 16-bit number
	MinBlankBytes = 8         // size and magic: the room that must remain behind every record of a segment
)

// SysFlag bits that the store reads or sets.
const (
	SysCompressed      int32 = 0x1
	SysMultiTags       int32 = 0x2
	SysTransactionMask int32 = 0xC
	SysPrepared        int32 = 0x4 // a half message: enters no queue
	SysCommit          int32 = 0x8
	SysRollback        int32 = 0xC // enters no queue
	SysBornIPv6        int32 = 0x10
	SysStoreIPv6       int32 = 0x20
	SysNeedUnwrap      int32 = 0x40
	SysInnerBatch      int32 = 0x80
)

const (
	sysFlagAt  = 36
	hostsAt    = 48            // where the born host begins
	bodyAt     = 88            // where the body begins, with IPv4 hosts; its length stands before it
	fixedBytes = 91            // a V1 record with IPv4 hosts and without body, topic, properties
	ipv6Extra  = 16 - 4        // per IPv6 host
	maxRecord  = 1<<31 - 1 - 8 // size and the blank record's head fit an int32
)

var _ = [1]struct{}{}[bodyAt-(hostsAt+(4+4)+8+(4+4)+4+8+4)]
var _ = [1]struct{}{}[fixedBytes-(bodyAt+1+2)]

// What is wrong with a message; Size wraps these with numbers.
var (
	ErrTopicTooLong  = errors.New("record: topic too long")
	ErrNoTopic       = errors.New("record: no topic")
	ErrPropsTooLong  = errors.New("record: properties too long")
	ErrRecordTooLong = errors.New("record: too long")
)

// Message is what becomes a record. Its slices are only read. A host's address decides about its
// form: IPv4 (also mapped into IPv6) takes 4 bytes, IPv6 takes 16 and sets its bit of SysFlag.
type Message struct {
	Topic          string
	QueueID        int32
	Flag           int32
	SysFlag        int32
	ReconsumeTimes int32
	BornMs         int64
	Born           netip.AddrPort
	Store          netip.AddrPort
	PreparedOffset int64
	Body           []byte
	Props          []byte
	BodyCRC        uint32 // BodyCRC(Body), computed before any lock is held
}

// Size returns the bytes that Append will write with check c, or why the message cannot be a record:
// ErrNoTopic, ErrTopicTooLong, ErrPropsTooLong or ErrRecordTooLong. After a nil error Append cannot
// fail.
func (m *Message) Size(c Check) (int, error) {
	propsBytes, last := measureClean(m.Props)
	switch {
	case len(m.Topic) == 0:
		return 0, ErrNoTopic
	case len(m.Topic) > MaxTopicBytes:
		return 0, fmt.Errorf("%w: %d bytes, at most %d", ErrTopicTooLong, len(m.Topic), MaxTopicBytes)
	case propsBytes > MaxPropsBytes:
		return 0, fmt.Errorf("%w: %d bytes, at most %d", ErrPropsTooLong, propsBytes, MaxPropsBytes)
	case len(m.Body) > maxRecord-fixedBytes-2*ipv6Extra-1-MaxTopicBytes-MaxPropsBytes:
		return 0, fmt.Errorf("%w: %d bytes of body", ErrRecordTooLong, len(m.Body))
	}
	size := fixedBytes + len(m.Body) + len(m.Topic) + propsBytes + c.extraBytes(propsBytes, last)
	if len(m.Topic) > maxTopicV1 {
		size++
	}
	if isIPv6(m.Born) {
		size += ipv6Extra
	}
	if isIPv6(m.Store) {
		size += ipv6Extra
	}
	return size, nil
}

const maxTopicV1 = 127 // the length byte is signed

// Append writes the record of m to dst: exactly Size(c) bytes. Size must have returned no error. It
// allocates nothing when dst has room.
func (m *Message) Append(dst []byte, c Check, queueOffset, physOffset, storeMs int64) []byte {
	start := len(dst)
	magic, sysFlag := MagicV1, m.SysFlag&^(SysBornIPv6|SysStoreIPv6)
	if len(m.Topic) > maxTopicV1 {
		magic = MagicV2
	}
	if isIPv6(m.Born) {
		sysFlag |= SysBornIPv6
	}
	if isIPv6(m.Store) {
		sysFlag |= SysStoreIPv6
	}

	be := binary.BigEndian
	dst = be.AppendUint32(dst, 0) // the size, known at the end
	dst = be.AppendUint32(dst, magic)
	dst = be.AppendUint32(dst, m.BodyCRC)
	dst = be.AppendUint32(dst, uint32(m.QueueID))
	dst = be.AppendUint32(dst, uint32(m.Flag))
	dst = be.AppendUint64(dst, uint64(queueOffset))
	dst = be.AppendUint64(dst, uint64(physOffset))
	dst = be.AppendUint32(dst, uint32(sysFlag))
	dst = be.AppendUint64(dst, uint64(m.BornMs))
	dst = appendHost(dst, m.Born)
	dst = be.AppendUint64(dst, uint64(storeMs))
	dst = appendHost(dst, m.Store)
	dst = be.AppendUint32(dst, uint32(m.ReconsumeTimes))
	dst = be.AppendUint64(dst, uint64(m.PreparedOffset))
	dst = be.AppendUint32(dst, uint32(len(m.Body)))
	dst = append(dst, m.Body...)
	if magic == MagicV1 {
		dst = append(dst, byte(len(m.Topic)))
	} else {
		dst = be.AppendUint16(dst, uint16(len(m.Topic)))
	}
	dst = append(dst, m.Topic...)
	return m.appendProps(dst, start, c)
}

// appendProps writes the properties, then the size of the record that begins at start, then the
// check, which covers the size.
func (m *Message) appendProps(dst []byte, start int, c Check) []byte {
	lenAt := len(dst)
	dst = append(dst, 0, 0)
	dst = appendClean(dst, m.Props)
	clean := dst[lenAt+2:]
	extra := c.extraBytes(len(clean), lastByte(clean))
	binary.BigEndian.PutUint16(dst[lenAt:], uint16(len(clean)+extra))
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start+extra))
	if extra > 0 {
		dst = c.append(dst, start, extra)
	}
	return dst
}

// AppendBlank appends a blank record of size bytes: its head, then zeros. Size is at least
// MinBlankBytes.
func AppendBlank(dst []byte, size int) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(size))
	dst = binary.BigEndian.AppendUint32(dst, MagicBlank)
	return append(dst, make([]byte, size-MinBlankBytes)...)
}

// isIPv6 reports whether the host takes 16 bytes. The zero AddrPort counts as 0.0.0.0:0.
func isIPv6(h netip.AddrPort) bool {
	return h.Addr().Is6() && !h.Addr().Is4In6()
}

// appendHost writes the address, 4 or 16 bytes, and the port as 4.
func appendHost(dst []byte, h netip.AddrPort) []byte {
	if a := h.Addr(); a.Is4() {
		b := a.As4()
		dst = append(dst, b[:]...)
	} else if b := a.As16(); isIPv6(h) {
		dst = append(dst, b[:]...)
	} else {
		dst = append(dst, b[12:]...)
	}
	return binary.BigEndian.AppendUint32(dst, uint32(h.Port()))
}
