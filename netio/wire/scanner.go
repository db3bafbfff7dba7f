package wire

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep JSON may nest: the deepest body of the protocol has six levels.
const maxDepth = 64

// scanner walks over JSON in the dialect that fastjson 1.2.83 reads: besides the standard, keys
// without quotes, single quotes, comments, a comma before the closing bracket, integers and whole
// objects as keys. The first error sticks and ends every loop: it moves at to the end of the input.
//
// Every header of a request passes here. What stock clients send, standard JSON without blanks, takes a
// few nanoseconds per element: it is looked for first, and texts are searched eight bytes at a time.
type scanner struct {
	in      []byte
	at      int
	depth   int
	scratch []byte // texts that had escapes, one after the other
	err     error
}

func (s *scanner) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("JSON at byte %d: %w", s.at, fmt.Errorf(format, args...))
	}
	s.at = len(s.in)
}

// peek skips blanks and comments and returns the byte that follows, 0 at the end or after an error.
func (s *scanner) peek() byte {
	if s.at < len(s.in) && !blank[s.in[s.at]] {
		return s.in[s.at]
	}
	return s.skipBlanks()
}

// blank marks the bytes that begin a blank or a comment.
var blank = [256]bool{' ': true, '\t': true, '\n': true, '\r': true, '\f': true, '\b': true, '/': true}

// skipBlanks is peek where blanks or comments may stand.
func (s *scanner) skipBlanks() byte {
	for s.at < len(s.in) {
		switch b := s.in[s.at]; b {
		case ' ', '\t', '\n', '\r', '\f', '\b':
			s.at++
		case '/':
			s.comment()
		default:
			return b
		}
	}
	return 0
}

func (s *scanner) comment() {
	rest := s.in[s.at:]
	if len(rest) >= 2 && rest[1] == '/' {
		for s.at < len(s.in) && s.in[s.at] != '\n' {
			s.at++
		}
		return
	}
	if len(rest) >= 2 && rest[1] == '*' {
		for i := 3; i < len(rest); i++ {
			if rest[i] == '/' && rest[i-1] == '*' {
				s.at += i + 1
				return
			}
		}
	}
	s.fail("a slash that begins no comment, or one without end")
}

// enter takes the bracket that opens an object or an array.
func (s *scanner) enter(open byte) {
	if s.peek() != open {
		s.fail("want %q", open)
		return
	}
	if s.at++; s.depth == maxDepth {
		s.fail("nested deeper than %d", maxDepth)
	}
	s.depth++
}

// more reports whether another element follows before the closing bracket, which it takes. It
// takes the comma before any element but the first, and one before the bracket. False after an error.
func (s *scanner) more(closing byte, first bool) bool {
	if in, at := s.in, s.at; !first && at+1 < len(in) && in[at] == ',' && in[at+1] == '"' {
		s.at++
		return true
	}
	b := s.peek()
	if !first && b == ',' {
		s.at++
		b = s.peek()
		first = true
	}
	if s.err != nil {
		return false
	}
	if b == closing {
		s.at++
		s.depth--
		return false
	}
	if !first || b == 0 {
		s.fail("want a comma or %q", closing)
		return false
	}
	return true
}

// colon takes what stands between a key and its value.
func (s *scanner) colon() {
	if s.peek() != ':' {
		s.fail("want a colon")
		return
	}
	s.at++
}

// key reads a key and its colon. An object used as a key is returned as it stands.
func (s *scanner) key() (k []byte) {
	if k := s.plainKey(); k != nil {
		return k
	}
	switch b := s.peek(); b {
	case '"', '\'':
		k = s.text(b)
	case '{', '[':
		k = s.raw()
	default:
		k = s.word()
	}
	s.colon()
	return k
}

// plainKey takes a key in double quotes without escapes, and the colon right behind it. Else it takes nothing
// and returns nil.
func (s *scanner) plainKey() []byte {
	in, from := s.in, s.at+1
	if from > len(in) || in[from-1] != '"' {
		return nil
	}
	i := special(in, from, '"')
	if i+1 >= len(in) || in[i] != '"' || in[i+1] != ':' {
		return nil
	}
	s.at = i + 2
	return in[from:i:i]
}

// scalar reads any value as text: a text without its quotes, a number or a word as it stands, an
// object or an array as it stands. The word null is nil; an empty text is not.
func (s *scanner) scalar() []byte {
	if s.at < len(s.in) && s.in[s.at] == '"' {
		return s.text('"')
	}
	switch b := s.peek(); b {
	case '"', '\'':
		return s.text(b)
	case '{', '[':
		return s.raw()
	default:
		w := s.literal()
		if string(w) == "null" {
			return nil
		}
		return w
	}
}

// raw returns a value of any kind as it stands.
func (s *scanner) raw() []byte {
	from := s.at
	s.skip()
	return s.in[from:s.at]
}

// literal reads a number or one of the three words that may stand for a value.
func (s *scanner) literal() []byte {
	w := s.word()
	if s.err != nil {
		return nil
	}
	switch b := w[0]; {
	case b >= '0' && b <= '9', b == '-', b == '+', b == '.':
		return w
	}
	switch string(w) {
	case "true", "false", "null":
		return w
	}
	s.fail("%q is no value", w[:min(len(w), shownBytes)])
	return nil
}

// word reads up to the next delimiter.
func (s *scanner) word() []byte {
	from := s.at
	for s.at < len(s.in) && !delimiter[s.in[s.at]] {
		s.at++
	}
	if s.at == from {
		s.fail("want a value")
	}
	return s.in[from:s.at]
}

