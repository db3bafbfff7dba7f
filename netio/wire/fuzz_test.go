package wire

import (
	"bytes"
	"compress/zlib"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func packed(t testing.TB, plain string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	if _, err := w.Write([]byte(plain)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// FuzzFrame feeds whole frames: what parses encodes again, in both forms, to what parses to the same.
func FuzzFrame(f *testing.F) {
	type line struct{ FrameHex string }
	golden(f, "testdata/codec/frames.jsonl", func(l line) { f.Add(unhex(f, l.FrameHex)) })
	f.Add([]byte("\x00\x00\x00\x04\x00\x00\x00\x05"))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if _, err := FrameBytes(frame); err != nil {
			return
		}
		checkCommand(t, frame)
	})
}

// FuzzCommandParse feeds JSON headers, so that the lengths around them are never wrong.
func FuzzCommandParse(f *testing.F) {
	for _, header := range []string{
		`{"code":34,"extFields":{"k":"v"},"flag":0,"language":"JAVA","opaque":4,"serializeTypeCurrentRPC":"JSON","version":0}`,
		`{'code':"1",extFields:{"a":1,"b":true,"c":null,"d":{"e":[]}},"remark":"\u0001\ud83d\ude00\x41\7"/*x*/,}`,
		`{"language":77,"version":-1,"extFields":{"":""," ":"\ud800"}}`, `{"a":{{"b":1}:2}}`, "{\"remark\":\"\xff\xfe\"}",
	} {
		f.Add([]byte(header))
	}
	f.Fuzz(func(t *testing.T, header []byte) { checkCommand(t, frameOf(JSON, string(header))) })
}

// FuzzBinaryHeader feeds headers of the binary form.
func FuzzBinaryHeader(f *testing.F) {
	c := Command{Code: SendMessage, Encoding: RocketMQ, Opaque: 3}
	c.SetRemark("remark")
	fullSend.Append(&c)
	f.Add(c.Append(nil)[prefixBytes:])
	f.Add(bytes.Repeat([]byte{0xff}, binaryFixedBytes))
	f.Add(make([]byte, binaryFixedBytes))
	f.Fuzz(func(t *testing.T, header []byte) { checkCommand(t, frameOf(RocketMQ, string(header))) })
}

func checkCommand(t *testing.T, frame []byte) {
	var c Command
	if c.Parse(frame) != nil {
		return
	}
	for _, form := range []Encoding{c.Encoding, JSON, RocketMQ} {
		d := c.Clone()
		d.Encoding = form
		var again Command
		out := d.Append(nil)
		if err := again.Parse(out); err != nil {
			t.Fatalf("%q encoded as %d gives %q: %v", frame, form, out, err)
		}
		if again.Encoding == form {
			if err := sameCommand(&c, &again); err != nil {
				t.Fatalf("%q encoded as %d gives %q: %v", frame, form, out, err)
			}
		}
		if again.Encoding == JSON {
			header := out[prefixBytes : len(out)-len(d.Body)]
			if !json.Valid(header) {
				t.Fatalf("%q encoded is no standard JSON: %q", frame, header)
			}
		}
	}
}

// FuzzTypedHeaders puts the fuzzer's text into every field of every typed header: it parses or says
// why not, and what it parses to survives being set and parsed again.
func FuzzTypedHeaders(f *testing.F) {
	f.Add(uint8(0), "1", "2")
	f.Add(uint8(4), "-9223372036854775808", "true")
	f.Add(uint8(17), "", "SINGLE_TAG")
	f.Fuzz(func(t *testing.T, which uint8, a, b string) {
		kind := full[int(which)%len(full)]
		c := Command{Code: kind.code}
		kind.h.Append(&c)
		for i := range c.Fields {
			c.Fields[i].Value = []byte([]string{a, b}[i%2])
		}
		h := fresh(kind.h)
		if h.Parse(&c) != nil {
			return
		}
		again := Command{Code: kind.code}
		h.Append(&again)
		h2 := fresh(kind.h)
		if err := h2.Parse(&again); err != nil {
			t.Fatalf("%+v set and parsed: %v", h, err)
		}
		third := Command{Code: kind.code}
		if h2.Append(&third); !reflect.DeepEqual(fieldMap(&again), fieldMap(&third)) {
			t.Fatalf("%+v set and parsed: %+v", h, h2)
		}
	})
}

// FuzzUnmarshal: no input may panic or loop; standard JSON means what encoding/json takes it for; and
// whatever was read, written again and read again is the same.
func FuzzUnmarshal(f *testing.F) {
	for _, text := range []string{
		`{"text":"a","int":1,"list":[1,2],"table":{"a":"b"},"ids":{"1":"x"},"sub":{},"any":[1,"x",null],"model":"CLUSTERING"}`,
		`{text:'a',int:"1",/**/ids:{0:"x",},byName:{{"topic":"T"}:7},}`, `{"float":1e400}`, `[[[[`, `null`, `{"any":{"a":{}}}`,
		`{"byName":{"{\"topic\":\"T\"}":1}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var loose any
		err := Unmarshal(b, &loose)
		if err == nil && json.Valid(b) && !strings.Contains(string(b), `\`) {
			checkStandard(t, b, loose)
		}
		var s sample
		if Unmarshal(b, &s) != nil {
			return
		}
		text, err := json.Marshal(s)
		if err != nil {
			return // NaN and the like, which no JSON can hold
		}
		var again sample
		if err := Unmarshal(text, &again); err != nil {
			t.Fatalf("%q written as %s: %v", b, text, err)
		}
		text2, err := json.Marshal(again)
		if err != nil || !bytes.Equal(text, text2) {
			t.Fatalf("%q written as %s, then %s, %v", b, text, text2, err)
		}
	})
}

func checkStandard(t *testing.T, b []byte, loose any) {
	var std any
	if err := json.Unmarshal(b, &std); err != nil {
		return // a number out of range
	}
	x, err := json.Marshal(loose)
	if err != nil {
		return
	}
	var back any
	if err := json.Unmarshal(x, &back); err != nil || !reflect.DeepEqual(back, std) {
		t.Fatalf("%q: %#v, by the standard %#v, %v", b, back, std, err)
	}
}

func FuzzRegisterBody(f *testing.F) {
	f.Add("\x00\x00\x00\x02{}\x00\x00\x00\x01\x00\x00\x00\x15T 1 2 6 SINGLE_TAG {}\x00\x00\x00\x02[]\x00\x00\x00\x00")
	f.Add("\x00\x00\x00\x02{}\xff\xff\xff\xff\xff\xff\xff\xff")
	f.Fuzz(func(t *testing.T, plain string) {
		b, err := ParseRegisterBody(packed(t, plain), true)
		if err != nil {
			return
		}
		body, err := b.Encode(true)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseRegisterBody(body, true)
		if err != nil {
			t.Fatalf("%q: %v", plain, err)
		}
		if n, m := len(b.TopicConfigSerializeWrapper.TopicConfigTable), len(again.TopicConfigSerializeWrapper.TopicConfigTable); n != m {
			t.Fatalf("%q: %d topics became %d", plain, n, m)
		}
	})
}
