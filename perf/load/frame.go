package load

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"ringmq/netio/wire"
)

// A load repeats itself: of the thousands of requests to one queue only the opaque and the body differ. A template is
// everything but these, encoded once. All opaques have ten digits, so that they fit the place of the first.
const opaqueBase = 1_000_000_000

type template struct {
	head     []byte // lengths and header
	opaqueAt int
}

// newTemplate encodes cmd, whose opaque it sets, for bodies of so many bytes.
func newTemplate(cmd *wire.Command, bodyBytes int) template {
	cmd.Opaque = opaqueBase
	t := template{head: cmd.AppendHead(nil, bodyBytes)}
	const name = `"opaque":`
	t.opaqueAt = bytes.Index(t.head, []byte(name+"1000000000"))
	if t.opaqueAt < 0 {
		panic("load: a header without an opaque")
	}
	t.opaqueAt += len(name)
	return t
}

// append appends lengths and header of the request number n, which must be below opaqueBase. The body has to follow.
func (t *template) append(dst []byte, n int) []byte {
	at := len(dst) + t.opaqueAt
	dst = append(dst, t.head...)
	for i := 9; i > 0; i-- {
		dst[at+i] = byte('0' + n%10)
		n /= 10
	}
	return dst
}

// frames reads frames from a connection, as many at a time as have come.
type frames struct {
	conn     io.Reader
	buf      []byte
	from, to int
}

// next returns the next frame, which is valid until the call after it.
func (f *frames) next() ([]byte, error) {
	need := 4
	for {
		if have := f.to - f.from; have >= 4 {
			n, err := wire.FrameBytes(f.buf[f.from:f.to])
			if err != nil {
				return nil, err
			}
			if have >= n {
				frame := f.buf[f.from : f.from+n]
				f.from += n
				return frame, nil
			}
			need = n
		}
		if err := f.fill(need); err != nil {
			return nil, err
		}
	}
}

// waits tells whether next has to read, and so may have to wait.
func (f *frames) waits() bool {
	have := f.buf[f.from:f.to]
	if len(have) < 4 {
		return true
	}
	n, err := wire.FrameBytes(have)
	return err == nil && len(have) < n
}

// fill reads once, into a buffer that has room for a frame of need bytes.
func (f *frames) fill(need int) error {
	if f.from > 0 && (f.from == f.to || f.from+need > len(f.buf)) {
		f.to = copy(f.buf, f.buf[f.from:f.to])
		f.from = 0
	}
	if need > len(f.buf) {
		f.buf = append(f.buf, make([]byte, max(need, 2*len(f.buf))-len(f.buf))...)
	}
	n, err := f.conn.Read(f.buf[f.to:])
	f.to += n
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// number and code of an answer to a request that a template made. Of most answers nothing else is of interest, and
// looking for two numbers costs a tenth of parsing them all; what is not found so is parsed.
func readAnswer(frame []byte, scratch *wire.Command) (number int, code wire.Code, err error) {
	head := frame[4:]
	if n := binary.BigEndian.Uint32(head); n>>24 == 0 && int(n) <= len(head)-4 { // a JSON header
		head = head[4 : 4+n]
		opaque, one := memberInt(head, `"opaque":`)
		c, two := memberInt(head, `"code":`)
		if one && two {
			return opaque - opaqueBase, wire.Code(c), nil
		}
	}
	scratch.Recycle()
	if err := scratch.Parse(frame); err != nil {
		return 0, 0, err
	}
	return int(scratch.Opaque) - opaqueBase, scratch.Code, nil
}

// memberInt is the number behind a name; false if there is none, or if the name is there twice.
func memberInt(head []byte, name string) (n int, ok bool) {
	at := bytes.Index(head, []byte(name))
	if at < 0 {
		return 0, false
	}
	at += len(name)
	if name == `"code":` && bytes.Contains(head[at:], []byte(name)) {
		return 0, false
	}
	from := at
	for at < len(head) && head[at] >= '0' && head[at] <= '9' && at-from < 10 {
		n = n*10 + int(head[at]-'0')
		at++
	}
	return n, at > from && at < len(head)
}

// errOpaque is an answer that no request has asked for.
func errOpaque(number int) error {
	return fmt.Errorf("answer with opaque=%d, which no request had", number+opaqueBase)
}

// errShort is a body that is too small to tell whose it is.
var errShort = errors.New("load: the body is shorter than a stamp")
