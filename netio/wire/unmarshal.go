package wire

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"unicode/utf8"
)

// ErrNoValue is what Unmarshal says of an empty text and of a lone null.
var ErrNoValue = errors.New("wire: JSON: no value")

// Memory that Unmarshal may take for an input of n bytes: growBase + n*growFactor. The bodies of the
// protocol stay well below; a list of empty objects would take 50 bytes per byte.
const (
	growBase   = 64 << 10
	growFactor = 16
)

// Unmarshal reads the JSON text b into what v points to. It takes the dialect of fastjson 1.2.83,
// which stock clients and brokers may send and files of a stock broker hold: keys without quotes,
// integers or whole objects as keys, single quotes, comments, a comma before a closing bracket.
//
// It is as lenient about types: a number or a boolean may stand in quotes and the other way round,
// 6.0 is an integer, an empty text is no number. A member is found by its json tag, then
// without regard to letter case, '_' and '-'. Unknown members are skipped; of equal ones the last
// counts. A null leaves a member without value, which for numbers and booleans is the default.
// Defaults come from a method SetDefaults() of a struct's pointer, if it has one.
//
// It fills bool, integers, floats, strings, slices, structs, pointers, maps (keys: strings, integers
// or structs), any (map[string]any, []any, string, bool, int64, float64) and whatever implements
// encoding.TextUnmarshaler. Nothing is retained of b.
func Unmarshal(b []byte, v any) error {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.IsNil() {
		return fmt.Errorf("wire: unmarshal into %T, want a pointer", v)
	}
	d := decoder{scanner: scanner{in: b}, room: growBase + growFactor*len(b)}
	none := d.peek() == 0 || d.takeNull()
	if !none {
		d.value(p.Elem())
	}
	d.end()
	if d.err != nil {
		return fmt.Errorf("wire: %w", d.err)
	}
	if none {
		return ErrNoValue
	}
	return nil
}

// decoder fills Go values from the dialect.
type decoder struct {
	scanner
	room int // bytes of memory that may still be taken
}

// take accounts for memory that grows with the input.
func (d *decoder) take(n uintptr) bool {
	if d.room -= int(n); d.room < 0 {
		d.fail("takes more than %d times its size in memory", growFactor)
	}
	return d.err == nil
}

// takeNull takes the word null, if it is next.
func (d *decoder) takeNull() bool {
	if d.peek() != 'n' {
		return false
	}
	from := d.at
	if string(d.word()) == "null" {
		return true
	}
	d.at = from
	return false
}

// defaulter is a struct whose members are not zero when they are left out.
type defaulter interface{ SetDefaults() }

