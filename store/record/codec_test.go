package record

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// eachLine decodes each line of a file of vectors that stock broker code produced.
func eachLine[T any](t *testing.T, name string, do func(v T)) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "codec", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := 0
	for s := bufio.NewScanner(f); s.Scan(); lines++ {
		var v T
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			t.Fatalf("%s: %v", s.Text(), err)
		}
		do(v)
	}
	if lines == 0 {
		t.Fatalf("%s is empty", name)
	}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func asMap(props []byte) map[string]string {
	m := map[string]string{}
	for name, value := range Props(props) {
		m[string(name)] = string(value)
	}
	return m
}

func TestGoldenProperties(t *testing.T) {
	type vector struct {
		Op, Hex      string
		Map, Decoded map[string]string
	}
	eachLine(t, "properties.jsonl", func(v vector) {
		props := unhex(t, v.Hex)
		if got := asMap(props); !maps.Equal(got, v.Decoded) {
			t.Errorf("%s: got %q, want %q", v.Hex, got, v.Decoded)
		}
		for name, want := range v.Decoded {
			if got, ok := Prop(props, name); !ok || string(got) != want {
				t.Errorf("%s: property %q is %q, want %q", v.Hex, name, got, want)
			}
		}
		var made []byte
		for name, value := range v.Map {
			made = AppendProp(made, name, value)
		}
		if v.Op == "encode" && (len(made) != len(props) || !maps.Equal(asMap(made), v.Decoded)) {
			t.Errorf("%q: encoded as %x, want %s in any order", v.Map, made, v.Hex)
		}
	})
}

func TestGoldenHashes(t *testing.T) {
	type vector struct {
		Text         string
		UTF8Hex      string
		JavaHash     int32
		TagsCode     int64
		IndexKey     string
		IndexKeyHash int32
	}
	eachLine(t, "hashes.jsonl", func(v vector) {
		text := unhex(t, v.UTF8Hex)
		if got := JavaHash(text); got != v.JavaHash {
			t.Errorf("hash of %q is %d, want %d", text, got, v.JavaHash)
		}
		if got := TagsCode(text); got != v.TagsCode {
			t.Errorf("tags code of %q is %d, want %d", text, got, v.TagsCode)
		}
	})
}

func TestGoldenCRC(t *testing.T) {
	type vector struct {
		BodyHex *string
		Text    *string
		CRC     uint32
	}
	eachLine(t, "crc32.jsonl", func(v vector) {
		switch {
		case v.BodyHex != nil:
			if got := BodyCRC(unhex(t, *v.BodyHex)); got != v.CRC {
				t.Errorf("CRC of %s is %d, want %d", *v.BodyHex, got, v.CRC)
			}
		case v.Text != nil && *v.Text == "1000 times x":
			if got := BodyCRC(bytes.Repeat([]byte("x"), 1000)); got != v.CRC {
				t.Errorf("CRC of 1000 x is %d, want %d", got, v.CRC)
			}
		}
	})
}

// TestGoldenCRCProperty: the digits of the stock form come from the least significant one on, and 0 is
// a number like any other (the stock broker took it for a missing check once, rocketmq#9121).
func TestGoldenCRCProperty(t *testing.T) {
	type vector struct {
		CRCProperty *uint32
		Hex         string
	}
	eachLine(t, "crc32.jsonl", func(v vector) {
		if v.CRCProperty == nil {
			return
		}
		if got := propertyTail(*v.CRCProperty); !bytes.Equal(got[:], unhex(t, v.Hex)) {
			t.Errorf("%d is written as %x, want %s", *v.CRCProperty, got, v.Hex)
		}
	})
}

func TestGoldenMsgIDs(t *testing.T) {
	type vector struct {
		IP     string
		Port   uint16
		Offset int64
		MsgID  string
	}
	eachLine(t, "msgids.jsonl", func(v vector) {
		if v.MsgID == "" {
			return // a client-made id
		}
		host := netip.AddrPortFrom(netip.MustParseAddr(v.IP), v.Port)
		if got := string(AppendMsgID(nil, host, v.Offset)); got != v.MsgID {
			t.Errorf("%v at %d: %s, want %s", host, v.Offset, got, v.MsgID)
		}
		gotHost, gotOffset, err := ParseMsgID(strings.ToLower(v.MsgID))
		if err != nil || gotHost != host || gotOffset != v.Offset {
			t.Errorf("%s: %v at %d, %v", v.MsgID, gotHost, gotOffset, err)
		}
	})
}

func TestParseMsgIDRefuses(t *testing.T) {
	for _, id := range []string{
		"", "7F", "7F00000100002A9F000000000000000", "7F00000100002A9F00000000000000000",
		"7F00000100002A9F000000000000000G", "7F00000100012A9F0000000000000000",
	} {
		if _, _, err := ParseMsgID(id); err == nil {
			t.Errorf("%q was taken", id)
		}
	}
}

func TestGoldenBatchBodies(t *testing.T) {
	type element struct {
		Flag       int32
		BodyHex    string
		Properties map[string]string
	}
	type vector struct {
		BodyHex  string
		Elements []element
	}
	eachLine(t, "batchbodies.jsonl", func(v vector) {
		body := unhex(t, v.BodyHex)
		var e Element
		var again []byte
		b, n := NewBatch(body), 0
		for ; b.Next(&e); n++ {
			want := v.Elements[n]
			if e.Flag != want.Flag || hex.EncodeToString(e.Body) != want.BodyHex || !maps.Equal(asMap(e.Props), want.Properties) {
				t.Errorf("element %d: %+v, want %+v", n, e, want)
			}
			again = e.Append(again)
		}
		if b.Err() != nil || n != len(v.Elements) || !bytes.Equal(again, body) {
			t.Errorf("%s: %d elements, %v, written again %x", v.BodyHex, n, b.Err(), again)
		}
	})
}
