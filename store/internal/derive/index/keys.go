package index

import (
	"bytes"
	"iter"

	"ringmq/store/record"
)

// key is one key of a record.
type key struct {
	tags bool // all its tags, as one text
	text []byte
}

// append adds the form that is hashed.
func (k key) append(dst, topic []byte) []byte {
	dst = append(dst, topic...)
	dst = append(dst, '#')
	if k.tags {
		dst = append(dst, "T#"...)
	}
	return append(dst, k.text...)
}

// keysOf walks over the keys in a record's properties, in the stock broker's order: the client's message
// id, the keys, which spaces separate, the tags.
func keysOf(props []byte) iter.Seq[key] {
	return func(yield func(key) bool) {
		var id, keys, tags []byte
		for name, value := range record.Props(props) {
			switch string(name) {
			case record.PropUniqueKey:
				id = value
			case record.PropKeys:
				keys = value
			case record.PropTags:
				tags = value
			}
		}
		if len(id) > 0 && !yield(key{text: id}) {
			return
		}
		for len(keys) > 0 {
			var text []byte
			text, keys, _ = bytes.Cut(keys, []byte{' '})
			if len(text) > 0 && !yield(key{text: text}) {
				return
			}
		}
		if len(tags) > 0 {
			yield(key{tags: true, text: tags})
		}
	}
}
