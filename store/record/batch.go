package record

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrBatch means that a batch body is no sequence of whole elements.
var ErrBatch = errors.New("record: bad batch body")

const elementBytes = 4 + 4 + 4 + 4 + 4 + 2 // an element without body and properties

// Element is one message inside a batch body, the same bytes on the wire (SEND_BATCH_MESSAGE) and in
// a stored inner batch:
//
//	i4 size  i4 magic 0  i4 CRC 0  i4 flag  i4+n body  i2+n properties
//
// Its slices point into the batch body.
type Element struct {
	Flag  int32
	Body  []byte
	Props []byte
}

// Batch walks over the elements of a batch body:
//
//	for b := record.NewBatch(body); b.Next(&e); { … }
//	if err := b.Err(); err != nil { … }
type Batch struct {
	body []byte
	at   int
	err  error
}

// NewBatch starts at the first element of body.
func NewBatch(body []byte) Batch {
	return Batch{body: body}
}

// Next reads the next element into e. It returns false at the end, and at the first element that is
// not whole; Err tells which. Magic and CRC are not looked at, as in the stock broker.
func (b *Batch) Next(e *Element) bool {
	if b.err != nil || b.at == len(b.body) {
		return false
	}
	p := parser{b: b.body, at: b.at}
	size := int(p.int32())
	p.fixed(4 + 4)
	*e = Element{Flag: p.int32()}
	e.Body = p.bytes(int(p.int32()))
	e.Props = p.bytes(int(p.int16()))
	if p.bad || p.at-b.at != size {
		b.err = fmt.Errorf("%w: element at byte %d of %d says size %d", ErrBatch, b.at, len(b.body), size)
		return false
	}
	b.at = p.at
	return true
}

// Err is ErrBatch with the place when Next stopped before the end.
func (b *Batch) Err() error { return b.err }

// Append writes e as an element of a batch body.
func (e *Element) Append(dst []byte) []byte {
	be := binary.BigEndian
	dst = be.AppendUint32(dst, uint32(elementBytes+len(e.Body)+len(e.Props)))
	dst = be.AppendUint64(dst, 0) // magic, CRC
	dst = be.AppendUint32(dst, uint32(e.Flag))
	dst = be.AppendUint32(dst, uint32(len(e.Body)))
	dst = append(dst, e.Body...)
	dst = be.AppendUint16(dst, uint16(len(e.Props)))
	return append(dst, e.Props...)
}
