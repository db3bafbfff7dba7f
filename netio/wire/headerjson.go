package wire

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"
)

// parseJSON reads a header in the JSON form. Members may come in any order, be null or missing;
// unknown ones are skipped.
func (c *Command) parseJSON(header []byte) error {
	c.Code, c.Language, c.Version, c.Opaque, c.Flag = 0, Java, 0, 0, 0
	s := scanner{in: header, scratch: c.scratch}
	s.enter('{')
	for first := true; s.more('}', first); first = false {
		c.member(&s, s.key())
	}
	s.end()
	c.scratch = s.scratch
	if s.err != nil {
		return fmt.Errorf("%w: %w", ErrHeader, s.err)
	}
	return nil
}

// headerMembers are the members of the stock class that count.
var headerMembers = [...]string{"code", "extFields", "flag", "language", "opaque", "remark", "version"}

func (c *Command) member(s *scanner, key []byte) {
	switch string(key) {
	case "code":
		c.Code = Code(headerInt(s, key, int32(c.Code)))
	case "extFields":
		c.extFields(s)
	case "flag":
		c.Flag = headerInt(s, key, c.Flag)
	case "language":
		c.Language = headerLanguage(s)
	case "opaque":
		c.Opaque = headerInt(s, key, c.Opaque)
	case "remark":
		if c.Remark = s.scalar(); len(c.Remark) == 0 {
			c.Remark = nil // Go clients send an empty one instead of none
		}
	case "version":
		c.Version = headerInt(s, key, c.Version)
	case "serializeTypeCurrentRPC": // the frame tells the header's form
		s.skip()
	default:
		for _, name := range headerMembers {
			if string(key) != name && sameName(key, name) {
				c.member(s, []byte(name))
				return
			}
		}
		s.skip()
	}
}

func (c *Command) extFields(s *scanner) {
	c.Fields = c.Fields[:0]
	if s.peek() != '{' {
		if s.scalar() != nil {
			s.fail("extFields: want an object")
		}
		return
	}
	s.enter('{')
	for first := true; s.more('}', first); first = false {
		if len(c.Fields) == maxFields {
			s.fail("more than %d fields", maxFields)
			return
		}
		c.Fields = slices.Grow(c.Fields, 1)[:len(c.Fields)+1]
		f := &c.Fields[len(c.Fields)-1] // filled in place: a copy of what was just written stalls
		f.Key = s.key()
		f.Value = s.scalar()
	}
}

func headerInt(s *scanner, name []byte, absent int32) int32 {
	v := s.scalar()
	if v == nil {
		return absent
	}
	n, ok := looseInt(v, 32)
	if !ok {
		s.fail("%w", illTyped(string(name), v, "an int32"))
	}
	return int32(n)
}

func headerLanguage(s *scanner) Language {
	v := s.scalar()
	if n, ok := parseInt(v, 32); ok && n >= 0 && n < int64(len(languageNames)) {
		return Language(n)
	}
	return languageNamed(v)
}

// looseInt reads an integer as fastjson takes it: also 6.0 and 1e3, as long as nothing is lost.
func looseInt(v []byte, bits int) (int64, bool) {
	if n, ok := parseInt(v, bits); ok {
		return n, true
	}
	if len(v) > 32 {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v), 64)
	n := int64(f)
	limit := float64(uint64(1) << (bits - 1))
	return n, err == nil && f >= -limit && f < limit && float64(n) == f
}

// sameName compares a key with a member's name as fastjson does when no member has exactly that
// name: letter case, '_' and '-' do not count.
func sameName(key []byte, name string) bool {
	i := 0
	for _, b := range key {
		if b == '_' || b == '-' {
			continue
		}
		if i == len(name) || lower(b) != lower(name[i]) {
			return false
		}
		i++
	}
	return i == len(name)
}

func lower(b byte) byte {
	if b >= 'A' && b <= 'Z' {
		return b | 0x20
	}
	return b
}

// appendJSON writes the header in the JSON form: members in the order of the stock broker, every
// field a text, null ones left out.
func (c *Command) appendJSON(dst []byte) []byte {
	dst = c.openJSON(dst)
	open := `,"extFields":{`
	for i := range c.Fields {
		f := &c.Fields[i]
		if f.Value == nil {
			continue
		}
		dst = append(dst, open...)
		open = ","
		dst = appendQuoted(dst, f.Key)
		dst = append(dst, ':')
		dst = appendQuoted(dst, f.Value)
	}
	if open == "," {
		dst = append(dst, '}')
	}
	return c.closeJSON(dst)
}

// openJSON writes what stands before the fields.
func (c *Command) openJSON(dst []byte) []byte {
	dst = append(dst, `{"code":`...)
	return strconv.AppendInt(dst, int64(c.Code), 10)
}

// closeJSON writes what stands behind the fields.
func (c *Command) closeJSON(dst []byte) []byte {
	dst = append(dst, `,"flag":`...)
	dst = strconv.AppendInt(dst, int64(c.Flag), 10)
	dst = append(dst, `,"language":`...)
	if int(c.Language) < len(languageNames) {
		dst = append(dst, '"')
		dst = append(dst, languageNames[c.Language]...)
		dst = append(dst, '"')
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"opaque":`...)
	dst = strconv.AppendInt(dst, int64(c.Opaque), 10)
	if c.Remark != nil {
		dst = append(dst, `,"remark":`...)
		dst = appendQuoted(dst, c.Remark)
	}
	dst = append(dst, `,"serializeTypeCurrentRPC":"JSON","version":`...)
	dst = strconv.AppendInt(dst, int64(c.Version), 10)
	return append(dst, '}')
}

// appendQuoted writes a text in standard JSON. Bytes that are not UTF-8 become U+FFFD, as they
// would in a Java client.
func appendQuoted(dst, text []byte) []byte {
	dst = append(dst, '"')
	from := 0
	for i := plainBytes(text, 0); i < len(text); i = plainBytes(text, i) {
		b := text[i]
		if b >= utf8.RuneSelf {
			r, n := utf8.DecodeRune(text[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(dst, text[from:i]...)
				dst = utf8.AppendRune(dst, utf8.RuneError)
				from = i + 1
			}
			i += n
			continue
		}
		dst = append(dst, text[from:i]...)
		dst = appendEscape(dst, b)
		i++
		from = i
	}
	dst = append(dst, text[from:]...)
	return append(dst, '"')
}

// plainBytes returns the end of the bytes from i on that stand for themselves in a JSON text: ASCII without
// control characters, quotes and backslashes. It looks at eight at a time.
func plainBytes(text []byte, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(text); i += 8 {
		w := binary.LittleEndian.Uint64(text[i:])
		q, e := w^'"'*ones, w^'\\'*ones
		if odd := (w | (w-' '*ones)&^w | (q-ones)&^q | (e-ones)&^e) & tops; odd != 0 {
			return i + bits.TrailingZeros64(odd)/8 // only bytes behind the first can be wrong
		}
	}
	for ; i < len(text); i++ {
		if b := text[i]; b < ' ' || b >= utf8.RuneSelf || b == '"' || b == '\\' {
			break
		}
	}
	return i
}

func appendEscape(dst []byte, b byte) []byte {
	const digits = "0123456789abcdef"
	switch b {
	case '"', '\\':
		return append(dst, '\\', b)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', digits[b>>4], digits[b&15])
}
