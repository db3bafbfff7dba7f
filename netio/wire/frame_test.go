package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestFrameBytes(t *testing.T) {
	for _, c := range []struct {
		prefix string
		want   int
		err    error
	}{
		{"\x00\x00\x00\x04", 8, nil},
		{"\x00\x00\x00\xa1{}garbage", 165, nil},
		{"\x00\xff\xff\xfc", MaxFrameBytes, nil},
		{"\x00\xff\xff\xfd", 0, ErrFrameTooLarge},
		{"\x7f\xff\xff\xff", 0, ErrFrameTooLarge},
		{"\x00\x00\x00\x03", 0, ErrFrameLength},
		{"\x00\x00\x00\x00", 0, ErrFrameLength},
		{"\xff\xff\xff\xff", 0, ErrFrameLength},
		{"\x80\x00\x00\x00", 0, ErrFrameLength},
		{"\x00\x00\x00", 0, ErrFrameLength},
		{"", 0, ErrFrameLength},
	} {
		if n, err := FrameBytes([]byte(c.prefix)); n != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q: %d, %v; want %d, %v", c.prefix, n, err, c.want, c.err)
		}
	}
}

// frameOf puts a header into a frame without body.
func frameOf(form Encoding, header string) []byte {
	f := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)))
	f = binary.BigEndian.AppendUint32(f, uint32(form)<<24|uint32(len(header)))
	return append(f, header...)
}

// TestSpecVectors are frames that the encoders of the Java client made.
func TestSpecVectors(t *testing.T) {
	json := `{"code":30,"extFields":{"queueId":"3","committed":"true","topic":"T"},"flag":0,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":479}`
	binary := "00000048 01000042 001e 00 01df 00000007 00000000 00000000 0000002d" +
		"0007 71756575654964 00000001 33 0009 636f6d6d6974746564 00000004 74727565 0005 746f706963 00000001 54 6869"
	want := Command{Code: GetMaxOffset, Language: Java, Version: 479, Opaque: 7, Body: []byte("hi")}
	want.Set("queueId", "3")
	want.Set("committed", "true")
	want.Set("topic", "T")
	for form, frame := range [][]byte{
		JSON:     append(unhex(t, "000000a1 0000009b"), json+"hi"...),
		RocketMQ: unhex(t, binary),
	} {
		if err := sameCommand(parsed(t, frame), &want); err != nil {
			t.Errorf("form %d: %v", form, err)
		}
		if want.Encoding = Encoding(form); !bytes.Equal(want.Append(nil), frame) {
			t.Errorf("form %d: %q\n   want %q", form, want.Append(nil), frame)
		}
	}
}

// TestJSONHeader: what clients may send and how it is understood.
func TestJSONHeader(t *testing.T) {
	for _, c := range []struct{ header, want string }{
		{`{}`, `0 JAVA 0 0 0 nil`},
		{`{"version":5,"opaque":-7,"language":"GO","flag":3,"code":11}`, `11 GO 5 -7 3 nil`},
		{`{"code":"34","version":"6.0","opaque":7.0,"flag":null,"language":null}`, `34 Language(255) 6 7 0 nil`},
		{`{"language":9}`, `0 GO 0 0 0 nil`},
		{`{"language":"go"}`, `0 GO 0 0 0 nil`},
		{`{"language":"COBOL"}`, `0 Language(255) 0 0 0 nil`},
		{`{"language":77}`, `0 Language(255) 0 0 0 nil`},
		{`{"remark":"","extFields":null}`, `0 JAVA 0 0 0 nil`},
		{`{"remark":null,"extFields":{}}`, `0 JAVA 0 0 0 nil`},
		{`{"remark":"a\u0001\"\\\/\b\f\n\r\t\ud83d\ude00\u4e3b"}`, `0 JAVA 0 0 0 "a\x01\"\\/\b\f\n\r\t😀主"`},
		{`{"remark":"\ud83dx\ude00"}`, `0 JAVA 0 0 0 "` + "\uFFFDx\uFFFD" + `"`},
		{`{"remark":"主题 😀"}`, `0 JAVA 0 0 0 "主题 😀"`},
		{`{"code":1,"nobody":{"knows":[1,{"this":null}],"":{}},"opaque":2}`, `1 JAVA 0 2 0 nil`},
		{` { code : 1 , 'opaque' : 2 , /* why */ "version":3, } // done`, `1 JAVA 3 2 0 nil`},
		{`{"Code":1,"OPAQUE":2,"ver_sion":3}`, `1 JAVA 3 2 0 nil`},
		{`{"code":1,"code":2}`, `2 JAVA 0 0 0 nil`},
		{`{"extFields":{"a":1,"b":true,"c":null,"d":-1.5e3,"e":"","f":{"x":[1, 2]},"g":"\u0001"}}`,
			`0 JAVA 0 0 0 nil a="1" b="true" d="-1.5e3" e="" f="{\"x\":[1, 2]}" g="\x01"`},
		{`{"extFields":{"a":"1","a":"2","b":"x","b":null}}`, `0 JAVA 0 0 0 nil a="2" b="x"`},
		{`{"extFields":{"client_id":"x","CLIENTID":"y"}}`, `0 JAVA 0 0 0 nil CLIENTID="y" client_id="x"`},
	} {
		got := describe(parsed(t, frameOf(JSON, c.header)))
		if got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.header, got, c.want)
		}
	}
}

