package wire

import (
	"bytes"
	"fmt"
)

// FieldError tells which header field cannot be used and why.
type FieldError struct {
	Name  string
	Value string // shortened to shownBytes; "" when the field is missing
	Want  string // "" when the field is missing
}

// shownBytes bounds how much of a stranger's value is repeated to him and to the log.
const shownBytes = 64

// Error reads like `queueId="x": want a decimal int32` or `queueId: missing`.
func (e *FieldError) Error() string {
	if e.Want == "" {
		return e.Name + ": missing"
	}
	return fmt.Sprintf("%s=%q: want %s", e.Name, e.Value, e.Want)
}

func missing(name string) error { return &FieldError{Name: name} }

func illTyped(name string, value []byte, want string) error {
	return &FieldError{Name: name, Value: string(value[:min(len(value), shownBytes)]), Want: want}
}

// reader takes typed values out of a command and keeps the first complaint. It looks each field up
// by name, which is fine for requests that come once in a while.
type reader struct {
	c   *Command
	err error
}

func (r *reader) need(name string) []byte {
	v, ok := r.c.Get(name)
	if !ok && r.err == nil {
		r.err = missing(name)
	}
	return v
}

// bytes returns a required text as a view.
func (r *reader) bytes(name string) []byte { return r.need(name) }

func (r *reader) text(name string) string { return string(r.need(name)) }

func (r *reader) int32(name string) int32 {
	return int32(r.integer(name, r.need(name), 32))
}

func (r *reader) int64(name string) int64 {
	return r.integer(name, r.need(name), 64)
}

func (r *reader) int32Or(name string, absent int32) int32 {
	if v, ok := r.c.Get(name); ok {
		return int32(r.integer(name, v, 32))
	}
	return absent
}

func (r *reader) int64Or(name string, absent int64) int64 {
	if v, ok := r.c.Get(name); ok {
		return r.integer(name, v, 64)
	}
	return absent
}

func (r *reader) boolOr(name string, absent bool) bool {
	if v, ok := r.c.Get(name); ok {
		return isTrue(v)
	}
	return absent
}

func (r *reader) integer(name string, v []byte, bits int) int64 {
	if r.err != nil {
		return 0
	}
	n, err := integer(name, v, bits)
	r.err = err
	return n
}

// integer reads a number by the rules of Java's Integer.parseInt and Long.parseLong: a sign or
// none, then decimal digits only, within the range.
func integer(name string, v []byte, bits int) (int64, error) {
	if n, ok := parseInt(v, bits); ok {
		return n, nil
	}
	if bits == 32 {
		return 0, illTyped(name, v, "a decimal int32")
	}
	return 0, illTyped(name, v, "a decimal int64")
}

func parseInt(v []byte, bits int) (int64, bool) {
	negative := len(v) > 0 && v[0] == '-'
	if negative || len(v) > 0 && v[0] == '+' {
		v = v[1:]
	}
	for len(v) > digitsMax && v[0] == '0' {
		v = v[1:]
	}
	if len(v) == 0 || len(v) > digitsMax {
		return 0, false
	}
	var n uint64
	for _, d := range v {
		if d -= '0'; d > 9 {
			return 0, false
		}
		n = n*10 + uint64(d)
	}
	limit := uint64(1)<<(bits-1) - 1
	if negative {
		limit++
	}
	if n > limit {
		return 0, false
	}
	if negative {
		n = -n
	}
	return int64(n), true
}

// digitsMax is how many decimal digits fit an uint64, whichever they are, and no fewer than any int64 has.
const digitsMax = 19

// isTrue reads a boolean as Java's Boolean.parseBoolean does: whatever is not "true" is false.
func isTrue(v []byte) bool { return len(v) == len("true") && equalFold(v, "true") }

func equalFold(v []byte, text string) bool { return bytes.EqualFold(v, []byte(text)) }

// seen notes which of a header's fields, numbered in its table of names, have arrived.
type seen uint32

func (s *seen) mark(field int) { *s |= 1 << field }

// lacks returns the first required name that has not arrived, "" when all have.
func (s seen) lacks(names []string, required seen) string {
	if required&^s == 0 {
		return ""
	}
	for i, name := range names {
		if required&^s&(1<<i) != 0 {
			return name
		}
	}
	return ""
}
