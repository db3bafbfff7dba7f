package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// What Parse and Verify find instead of a good record. They set Record.Size where they say so.
var (
	// ErrTorn: the bytes end before the record does. Size is what it claims, 0 if not even that is there.
	ErrTorn = errors.New("record: torn")
	// ErrBlank: a blank record, the filler at a segment's end. Size is what it claims to fill.
	ErrBlank = errors.New("record: blank")
	// ErrEmpty: size and magic are zero; nothing was written here.
	ErrEmpty = errors.New("record: empty")
	// ErrCorrupt: what stands here is no record, or no longer the one that was written.
	ErrCorrupt = errors.New("record: corrupt")
)

// Record is a view of stored bytes: Body, Topic and Props point into what was parsed.
type Record struct {
	Size           int
	Magic          uint32
	BodyCRC        uint32
	QueueID        int32
	Flag           int32
	QueueOffset    int64
	PhysOffset     int64
	SysFlag        int32
	BornMs         int64
	Born           netip.AddrPort
	StoreMs        int64
	Store          netip.AddrPort
	ReconsumeTimes int32
	PreparedOffset int64
	Body           []byte
	Topic          []byte
	Props          []byte // as stored, the check's entry included

	// Check is the whole-record check that Verify found; CheckOff also after Parse alone, which does
	// not look.
	Check Check
}

// InQueue reports whether a message with this sysFlag has a place in its queue, where consumers see it. A half
// message and a rollback have none (stock broker 5.5.0).
func InQueue(sysFlag int32) bool {
	t := sysFlag & SysTransactionMask
	return t != SysPrepared && t != SysRollback
}

// Message returns what a record was made of, without topic and queue, to be stored once more in others. Its slices
// are those of the record; the transaction that it was part of is over.
func (r *Record) Message() Message {
	return Message{
		Flag: r.Flag, SysFlag: r.SysFlag, ReconsumeTimes: r.ReconsumeTimes,
		BornMs: r.BornMs, Born: r.Born, Store: r.Store, Body: r.Body, Props: r.Props, BodyCRC: r.BodyCRC,
	}
}

// Verify is the one judge of a record: whoever admits bytes to a CommitLog (a slave, a tool) and
// whoever recovers one ask it, so that nothing accepted is refused later. It parses the record at the
// start of b, which stands at offset at of the CommitLog, and holds it to its own offset, to its body
// CRC and to the whole-record check that it carries. The errors are those of Parse. It allocates
// nothing unless the record is corrupt.
func Verify(b []byte, at int64, r *Record) error {
	if err := Parse(b, r); err != nil {
		return err
	}
	if r.PhysOffset != at {
		return fmt.Errorf("%w: it stands at %d and says %d", ErrCorrupt, at, r.PhysOffset)
	}
	if len(r.Body) > 0 {
		if crc := BodyCRC(r.Body); crc != r.BodyCRC {
			return fmt.Errorf("%w: body CRC is %#08x, stored %#08x", ErrCorrupt, crc, r.BodyCRC)
		}
	}
	found, holds := judge(b[:r.Size], len(r.Props))
	if !holds {
		return fmt.Errorf("%w: the record's %s check does not match its bytes", ErrCorrupt, found)
	}
	r.Check = found
	return nil
}

// Lacks reports whether r carries no check although a writer with check c would have given it one.
// Verify cannot object to such a record: a stock broker may have written it. A reader who knows that
// only a writer with c wrote here can, and thereby also refuses a record whose end, with the check in
// it, was lost or overwritten. Verify must have accepted r.
func (r *Record) Lacks(c Check) bool {
	if r.Check != CheckOff {
		return false
	}
	return c.extraBytes(len(r.Props), lastByte(r.Props)) > 0
}