func describe(c *Command) string {
	remark := "nil"
	if c.Remark != nil {
		remark = fmt.Sprintf("%q", c.Remark)
	}
	s := fmt.Sprintf("%d %v %d %d %d %s", c.Code, c.Language, c.Version, c.Opaque, c.Flag, remark)
	m := fieldMap(c)
	for _, k := range sortedKeys(m) {
		v, _ := c.Get(k)
		s += fmt.Sprintf(" %s=%q", k, v)
	}
	return s
}

func TestMalformedHeaders(t *testing.T) {
	deep := strings.Repeat(`{"a":`, maxDepth)
	many := `{"extFields":{` + strings.Repeat(`"a":"",`, maxFields+1) + `}}`
	for _, header := range []string{
		``, ` `, `null`, `[]`, `"x"`, `{`, `{"code"`, `{"code":`, `{"code":1`, `{"code":1,`, `{"code":1}}`, `{"code":1}x`,
		`{"code":x}`, `{"code":2147483648}`, `{"code":1.5}`, `{"code":"1x"}`, `{"code":{}}`, `{"opaque":""}`,
		`{"remark":"a`, `{"remark":"a\`, `{"remark":"\q"}`, `{"remark":"\u12"}`, `{"remark":"\u12g4"}`, `{"remark":nope}`,
		`{"extFields":[]}`, `{"extFields":"x"}`, `{"extFields":{"a"}}`, `{"extFields":{"a":"1" "b":"2"}}`, `{,}`, `{"a":1,,}`,
		`{"a":1]`, `{"a":[1}`, `/`, `/*`, `/*/`, `{"a":1/`, deep, `{"extFields":` + deep, `{"x":` + strings.Repeat(`[`, 1<<20), many,
	} {
		var c Command
		if err := c.Parse(frameOf(JSON, header)); !errors.Is(err, ErrHeader) {
			t.Errorf("%.60q: %v, want ErrHeader", header, err)
		}
	}
}

func TestMalformedBinaryHeaders(t *testing.T) {
	fixed := "\x00\x0a\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x00"
	manyFields := strings.Repeat("\x00\x01a\x00\x00\x00\x00", maxFields+1)
	for name, header := range map[string]string{
		"empty":                ``,
		"short":                fixed + "\x00\x00\x00\x00\x00\x00\x00",
		"negative remark":      fixed + "\xff\xff\xff\xff\x00\x00\x00\x00",
		"remark over the end":  fixed + "\x00\x00\x00\x05\x00\x00\x00\x00",
		"fields over the end":  fixed + "\x00\x00\x00\x00\x00\x00\x00\x01",
		"negative fields":      fixed + "\x00\x00\x00\x00\x80\x00\x00\x00",
		"bytes after fields":   fixed + "\x00\x00\x00\x00\x00\x00\x00\x00x",
		"half a key length":    fixed + "\x00\x00\x00\x00\x00\x00\x00\x01\x00",
		"key over the end":     fixed + "\x00\x00\x00\x00\x00\x00\x00\x03\x00\x02a",
		"negative key":         fixed + "\x00\x00\x00\x00\x00\x00\x00\x03\xff\xffa",
		"half a value length":  fixed + "\x00\x00\x00\x00\x00\x00\x00\x04\x00\x01a\x00",
		"value over the end":   fixed + "\x00\x00\x00\x00\x00\x00\x00\x08\x00\x01a\x00\x00\x00\x02b",
		"negative value":       fixed + "\x00\x00\x00\x00\x00\x00\x00\x08\x00\x01a\x80\x00\x00\x00b",
		"more than maxFields ": fixed + "\x00\x00\x00\x00\x00\x00" + string([]byte{byte(len(manyFields) >> 8), byte(len(manyFields))}) + manyFields,
	} {
		var c Command
		if err := c.Parse(frameOf(RocketMQ, header)); !errors.Is(err, ErrHeader) {
			t.Errorf("%s: %v, want ErrHeader", name, err)
		}
	}
}

func TestMalformedFrames(t *testing.T) {
	whole := frameOf(JSON, `{"code":1}`)
	lying := bytes.Clone(whole)
	lying[7]++ // the header is one byte longer than the frame
	for name, c := range map[string]struct {
		frame []byte
		want  error
	}{
		"cut":                     {whole[:len(whole)-1], ErrFrameLength},
		"too long":                {append(bytes.Clone(whole), 0), ErrFrameLength},
		"nothing":                 {nil, ErrFrameLength},
		"header longer than body": {lying, ErrHeader},
		"form 2":                  {frameOf(2, `{"code":1}`), ErrHeader},
		"form 255":                {frameOf(255, ``), ErrHeader},
	} {
		var cmd Command
		if err := cmd.Parse(c.frame); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestBinaryHeader: what the binary form cuts short or cannot tell.
func TestBinaryHeader(t *testing.T) {
	c := Command{Code: RPCTimeOut, Encoding: RocketMQ, Version: -1, Opaque: -5, Flag: -2, Language: 99}
	c.Set("empty", "")
	c.Set("k", "v")
	got := parsed(t, c.Append(nil))
	if s := describe(got); s != `-1006 Language(255) -1 -5 -2 nil k="v"` || got.Encoding != RocketMQ || len(got.Fields) != 2 {
		t.Errorf("%s, %d fields", s, len(got.Fields))
	}
}

// TestBinaryGivesWayToJSON: codes, versions and keys that do not fit are sent in the other form.
func TestBinaryGivesWayToJSON(t *testing.T) {
	long := Command{Encoding: RocketMQ}
	long.Set(strings.Repeat("k", 1<<15), "v")
	for name, c := range map[string]*Command{
		"code":    {Encoding: RocketMQ, Code: PopMessage},
		"version": {Encoding: RocketMQ, Version: 1 << 15},
		"key":     &long,
	} {
		got := parsed(t, c.Append(nil))
		if err := sameCommand(got, c); err != nil || got.Encoding != JSON {
			t.Errorf("%s: form %d, %v", name, got.Encoding, err)
		}
	}
}

// TestHeaderThatFitsNoFrame: the other side is told, instead of a length that spills into the form.
func TestHeaderThatFitsNoFrame(t *testing.T) {
	c := Command{Code: PullMessage, Opaque: 7, Flag: flagAnswer}
	c.Set("k", strings.Repeat("\x01", MaxFrameBytes/6))
	head := c.AppendHead([]byte("before"), 2)
	got := parsed(t, append(head, "hi"...)[len("before"):])
	if got.Code != SystemError || got.Opaque != 7 || !got.IsAnswer() || len(got.Remark) == 0 || string(got.Body) != "hi" {
		t.Errorf("%s, body %q", describe(got), got.Body)
	}
}

func TestAppendHead(t *testing.T) {
	for _, form := range []Encoding{JSON, RocketMQ} {
		c := Command{Code: 1, Encoding: form, Body: []byte("the body")}
		c.Set("k", "v")
		want := c.Append(nil)
		if got := append(c.AppendHead(nil, len(c.Body)), c.Body...); !bytes.Equal(got, want) {
			t.Errorf("form %d: %q, want %q", form, got, want)
		}
	}
}

func TestRecode(t *testing.T) {
	for _, form := range []Encoding{JSON, RocketMQ} {
		a := Command{Flag: flagAnswer, Opaque: 9, Version: BrokerVersion, Encoding: form, Body: []byte("b")}
		a.Set("queueId", "3")
		frame := a.Append(nil)

		kept := parsed(t, Recode([]byte("x"), frame, FlushDiskTimeout, "late", true)[1:])
		if s := describe(kept); s != `10 JAVA 513 9 1 "late" queueId="3"` || string(kept.Body) != "b" || kept.Encoding != form {
			t.Errorf("form %d: kept: %s, body %q", form, s, kept.Body)
		}
		bare := parsed(t, Recode(nil, frame, ServiceNotAvailable, "", false))
		if s := describe(bare); s != `14 JAVA 513 9 1 nil` || bare.Body != nil || bare.Encoding != form {
			t.Errorf("form %d: bare: %s, body %q", form, s, bare.Body)
		}
	}
}
