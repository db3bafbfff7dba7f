package wire

import "strconv"

// Encoding is the form of a frame's header; the body is not touched by it.
type Encoding uint8

// The two header forms of the RocketMQ remoting protocol. The number is the frame's fifth byte.
const (
	JSON     Encoding = 0 // an object, lenient on the way in
	RocketMQ Encoding = 1 // binary; carries only codes and versions of 16 bits
)

// Bits of Command.Flag.
const (
	flagAnswer = 1
	flagOneway = 2
)

// Field is one header field. A nil Value is a null, which counts as absent.
type Field struct {
	Key, Value []byte
}

// Command is one request or answer. Its slices point into the frame it was parsed from or into the
// command's own scratch; Clone cuts both ties. One goroutine at a time.
type Command struct {
	Code     Code
	Language Language
	Encoding Encoding
	Version  int32 // ordinal of the sender's release, see VersionName
	Opaque   int32 // chosen by the asking side, echoed by the other
	Flag     int32
	Remark   []byte  // nil when there is none
	Fields   []Field // in the order of arrival; of equal keys the last one counts
	Body     []byte

	scratch []byte // what could not stay in the frame: unescaped text, values that were set
}

// scratchKeepBytes is how much scratch a command keeps for the next turn: more than the fields of
// any answer, less than what a flood of escaped headers may blow up.
const scratchKeepBytes = 1 << 20

// Recycle gives the scratch up for reuse: texts taken from earlier parses and values set before die
// with it. Parse itself only adds to the scratch, so that all requests of one turn stay readable.
func (c *Command) Recycle() {
	if cap(c.scratch) > scratchKeepBytes {
		c.scratch = nil
	}
	c.scratch = c.scratch[:0]
}

// Request makes c a JSON request without fields. The caller that sends it chooses the opaque.
func (c *Command) Request(code Code, opaque int32) {
	c.reset(code, opaque, JSON, 0)
}

// Answer makes c the answer to req: its opaque, its encoding, no fields. req and c may not be the
// same command.
func (c *Command) Answer(req *Command, code Code) {
	c.reset(code, req.Opaque, req.Encoding, flagAnswer)
}

func (c *Command) reset(code Code, opaque int32, enc Encoding, flag int32) {
	c.Recycle()
	c.Code, c.Language, c.Version = code, Java, BrokerVersion
	c.Encoding, c.Opaque, c.Flag = enc, opaque, flag
	c.Remark, c.Fields, c.Body = nil, c.Fields[:0], nil
}

// Oneway reports whether the sender wants no answer, not even an error. Some clients (Go) leave the
// bit out of one-way requests and drop the answer.
func (c *Command) Oneway() bool { return c.Flag&flagOneway != 0 }

// SetOneway says that no answer is wanted.
func (c *Command) SetOneway() { c.Flag |= flagOneway }

// IsAnswer reports whether c answers a request.
func (c *Command) IsAnswer() bool { return c.Flag&flagAnswer != 0 }

// Name is the stock name of the code, read as a request's or an answer's by the flag.
func (c *Command) Name() string {
	if c.IsAnswer() {
		return c.Code.AnswerName()
	}
	return c.Code.String()
}

// Get returns the value of a field, false when it is absent or null. Of equal keys the last one
// counts, as in the map of the stock broker.
func (c *Command) Get(key string) ([]byte, bool) {
	for i := len(c.Fields) - 1; i >= 0; i-- {
		if f := &c.Fields[i]; string(f.Key) == key && f.Value != nil {
			return f.Value, true
		}
	}
	return nil, false
}

// Text returns a copy of the value of a field, "" when it is absent.
func (c *Command) Text(key string) string {
	v, _ := c.Get(key)
	return string(v)
}

// Set sets a field to a copy of value.
func (c *Command) Set(key, value string) {
	c.put(key, append(c.keep(), value...))
}

// SetBytes sets a field to a copy of value.
func (c *Command) SetBytes(key string, value []byte) {
	c.put(key, append(c.keep(), value...))
}

// SetInt sets a field to a decimal number.
func (c *Command) SetInt(key string, value int64) {
	c.put(key, strconv.AppendInt(c.keep(), value, 10))
}

// SetBool sets a field to "true" or "false".
func (c *Command) SetBool(key string, value bool) {
	c.put(key, strconv.AppendBool(c.keep(), value))
}

// SetRemark sets the text for people. The empty text removes it.
func (c *Command) SetRemark(remark string) {
	if c.Remark = nil; remark != "" {
		c.Remark = c.own(append(c.keep(), remark...))
	}
}

// keep is the scratch, to be appended to and handed to own.
func (c *Command) keep() []byte { return c.scratch }

// own takes the grown scratch over and returns what was appended, never nil.
func (c *Command) own(grown []byte) []byte {
	from := len(c.scratch)
	if grown == nil {
		grown = []byte{} // an empty text on top of no scratch
	}
	c.scratch = grown
	return grown[from:len(grown):len(grown)]
}

func (c *Command) put(key string, grown []byte) {
	value := c.own(grown)
	for i := range c.Fields {
		if string(c.Fields[i].Key) == key {
			c.Fields[i].Value = value
			return
		}
	}
	c.Fields = append(c.Fields, Field{Key: c.own(append(c.keep(), key...)), Value: value})
}

// Clone returns a copy that owns all its memory.
func (c *Command) Clone() *Command {
	n := len(c.Remark) + len(c.Body)
	for _, f := range c.Fields {
		n += len(f.Key) + len(f.Value)
	}
	d := *c
	d.scratch = make([]byte, 0, n)
	d.Fields = make([]Field, len(c.Fields))
	d.Remark, d.Body = d.copied(c.Remark), d.copied(c.Body)
	for i, f := range c.Fields {
		d.Fields[i] = Field{Key: d.copied(f.Key), Value: d.copied(f.Value)}
	}
	return &d
}

func (c *Command) copied(b []byte) []byte {
	if b == nil {
		return nil
	}
	return c.own(append(c.keep(), b...))
}

// setSome sets a field that is left out when empty.
func (c *Command) setSome(key string, value []byte) {
	if len(value) > 0 {
		c.SetBytes(key, value)
	}
}
