package record

import (
	"bytes"
	"iter"
)

// Properties are "name 0x01 value 0x02" repeated; the last 0x02 may be missing.
const (
	nameSep = 0x01
	propSep = 0x02
)

// Props walks over the name-value pairs of properties in their order, by the stock broker's rules: an
// entry without a name, without a value or without a separator between them is skipped, and the value
// goes on to the entry's end, further 0x01 included. A name can come up again; the last one counts.
func Props(props []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for rest := props; len(rest) > 0; {
			var entry []byte
			entry, _, rest = cutEntry(rest)
			name, value, _ := bytes.Cut(entry, []byte{nameSep})
			if len(name) > 0 && len(value) > 0 && !yield(name, value) {
				return
			}
		}
	}
}

// Prop returns the value of a property, a view into props.
func Prop(props []byte, name string) (value []byte, ok bool) {
	for n, v := range Props(props) {
		if string(n) == name {
			value, ok = v, true
		}
	}
	return value, ok
}

// AppendProp appends one property to props, with a separator before it if props end without. Readers
// drop a property whose value is empty.
func AppendProp(props []byte, name, value string) []byte {
	if len(props) > 0 && props[len(props)-1] != propSep {
		props = append(props, propSep)
	}
	props = append(props, name...)
	props = append(props, nameSep)
	props = append(props, value...)
	return append(props, propSep)
}

// AppendWithout appends props to dst without the property name, wherever it occurs.
func AppendWithout(dst, props []byte, name string) []byte {
	for rest := props; len(rest) > 0; {
		var entry []byte
		var ended bool
		entry, ended, rest = cutEntry(rest)
		if n, _, ok := bytes.Cut(entry, []byte{nameSep}); ok && string(n) == name {
			continue
		}
		dst = append(dst, entry...)
		if ended {
			dst = append(dst, propSep)
		}
	}
	return dst
}

// cutEntry splits off the first entry of props; ended tells whether a separator followed it.
func cutEntry(props []byte) (entry []byte, ended bool, rest []byte) {
	entry, rest, ended = bytes.Cut(props, []byte{propSep})
	return entry, ended, rest
}