func (d *decoder) value(v reflect.Value) {
	if d.err != nil {
		return
	}
	if v.Kind() == reflect.Pointer {
		d.pointer(v)
		return
	}
	if d.takeNull() {
		if k := v.Kind(); k == reflect.Map || k == reflect.Slice || k == reflect.Interface || k == reflect.String {
			v.SetZero()
		}
		return
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if err := u.UnmarshalText(d.scalar()); err != nil {
			d.fail("%w", err)
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.object(v)
	case reflect.Map:
		d.table(v)
	case reflect.Slice:
		d.list(v)
	case reflect.Interface:
		d.any(v)
	default:
		d.plain(v)
	}
}

func (d *decoder) pointer(v reflect.Value) {
	if d.takeNull() {
		v.SetZero()
		return
	}
	if !d.take(v.Type().Elem().Size()) {
		return
	}
	p := reflect.New(v.Type().Elem())
	d.value(p.Elem())
	v.Set(p)
}

func (d *decoder) object(v reflect.Value) {
	if df, ok := v.Addr().Interface().(defaulter); ok {
		df.SetDefaults()
	}
	members := membersOf(v.Type())
	d.enter('{')
	for first := true; d.more('}', first); first = false {
		if m := members.find(d.key()); m != nil {
			d.value(v.FieldByIndex(m.index))
		} else {
			d.skip()
		}
	}
}

func (d *decoder) table(v reflect.Value) {
	t := v.Type()
	const overhead = 16 // of the map, per entry
	v.Set(reflect.MakeMap(t))
	d.enter('{')
	for first := true; d.more('}', first); first = false {
		if !d.take(t.Key().Size() + t.Elem().Size() + overhead) {
			return
		}
		k, e := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		d.mapKey(k, d.key())
		d.value(e)
		if d.err == nil {
			v.SetMapIndex(k, e)
		}
	}
}

// mapKey reads a key: of a struct it may be an object or a text that holds one.
func (d *decoder) mapKey(k reflect.Value, text []byte) {
	switch {
	case d.err != nil:
	case k.Kind() == reflect.Struct:
		sub := decoder{scanner: scanner{in: text, depth: d.depth}, room: d.room}
		sub.value(k)
		sub.end()
		if d.room = sub.room; sub.err != nil {
			d.fail("key: %w", sub.err)
		}
	default:
		d.set(k, text)
	}
}

func (d *decoder) list(v reflect.Value) {
	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	d.enter('[')
	for first := true; d.more(']', first); first = false {
		if n := v.Len(); n == v.Cap() {
			if !d.take(v.Type().Elem().Size() * uintptr(n+1)) {
				return
			}
			v.Grow(n + 1)
		}
		v.SetLen(v.Len() + 1)
		d.value(v.Index(v.Len() - 1))
	}
}

// plain reads a text, a number or a boolean.
func (d *decoder) plain(v reflect.Value) {
	if text := d.scalar(); d.err == nil {
		d.set(v, text)
	}
}

// string makes a string of text. Each byte that is no UTF-8 becomes U+FFFD, as in encoding/json: otherwise two names that
// differ in memory would be one name in the file that is written of them.
func (d *decoder) string(text []byte) string {
	s := string(text)
	if !utf8.ValidString(s) {
		s = string([]rune(s))
	}
	if !d.take(uintptr(len(s))) {
		return ""
	}
	return s
}

// set converts a text to the kind of v, as fastjson would.
func (d *decoder) set(v reflect.Value, text []byte) {
	switch k := v.Kind(); k {
	case reflect.String:
		v.SetString(d.string(text))
	case reflect.Bool:
		b, ok := looseBool(text)
		if v.SetBool(b); !ok {
			d.fail("%s is no boolean", shown(text))
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if len(text) == 0 {
			return
		}
		n, ok := looseInt(text, v.Type().Bits())
		if v.SetInt(n); !ok {
			d.fail("%s is no integer of %d bits", shown(text), v.Type().Bits())
		}
	case reflect.Float32, reflect.Float64:
		if len(text) == 0 {
			return
		}
		f, err := strconv.ParseFloat(string(text), 64)
		if v.SetFloat(f); err != nil {
			d.fail("%s is no number", shown(text))
		}
	default:
		d.fail("no way to fill %v", v.Type())
	}
}

func shown(text []byte) string { return strconv.Quote(string(text[:min(len(text), shownBytes)])) }

func looseBool(text []byte) (value, ok bool) {
	switch {
	case equalFold(text, "true"), string(text) == "1":
		return true, true
	case equalFold(text, "false"), string(text) == "0", len(text) == 0:
		return false, true
	}
	return false, false
}

// any reads whatever comes.
func (d *decoder) any(v reflect.Value) {
	var x any
	const word = 16 // an interface, and about what it points to
	d.take(word)
	switch b := d.peek(); b {
	case '{':
		m := map[string]any{}
		d.table(reflect.ValueOf(&m).Elem())
		x = m
	case '[':
		var l []any
		d.list(reflect.ValueOf(&l).Elem())
		x = l
	case '"', '\'':
		x = d.string(d.text(b))
	default:
		x = d.literalValue()
	}
	if d.err == nil && x != nil {
		v.Set(reflect.ValueOf(x))
	}
}

// literalValue reads true, false or a number.
func (d *decoder) literalValue() any {
	w := d.literal()
	switch string(w) {
	case "true":
		return true
	case "false":
		return false
	}
	if n, ok := parseInt(w, 64); ok {
		return n
	}
	f, err := strconv.ParseFloat(string(w), 64)
	if err != nil {
		d.fail("%s is no number", shown(w))
	}
	return f
}
