package record

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// FuzzVerify: any bytes are judged without a panic, and what is accepted adds up.
func FuzzVerify(f *testing.F) {
	m := testMessage()
	for _, c := range []Check{CheckTrailer, CheckProperty, CheckOff} {
		f.Add(m.Append(nil, c, 0, 0, 0))
	}
	m.Topic = string(bytes.Repeat([]byte("t"), 200))
	f.Add(m.Append(nil, CheckTrailer, 0, 0, 0))
	f.Add(AppendBlank(nil, 20))
	f.Add(make([]byte, 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		var parsed, verified Record
		parseErr, verifyErr := Parse(b, &parsed), Verify(b, 0, &verified)
		if verifyErr == nil && parseErr != nil {
			t.Fatalf("verified, yet parsing says %v", parseErr)
		}
		if parseErr != nil {
			return
		}
		if parsed.Size > len(b) || len(parsed.Body)+len(parsed.Topic)+len(parsed.Props)+fixedBytes > parsed.Size {
			t.Fatalf("%d bytes parsed out of %d: %+v", parsed.Size, len(b), parsed)
		}
		if props, ok := propsOnly(b[:parsed.Size]); !ok || !bytes.Equal(props, parsed.Props) {
			t.Fatalf("properties %q, %v; parsed as %q", props, ok, parsed.Props)
		}
		if verifyErr == nil && len(parsed.Topic) > 0 && len(parsed.Topic) <= MaxTopicBytes {
			again := messageOf(&parsed) // what one store accepts, the next can write
			if _, err := again.Size(CheckTrailer); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// propsOnly finds the properties of a record without a look at its body.
func propsOnly(b []byte) ([]byte, bool) {
	at, ok := TopicAt(b[:min(len(b), HeadBytes)])
	if !ok || at > len(b) {
		return nil, false
	}
	return TailProps(binary.BigEndian.Uint32(b[4:]), b[at:])
}

// FuzzTail: any head and tail are judged without a panic.
func FuzzTail(f *testing.F) {
	m := testMessage()
	f.Add(m.Append(nil, CheckTrailer, 0, 0, 0))
	f.Add([]byte("\x01T\x00\x04a\x01b\x02"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if at, ok := TopicAt(b); ok && (at < bodyAt || len(b) < bodyAt) {
			t.Fatalf("topic at %d in a record of %d bytes", at, len(b))
		}
		for _, magic := range []uint32{MagicV1, MagicV2} {
			if props, ok := TailProps(magic, b); ok && len(props)+3 > len(b) {
				t.Fatalf("%d bytes of properties in %d", len(props), len(b))
			}
		}
	})
}

// FuzzProps: walking, editing and cleaning agree with each other.
func FuzzProps(f *testing.F) {
	f.Add([]byte("TAGS\x01TagA\x02KEYS\x01k1 k2\x02"), "TAGS")
	f.Add([]byte("a\x01b\x02~rAAAAAA"), "a")
	f.Add([]byte("a\x01b__CRC32#\x011234567890\x02\x02\x01"), "__CRC32#")
	f.Fuzz(func(t *testing.T, props []byte, name string) {
		value, ok := Prop(props, name)
		if want, found := asMap(props)[name]; found != ok || string(value) != want {
			t.Fatalf("property %q is %q, the map has %q", name, value, want)
		}
		if _, ok := Prop(AppendPropsBut(nil, props, func(n []byte) bool { return string(n) == name }), name); ok {
			t.Fatalf("%q is still there", name)
		}
		clean := appendClean(nil, props)
		if n, last := measureClean(props); n != len(clean) || last != lastByte(clean) {
			t.Fatalf("%q: measured %d bytes, are %q", props, n, clean)
		}
		if again := appendClean(nil, clean); !bytes.Equal(again, clean) {
			t.Fatalf("%q cleaned to %q, cleaned again to %q", props, clean, again)
		}
	})
}

// FuzzBatch: an accepted batch body is exactly its elements.
func FuzzBatch(f *testing.F) {
	e := Element{Flag: 7, Body: []byte("hello"), Props: []byte("a\x01b\x02")}
	f.Add(e.Append(e.Append(nil)))
	f.Add([]byte{0, 0, 0, 22})
	f.Fuzz(func(t *testing.T, body []byte) {
		var e Element
		var sizes int
		b := NewBatch(body)
		for b.Next(&e) {
			sizes += elementBytes + len(e.Body) + len(e.Props)
		}
		if sizes > len(body) || b.Err() == nil && sizes != len(body) {
			t.Fatalf("elements of %d bytes in a body of %d, %v", sizes, len(body), b.Err())
		}
	})
}

// FuzzMsgID: what parses is written back the same.
func FuzzMsgID(f *testing.F) {
	f.Add("7F00000100002A9F0000000000000000")
	f.Add("20010DB800000000000000000000000200002A9F000000000000014F")
	f.Fuzz(func(t *testing.T, id string) {
		host, phys, err := ParseMsgID(id)
		if err != nil {
			return
		}
		again, phys2, err := ParseMsgID(string(AppendMsgID(nil, host, phys)))
		if err != nil || phys2 != phys || again.Port() != host.Port() || again.Addr().Unmap() != host.Addr().Unmap() {
			t.Fatalf("%q is %v at %d, then %v at %d, %v", id, host, phys, again, phys2, err)
		}
	})
}