// Parse reads the record at the start of b into r. It checks that the record is whole and that its
// lengths add up, nothing more. The errors are ErrTorn, ErrBlank, ErrEmpty, and ErrCorrupt with the
// reason; of these only ErrCorrupt allocates.
func Parse(b []byte, r *Record) error {
	*r = Record{Check: CheckOff}
	if len(b) < MinBlankBytes {
		return ErrTorn
	}
	be := binary.BigEndian
	size := int(int32(be.Uint32(b)))
	r.Magic = be.Uint32(b[4:])
	switch {
	case size == 0 && r.Magic == 0:
		return ErrEmpty
	case r.Magic == MagicBlank && size >= MinBlankBytes:
		r.Size = size
		return ErrBlank
	case r.Magic != MagicV1 && r.Magic != MagicV2:
		return fmt.Errorf("%w: magic %#08x, size %d", ErrCorrupt, r.Magic, size)
	case size < fixedBytes:
		return fmt.Errorf("%w: size %d, a record has at least %d", ErrCorrupt, size, fixedBytes)
	}
	r.Size = size
	if size > len(b) {
		return ErrTorn
	}
	p := parser{b: b[:size], at: 8}
	r.BodyCRC = p.uint32()
	r.QueueID = p.int32()
	r.Flag = p.int32()
	r.QueueOffset = p.int64()
	r.PhysOffset = p.int64()
	r.SysFlag = p.int32()
	r.BornMs = p.int64()
	r.Born = p.host(r.SysFlag&SysBornIPv6 != 0)
	r.StoreMs = p.int64()
	r.Store = p.host(r.SysFlag&SysStoreIPv6 != 0)
	r.ReconsumeTimes = p.int32()
	r.PreparedOffset = p.int64()
	r.Body = p.bytes(int(p.int32()))
	if r.Magic == MagicV1 {
		r.Topic = p.bytes(int(int8(p.uint8())))
	} else {
		r.Topic = p.bytes(int(p.int16()))
	}
	r.Props = p.bytes(int(p.int16()))
	if p.bad || p.at != size {
		return fmt.Errorf("%w: the lengths inside do not add up to its size %d", ErrCorrupt, size)
	}
	return nil
}

// HeadBytes are from a record's start to its body at most, the body's length included.
const HeadBytes = bodyAt + 2*ipv6Extra

// TopicAt returns where in a record its topic begins, which is after the body. It needs the record's first HeadBytes, or
// all of a record that is shorter. Not ok: no record begins so.
func TopicAt(head []byte) (at int, ok bool) {
	at = bodyAt
	if len(head) < sysFlagAt+4 {
		return 0, false
	}
	sysFlag := int32(binary.BigEndian.Uint32(head[sysFlagAt:]))
	if sysFlag&SysBornIPv6 != 0 {
		at += ipv6Extra
	}
	if sysFlag&SysStoreIPv6 != 0 {
		at += ipv6Extra
	}
	if len(head) < at {
		return 0, false
	}
	body := int32(binary.BigEndian.Uint32(head[at-4:]))
	return at + int(body), body >= 0
}

// TailProps returns the properties of a record whose magic and whose bytes from TopicAt on are given. Not ok: the lengths
// in there do not add up.
func TailProps(magic uint32, tail []byte) (props []byte, ok bool) {
	p := parser{b: tail}
	if magic == MagicV1 {
		p.bytes(int(int8(p.uint8())))
	} else {
		p.bytes(int(p.int16()))
	}
	props = p.bytes(int(p.int16()))
	return props, !p.bad && p.at == len(tail)
}

// parser walks over b. Once a field does not fit, bad is set and everything after it is zero.
type parser struct {
	b   []byte
	at  int
	bad bool
}

// zeros is what a parser reads past its end.
var zeros [16]byte

func (p *parser) bytes(n int) []byte {
	if p.bad || n < 0 || n > len(p.b)-p.at {
		p.bad = true
		return nil
	}
	p.at += n
	return p.b[p.at-n : p.at : p.at]
}

// fixed is bytes for the few widths of numbers and addresses; it never returns less than n bytes.
func (p *parser) fixed(n int) []byte {
	if b := p.bytes(n); b != nil {
		return b
	}
	return zeros[:n]
}

func (p *parser) uint8() byte    { return p.fixed(1)[0] }
func (p *parser) int16() int16   { return int16(binary.BigEndian.Uint16(p.fixed(2))) }
func (p *parser) uint32() uint32 { return binary.BigEndian.Uint32(p.fixed(4)) }
func (p *parser) int32() int32   { return int32(p.uint32()) }
func (p *parser) int64() int64   { return int64(binary.BigEndian.Uint64(p.fixed(8))) }

func (p *parser) host(ipv6 bool) netip.AddrPort {
	var addr netip.Addr
	if ipv6 {
		addr = netip.AddrFrom16([16]byte(p.fixed(16)))
	} else {
		addr = netip.AddrFrom4([4]byte(p.fixed(4)))
	}
	port := p.uint32()
	if port > 1<<16-1 {
		p.bad = true
	}
	return netip.AddrPortFrom(addr, uint16(port))
}
