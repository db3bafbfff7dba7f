package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// MaxFrameBytes is the largest frame, its length prefix included; the stock broker and the stock
// clients close a connection that sends more.
const MaxFrameBytes = 16 << 20

const (
	prefixBytes    = 8         // total, form and header length
	maxHeaderBytes = 1<<24 - 1 // what three bytes can say
)

// Errors that end a connection: where the next frame begins is unknown, or nobody can be answered.
var (
	ErrFrameLength   = errors.New("wire: frame length out of range")
	ErrFrameTooLarge = errors.New("wire: frame too large")
	ErrHeader        = errors.New("wire: malformed header")
)

// FrameBytes returns the length of a frame, its length prefix included, from its first four bytes.
// The error is ErrFrameLength or ErrFrameTooLarge.
func FrameBytes(prefix []byte) (int, error) {
	if len(prefix) < 4 {
		return 0, fmt.Errorf("%w: %d bytes of the prefix", ErrFrameLength, len(prefix))
	}
	total := int(int32(binary.BigEndian.Uint32(prefix)))
	if total < prefixBytes-4 {
		return 0, fmt.Errorf("%w: %d", ErrFrameLength, total)
	}
	if total > MaxFrameBytes-4 {
		return 0, fmt.Errorf("%w: %d bytes, at most %d", ErrFrameTooLarge, total, MaxFrameBytes-4)
	}
	return total + 4, nil
}

// Parse reads a whole frame, length prefix included. Afterwards the slices of c point into frame or
// into the scratch of c. It allocates nothing once c is warm. After an error c holds rubbish.
func (c *Command) Parse(frame []byte) error {
	total, err := FrameBytes(frame)
	if err != nil {
		return err
	}
	if total != len(frame) {
		return fmt.Errorf("%w: says %d, is %d", ErrFrameLength, total, len(frame))
	}
	word := binary.BigEndian.Uint32(frame[4:])
	n := int(word & maxHeaderBytes)
	if n > total-prefixBytes {
		return fmt.Errorf("%w: %d bytes in a frame of %d", ErrHeader, n, total)
	}
	header, body := frame[prefixBytes:prefixBytes+n], frame[prefixBytes+n:]
	c.Remark, c.Fields, c.Body = nil, c.Fields[:0], nil
	if len(body) > 0 {
		c.Body = body
	}
	switch c.Encoding = Encoding(word >> 24); c.Encoding {
	case JSON:
		return c.parseJSON(header)
	case RocketMQ:
		return c.parseBinary(header)
	}
	return fmt.Errorf("%w: form %d", ErrHeader, c.Encoding)
}

// Append adds the whole frame, length prefix included, to dst. It allocates only to grow dst. A
// command that the binary form cannot carry goes out as JSON.
func (c *Command) Append(dst []byte) []byte {
	return append(c.AppendHead(dst, len(c.Body)), c.Body...)
}

// AppendHead adds length prefix and header of a frame to dst. The body, of bodyBytes bytes, must
// follow by other means; c.Body is not looked at.
func (c *Command) AppendHead(dst []byte, bodyBytes int) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, prefixBytes)...)
	form := c.Encoding
	if form == RocketMQ && c.fitsBinary() {
		dst = c.appendBinary(dst)
	} else {
		form = JSON
		dst = c.appendJSON(dst)
	}
	return c.endHead(dst, start, form, bodyBytes)
}

// endHead fills the prefix of the frame that begins at start, now that its header is there.
func (c *Command) endHead(dst []byte, start int, form Encoding, bodyBytes int) []byte {
	n := len(dst) - start - prefixBytes
	if n > maxHeaderBytes {
		return c.tooLong(n).AppendHead(dst[:start], bodyBytes)
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(4+n+bodyBytes))
	binary.BigEndian.PutUint32(dst[start+4:], uint32(form)<<24|uint32(n))
	return dst
}

// tooLong stands in for a command whose header no frame can carry, so that the other side is told.
func (c *Command) tooLong(headerBytes int) *Command {
	d := *c
	d.Code, d.Fields = SystemError, nil
	d.Remark = fmt.Appendf(nil, "wire: a header of %d bytes fits no frame", headerBytes)
	return &d
}

// Recode adds to dst the answer in frame with another code and remark, and without fields and body
// unless keepFields. The frame must be one that Append made. For the cold path: it allocates.
func Recode(dst, frame []byte, code Code, remark string, keepFields bool) []byte {
	var c Command
	if err := c.Parse(frame); err != nil {
		panic(fmt.Sprintf("wire: recode of a frame that Append did not make: %v", err))
	}
	if c.Code = code; !keepFields {
		c.Fields, c.Body = nil, nil
	}
	c.SetRemark(remark)
	return c.Append(dst)
}

// CRC32 is the checksum of the protocol: CRC-32 (IEEE) without its highest bit.
func CRC32(b []byte) uint32 { return crc32.ChecksumIEEE(b) & 0x7FFFFFFF }
