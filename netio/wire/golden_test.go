package wire

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The files in testdata were made with the encoders of a stock broker 5.5.0 (codec) and captured
// between stock clients, brokers and name servers (wire).

// golden calls do for each line of a JSON-lines file, which may be gzipped.
func golden[T any](t testing.TB, file string, do func(line T)) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(file, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 4<<20)
	n := 0
	for ; lines.Scan(); n++ {
		var line T
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%s line %d: %v", file, n+1, err)
		}
		do(line)
	}
	if err := lines.Err(); err != nil || n == 0 {
		t.Fatalf("%s: %d lines, %v", file, n, err)
	}
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// exchange is one line of testdata/wire.
type exchange struct {
	Client, Scenario, Dir string
	Code                  Code
	RespCode              *Code  `json:"resp_code"`
	Request               string `json:"request_hex"`
	Response              string `json:"response_hex"`
}

func (e *exchange) String() string {
	return fmt.Sprintf("%s/%s/%v", e.Client, e.Scenario, e.Code)
}

// exchanges calls do for every captured exchange.
func exchanges(t testing.TB, do func(e *exchange)) {
	t.Helper()
	files, err := filepath.Glob("testdata/wire/*.gz")
	if err != nil || len(files) != 7 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		golden(t, file, func(e exchange) { do(&e) })
	}
}

func parsed(t testing.TB, frame []byte) *Command {
	t.Helper()
	var c Command
	if err := c.Parse(frame); err != nil {
		t.Fatalf("%v in %q", err, frame)
	}
	return &c
}

// fieldMap drops order, nulls and doubles: what a receiver can see.
func fieldMap(c *Command) map[string]string {
	m := map[string]string{}
	for _, f := range c.Fields {
		if f.Value != nil {
			m[valid(f.Key)] = valid(f.Value)
		}
	}
	return m
}

// valid replaces bytes that are not UTF-8, as a receiver of JSON sees them.
func valid(text []byte) string { return string([]rune(string(text))) }

// sameCommand compares what a receiver can see of two commands. The header form may differ; the
// binary one cannot tell an empty text from none.
func sameCommand(a, b *Command) error {
	binary := a.Encoding == RocketMQ || b.Encoding == RocketMQ
	if a.Code != b.Code || a.Language != b.Language || a.Version != b.Version || a.Opaque != b.Opaque || a.Flag != b.Flag {
		return fmt.Errorf("code, language, version, opaque, flag: %v %v %d %d %d, %v %v %d %d %d",
			a.Code, a.Language, a.Version, a.Opaque, a.Flag, b.Code, b.Language, b.Version, b.Opaque, b.Flag)
	}
	if x, y := valid(a.Remark), valid(b.Remark); x != y {
		return fmt.Errorf("remark: %q, %q", x, y)
	}
	if !bytes.Equal(a.Body, b.Body) {
		return fmt.Errorf("body: %q, %q", a.Body, b.Body)
	}
	x, y := fieldMap(a), fieldMap(b)
	for _, m := range []map[string]string{x, y} {
		for k, v := range m {
			if binary && v == "" {
				delete(m, k)
			}
		}
	}
	if len(x) != len(y) {
		return fmt.Errorf("fields: %q, %q", x, y)
	}
	for k, v := range x {
		if w, ok := y[k]; !ok || v != w {
			return fmt.Errorf("field %q: %q, %q", k, v, w)
		}
	}
	return nil
}

func TestGoldenFrames(t *testing.T) {
	type line struct {
		Case, Serialize, Language, Body, FrameHex, BodyHex string
		Code                                               Code
		Flag, Opaque, Version                              int32
		Remark                                             *string
		ExtFields                                          map[string]*string
	}
	golden(t, "testdata/codec/frames.jsonl", func(l line) {
		c := parsed(t, unhex(t, l.FrameHex))
		want := Command{Code: l.Code, Flag: l.Flag, Opaque: l.Opaque, Version: l.Version,
			Language: languageNamed([]byte(l.Language)), Body: unhex(t, l.BodyHex)}
		if l.Serialize == "ROCKETMQ" {
			want.Encoding = RocketMQ
		}
		if l.Remark != nil {
			want.SetRemark(*l.Remark)
		}
		for k, v := range l.ExtFields {
			if v != nil {
				want.Set(k, *v)
			}
		}
		if err := sameCommand(c, &want); err != nil || c.Encoding != want.Encoding {
			t.Errorf("%s %s: parsed, wanted: %v", l.Case, l.Serialize, err)
		}
		again := parsed(t, want.Append(nil))
		if err := sameCommand(c, again); err != nil || again.Encoding != want.Encoding {
			t.Errorf("%s %s: parsed, encoded again: %v", l.Case, l.Serialize, err)
		}
	})
}

