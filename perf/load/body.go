package load

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
)

// Stamp is what the body of a message begins with, where it is long enough, so that whoever reads it knows whose it is
// and when it should have been sent:
//
//	i4 magic  i4 run  i4 sender  i8 number, from 0 on  i8 time, ns since 1970
type Stamp struct {
	Run    uint32
	Sender uint32
	Number uint64
	At     int64
}

// StampBytes is the length of a stamp.
const StampBytes = 4 + 4 + 4 + 8 + 8

const stampMagic = 0x72714C64

// noise is what follows a stamp: bytes that no device can compress, the same in each process, so that a reader can check
// them. Each message has a piece from another place.
type noise []byte

const noisePlaces = 4093 // a prime: numbers that differ in one bit have different places

// newNoise makes noise for bodies of up to so many bytes.
func newNoise(bytes int) noise {
	n := make(noise, noisePlaces+bytes+8)
	dice := rand.NewPCG(7, 11) // fixed: sender and reader are two processes
	for i := 0; i+8 <= len(n); i += 8 {
		binary.LittleEndian.PutUint64(n[i:], dice.Uint64())
	}
	return n
}

// of is the filler of message number, without its first bytes.
func (n noise) of(number uint64, bytes int) []byte { return n[number%noisePlaces:][:bytes] }

// appendBody appends a body of size bytes. One that is too short for a stamp is all noise.
func (n noise) appendBody(dst []byte, size int, s Stamp) []byte {
	if size < StampBytes {
		return append(dst, n.of(s.Number, size)...)
	}
	dst = binary.BigEndian.AppendUint32(dst, stampMagic)
	dst = binary.BigEndian.AppendUint32(dst, s.Run)
	dst = binary.BigEndian.AppendUint32(dst, s.Sender)
	dst = binary.BigEndian.AppendUint64(dst, s.Number)
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.At))
	return append(dst, n.of(s.Number, size-StampBytes)...)
}

// errAltered is a body that begins with a stamp and goes on with something else than was sent.
var errAltered = errors.New("load: the body is not what was sent")

// check reads the stamp of a body and compares the rest. Bodies that no load has sent are errShort.
func (n *noise) check(body []byte) (s Stamp, err error) {
	if len(body) < StampBytes || binary.BigEndian.Uint32(body) != stampMagic {
		return s, errShort
	}
	s = Stamp{
		Run: binary.BigEndian.Uint32(body[4:]), Sender: binary.BigEndian.Uint32(body[8:]),
		Number: binary.BigEndian.Uint64(body[12:]), At: int64(binary.BigEndian.Uint64(body[20:])),
	}
	rest := body[StampBytes:]
	if len(*n) < noisePlaces+len(rest) {
		*n = newNoise(len(rest))
	}
	if !bytes.Equal(rest, n.of(s.Number, len(rest))) {
		return s, errAltered
	}
	return s, nil
}