// delimiter marks the bytes that end a word.
var delimiter = func() (d [256]bool) {
	for _, b := range []byte(" \t\n\r\f\b,:{}[]\"'/") {
		d[b] = true
	}
	return d
}()

// skip goes over a value of any kind.
func (s *scanner) skip() {
	switch s.peek() {
	case '{':
		s.enter('{')
		for first := true; s.more('}', first); first = false {
			s.skipKey()
			s.skip()
		}
	case '[':
		s.enter('[')
		for first := true; s.more(']', first); first = false {
			s.skip()
		}
	case '"', '\'':
		s.skipText()
	default:
		s.literal()
	}
}

func (s *scanner) skipKey() {
	switch s.peek() {
	case '{', '[', '"', '\'':
		s.skip()
	default:
		s.word()
	}
	s.colon()
}

func (s *scanner) skipText() {
	quote := s.in[s.at]
	for i := special(s.in, s.at+1, quote); i < len(s.in); i = special(s.in, i+2, quote) {
		if s.in[i] == quote {
			s.at = i + 1
			return
		}
	}
	s.fail("a text without end")
}

// special returns where from i on the first quote or backslash stands in b, len(b) or more if there is none.
func special(b []byte, i int, quote byte) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for quotes := uint64(quote) * ones; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		q, e := w^quotes, w^'\\'*ones // a byte that is looked for is 0 in one of them
		if found := ((q-ones)&^q | (e-ones)&^e) & tops; found != 0 {
			return i + bits.TrailingZeros64(found)/8 // only bytes behind the first can be wrong
		}
	}
	for ; i < len(b) && b[i] != quote && b[i] != '\\'; i++ {
	}
	return i
}

// text reads a text in quotes. Without escapes it is a view into the input, otherwise it is built
// in the scratch. Control characters and ill-formed UTF-8 pass.
func (s *scanner) text(quote byte) []byte {
	from := s.at + 1
	i := special(s.in, from, quote)
	switch {
	case i >= len(s.in):
		s.fail("a text without end")
		return nil
	case s.in[i] == quote:
		s.at = i + 1
		return s.in[from:i:i]
	}
	return s.escaped(quote, from, i)
}

// escaped goes on with a text whose first escape stands at i.
func (s *scanner) escaped(quote byte, from, i int) []byte {
	start := len(s.scratch)
	s.scratch = append(s.scratch, s.in[from:i]...)
	for i < len(s.in) {
		switch s.in[i] {
		case quote:
			s.at = i + 1
			return s.scratch[start:len(s.scratch):len(s.scratch)]
		case '\\':
			n := s.unescape(s.in[i:])
			if n == 0 {
				s.at = i
				s.fail("an escape that is none")
				return nil
			}
			i += n
		default:
			run := i
			i = special(s.in, i, quote)
			s.scratch = append(s.scratch, s.in[run:i]...)
		}
	}
	s.fail("a text without end")
	return nil
}

// plainEscape holds what stands for each one-letter escape; 0 where there is none.
var plainEscape = [256]byte{
	'"': '"', '\'': '\'', '\\': '\\', '/': '/',
	'b': '\b', 'f': '\f', 'F': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v',
	'1': 1, '2': 2, '3': 3, '4': 4, '5': 5, '6': 6, '7': 7,
}

// unescape adds what the escape at the start of in stands for to the scratch and returns how many
// bytes it took, 0 for an unknown one.
func (s *scanner) unescape(in []byte) int {
	if len(in) < 2 {
		return 0
	}
	switch e := in[1]; e {
	case 'u':
		return s.unescapeUnicode(in)
	case 'x':
		n, ok := hexadecimal(in, 2, 4)
		if !ok {
			return 0
		}
		s.scratch = utf8.AppendRune(s.scratch, n)
		return 4
	case '0':
		s.scratch = append(s.scratch, 0)
	default:
		if plainEscape[e] == 0 {
			return 0
		}
		s.scratch = append(s.scratch, plainEscape[e])
	}
	return 2
}

// unescapeUnicode reads \uXXXX, or two of them that form a surrogate pair. Half a pair becomes
// U+FFFD.
func (s *scanner) unescapeUnicode(in []byte) int {
	r, ok := hexadecimal(in, 2, 6)
	if !ok {
		return 0
	}
	if !utf16.IsSurrogate(r) {
		s.scratch = utf8.AppendRune(s.scratch, r)
		return 6
	}
	if len(in) >= 12 && in[6] == '\\' && in[7] == 'u' {
		if low, ok := hexadecimal(in, 8, 12); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				s.scratch = utf8.AppendRune(s.scratch, pair)
				return 12
			}
		}
	}
	s.scratch = utf8.AppendRune(s.scratch, utf8.RuneError)
	return 6
}

// hexadecimal reads in[from:to].
func hexadecimal(in []byte, from, to int) (r rune, ok bool) {
	if len(in) < to {
		return 0, false
	}
	var odd byte
	for _, b := range in[from:to] {
		odd |= digit[b]
		r = r<<4 | rune(digit[b]&15)
	}
	return r, odd < 16
}

// digit holds the value of each hexadecimal digit; 16 where there is none.
var digit = func() (d [256]byte) {
	for i := range d {
		switch b := byte(i); {
		case b >= '0' && b <= '9':
			d[i] = b - '0'
		case b|0x20 >= 'a' && b|0x20 <= 'f':
			d[i] = b | 0x20 - 'a' + 10
		default:
			d[i] = 16
		}
	}
	return d
}()

// end complains about anything but blanks after the value.
func (s *scanner) end() {
	if s.peek(); s.at < len(s.in) {
		s.fail("something follows the value")
	}
}