func TestGoldenCodes(t *testing.T) {
	type line struct {
		Kind, Name string
		Code       Code
	}
	seen := map[string]int{}
	golden(t, "testdata/codec/codes.jsonl", func(l line) {
		got := l.Code.String()
		if l.Kind == "response" {
			got = l.Code.AnswerName()
		}
		if seen[l.Kind]++; got != l.Name {
			t.Errorf("%s %d: %s, want %s", l.Kind, l.Code, got, l.Name)
		}
	})
	if len(requestNames) != seen["request"] || len(answerNames) != seen["response"] {
		t.Errorf("we name %d and %d codes, stock %d and %d", len(requestNames), len(answerNames), seen["request"], seen["response"])
	}
	if got := Code(9999).String(); got != "9999" {
		t.Errorf("unknown code: %s", got)
	}
}

func TestGoldenLanguages(t *testing.T) {
	type line struct {
		Code Language
		Name string
	}
	n := 0
	golden(t, "testdata/codec/languages.jsonl", func(l line) {
		if n++; l.Code.String() != l.Name || languageNamed([]byte(strings.ToLower(l.Name))) != l.Code {
			t.Errorf("%d: %v, want %s", l.Code, l.Code, l.Name)
		}
	})
	if n != len(languageNames) {
		t.Errorf("stock has %d languages, we %d", n, len(languageNames))
	}
}

func TestGoldenVersions(t *testing.T) {
	type line struct {
		Ordinal int32
		Name    string
	}
	golden(t, "testdata/codec/versions.jsonl.gz", func(l line) {
		if l.Name == "current of this broker" {
			if l.Ordinal != BrokerVersion {
				t.Errorf("stock broker sends %d, we %d", l.Ordinal, BrokerVersion)
			}
		} else if got := VersionName(l.Ordinal); got != l.Name {
			t.Errorf("%d: %s, want %s", l.Ordinal, got, l.Name)
		}
	})
	for ordinal, want := range map[int32]string{
		V3_0_11: "V3_0_11", V3_1_8_Snapshot: "V3_1_8_SNAPSHOT", V3_4_9: "V3_4_9",
		V4_1_0_Snapshot: "V4_1_0_SNAPSHOT", V4_9_4: "V4_9_4", V5_3_1: "V5_3_1",
		BrokerVersion: "V5_5_0", HigherVersion: "HIGHER_VERSION", 30000: "HIGHER_VERSION", -1: "-1",
	} {
		if got := VersionName(ordinal); got != want {
			t.Errorf("%d: %s, want %s", ordinal, got, want)
		}
	}
}

func TestGoldenCRC32(t *testing.T) {
	type line struct {
		BodyHex *string
		Text    *string
		CRC     uint32
	}
	n := 0
	golden(t, "testdata/codec/crc32.jsonl", func(l line) {
		if l.BodyHex == nil {
			return // record tails, which are no words of ours, and a body that is only described
		}
		if n++; CRC32(unhex(t, *l.BodyHex)) != l.CRC {
			t.Errorf("%s: %d, want %d", *l.BodyHex, CRC32(unhex(t, *l.BodyHex)), l.CRC)
		}
	})
	if got := CRC32(bytes.Repeat([]byte("x"), 1000)); got != 994167270 || n != 6 {
		t.Errorf("1000 times x: %d; %d lines", got, n)
	}
}

// TestExchangesReencode: every captured frame parses, and encoded again in either form it parses to
// the same.
func TestExchangesReencode(t *testing.T) {
	frames := 0
	exchanges(t, func(e *exchange) {
		for _, text := range []string{e.Request, e.Response} {
			if text == "" {
				continue
			}
			frames++
			c := parsed(t, unhex(t, text))
			for _, form := range []Encoding{JSON, RocketMQ} {
				d := c.Clone()
				d.Encoding = form
				again := parsed(t, d.Append(nil))
				if err := sameCommand(c, again); err != nil {
					t.Errorf("%v in form %d: %v", e, form, err)
				}
			}
		}
	})
	if frames < 1600 {
		t.Errorf("only %d frames", frames)
	}
}
