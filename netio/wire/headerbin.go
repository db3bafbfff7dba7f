package wire

import (
	"encoding/binary"
	"fmt"
	"math"
)

// The binary header, "ROCKETMQ" in the remoting protocol:
//
//	int16 code, int8 language, int16 version, int32 opaque, int32 flag,
//	int32 n + remark, int32 n + fields, where a field is int16 n + key, int32 n + value
//
// It cannot tell an empty text from none.
const binaryFixedBytes = 21

var _ = [1]struct{}{}[binaryFixedBytes-(2+1+2+4+4+4+4)] // stops compiling when the widths no longer add up

// maxFields bounds the fields of a header. Requests of the protocol have fewer than 30.
const maxFields = 1024

func (c *Command) parseBinary(header []byte) error {
	if len(header) < binaryFixedBytes {
		return fmt.Errorf("%w: %d bytes, fewer than %d", ErrHeader, len(header), binaryFixedBytes)
	}
	be := binary.BigEndian
	c.Code = Code(int16(be.Uint16(header)))
	c.Language = Language(header[2]).known()
	c.Version = int32(int16(be.Uint16(header[3:])))
	c.Opaque = int32(be.Uint32(header[5:]))
	c.Flag = int32(be.Uint32(header[9:]))
	remark, rest, ok := cut32(header[13:])
	if !ok {
		return fmt.Errorf("%w: remark reaches over its end", ErrHeader)
	}
	if len(remark) > 0 {
		c.Remark = remark
	}
	fields, rest, ok := cut32(rest)
	if !ok || len(rest) > 0 {
		return fmt.Errorf("%w: fields do not end where it ends", ErrHeader)
	}
	return c.parseBinaryFields(fields)
}

func (c *Command) parseBinaryFields(b []byte) error {
	for len(b) > 0 {
		if len(c.Fields) == maxFields {
			return fmt.Errorf("%w: more than %d fields", ErrHeader, maxFields)
		}
		key, rest, ok := cut16(b)
		if !ok {
			return fmt.Errorf("%w: key %d reaches over the fields' end", ErrHeader, len(c.Fields))
		}
		value, rest, ok := cut32(rest)
		if !ok {
			return fmt.Errorf("%w: value %d reaches over the fields' end", ErrHeader, len(c.Fields))
		}
		if len(value) == 0 {
			value = nil // as the stock broker reads it
		}
		c.Fields = append(c.Fields, Field{Key: key, Value: value})
		b = rest
	}
	return nil
}

// cut32 splits off a block that follows its int32 length.
func cut32(b []byte) (block, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := binary.BigEndian.Uint32(b)
	if b = b[4:]; uint64(n) > uint64(len(b)) { // a negative length is a large one here
		return nil, nil, false
	}
	return b[:n:n], b[n:], true
}

// cut16 splits off a block that follows its int16 length.
func cut16(b []byte) (block, rest []byte, ok bool) {
	if len(b) < 2 {
		return nil, nil, false
	}
	n := int(int16(binary.BigEndian.Uint16(b)))
	if b = b[2:]; n < 0 || n > len(b) {
		return nil, nil, false
	}
	return b[:n:n], b[n:], true
}

// fitsBinary tells whether the binary form can carry c: it cuts codes and versions to 16 bits.
func (c *Command) fitsBinary() bool {
	if c.Code != Code(int16(c.Code)) || c.Version != int32(int16(c.Version)) {
		return false
	}
	for i := range c.Fields {
		if len(c.Fields[i].Key) > math.MaxInt16 {
			return false
		}
	}
	return true
}

// appendBinary writes the header in the binary form. Null fields are left out.
func (c *Command) appendBinary(dst []byte) []byte {
	be := binary.BigEndian
	dst = be.AppendUint16(dst, uint16(c.Code))
	dst = append(dst, byte(c.Language))
	dst = be.AppendUint16(dst, uint16(c.Version))
	dst = be.AppendUint32(dst, uint32(c.Opaque))
	dst = be.AppendUint32(dst, uint32(c.Flag))
	dst = be.AppendUint32(dst, uint32(len(c.Remark)))
	dst = append(dst, c.Remark...)
	length := len(dst)
	dst = be.AppendUint32(dst, 0)
	for i := range c.Fields {
		f := &c.Fields[i]
		if f.Value == nil {
			continue
		}
		dst = be.AppendUint16(dst, uint16(len(f.Key)))
		dst = append(dst, f.Key...)
		dst = be.AppendUint32(dst, uint32(len(f.Value)))
		dst = append(dst, f.Value...)
	}
	be.PutUint32(dst[length:], uint32(len(dst)-length-4))
	return dst
}
