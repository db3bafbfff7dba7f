package record

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/netip"
	"strings"
	"testing"
)

var (
	testBorn  = netip.MustParseAddrPort("127.0.0.1:12345")
	testStore = netip.MustParseAddrPort("127.0.0.1:10911")
)

const testStoreMs = 0x000001a22922681f

// testMessage is the message of the stock broker's vectors.
func testMessage() Message {
	props := AppendProp(nil, "TAGS", "TagA")
	props = AppendProp(props, "KEYS", "k1 k2")
	props = AppendProp(props, "UNIQ_KEY", "7F000001000000000000000000000001")
	body := []byte("hello")
	return Message{
		Topic: "TopicTest", Flag: 7, ReconsumeTimes: 2, BornMs: 1700000000000, Born: testBorn, Store: testStore,
		Body: body, Props: props, BodyCRC: BodyCRC(body),
	}
}

// written returns the record of m and fails when Size and Append disagree, or Verify objects.
func written(t testing.TB, m Message, c Check, at int64) []byte {
	t.Helper()
	size, err := m.Size(c)
	if err != nil {
		t.Fatal(err)
	}
	b := m.Append([]byte("before"), c, 3, at, testStoreMs)[len("before"):]
	if len(b) != size {
		t.Fatalf("Size says %d, Append wrote %d", size, len(b))
	}
	var r Record
	if err := Verify(b, at, &r); err != nil {
		t.Fatalf("check %v: %v\n%x", c, err, b)
	}
	if r.Lacks(c) {
		t.Fatalf("check %v: the record lacks it", c)
	}
	return b
}

// TestStockVectors compares with records that the stock broker's code wrote.
func TestStockVectors(t *testing.T) {
	m := testMessage()
	const plain = `
		000000a8 daa320a7 3610a686 00000000 00000007 0000000000000000 0000000000000000
		00000000 0000018bcfe56800 7f00000100003039 000001a22922681f 7f00000100002a9f
		00000002 0000000000000000 00000005 68656c6c6f 09 546f70696354657374
		003f 54414753 01 54616741 02 4b455953 01 6b31206b32 02 554e49515f4b4559 01
		3746303030303031303030303030303030303030303030303030303030303031 02`
	got := m.Append(nil, CheckOff, 0, 0, testStoreMs)
	if !bytes.Equal(got, unhex(t, plain)) {
		t.Errorf("plain record:\n%x", got)
	}

	got = m.Append(nil, CheckProperty, 0, 0, testStoreMs)
	want := append(unhex(t, plain), unhex(t, "5f5f435243333223 01")...)
	want[3], want[0xa8-0x3f-1] = 0xbc, 0x53
	if len(got) != 0xbc || !bytes.HasPrefix(got, want) {
		t.Errorf("with the CRC property:\n%x\n%x", got, want)
	}

	m.Topic = "%RETRY%" + strings.Repeat("g", 130)
	got = m.Append(nil, CheckOff, 0, 0, testStoreMs)
	if binary.BigEndian.Uint32(got[4:]) != MagicV2 || !bytes.Contains(got, unhex(t, "0089 255245545259 25")) {
		t.Errorf("V2 record:\n%x", got)
	}

	m.Born, m.Store = netip.MustParseAddrPort("[2001:db8::1]:9"), netip.MustParseAddrPort("[2001:db8::2]:10911")
	got = m.Append(nil, CheckOff, 0, 0x14f, testStoreMs)
	for _, part := range []string{
		"000000000000014f 00000030", "20010db8000000000000000000000001 00000009", "20010db8000000000000000000000002 00002a9f",
	} {
		if !strings.Contains(hex.EncodeToString(got), strings.ReplaceAll(part, " ", "")) {
			t.Errorf("IPv6 record has no %s:\n%x", part, got)
		}
	}
	if id := string(AppendMsgID(nil, m.Store, 0x14f)); id != "20010DB800000000000000000000000200002A9F000000000000014F" {
		t.Errorf("message id %s", id)
	}
}

func TestBlank(t *testing.T) {
	b := AppendBlank(nil, 0x1450)
	if len(b) != 0x1450 || !bytes.Equal(b[:8], unhex(t, "00001450 cbd43194")) || len(bytes.Trim(b[8:], "\x00")) != 0 {
		t.Fatalf("%d bytes, %x…", len(b), b[:8])
	}
	var r Record
	if err := Verify(b[:8], 60336, &r); err != ErrBlank || r.Size != 0x1450 {
		t.Errorf("%v, size %d", err, r.Size)
	}
	if err := Parse(unhex(t, "00000007 cbd43194"), &r); !errors.Is(err, ErrCorrupt) {
		t.Errorf("blank of 7 bytes: %v", err)
	}
}

func TestSizeRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Message)
		want   error
	}{
		{"no topic", func(m *Message) { m.Topic = "" }, ErrNoTopic},
		{"topic of 256", func(m *Message) { m.Topic = strings.Repeat("t", 256) }, ErrTopicTooLong},
		{"topic of 255", func(m *Message) { m.Topic = strings.Repeat("t", 255) }, nil},
		{"properties of 32768", func(m *Message) { m.Props = bytes.Repeat([]byte("p"), 32768) }, ErrPropsTooLong},
		{"properties of 32767", func(m *Message) { m.Props = bytes.Repeat([]byte("p"), 32767) }, nil},
		{"too long only by an incoming check", func(m *Message) {
			m.Props = append(bytes.Repeat([]byte("p"), 32766), "\x02__CRC32#\x011234567890\x02"...)
		}, nil},
	} {
		m := testMessage()
		tc.change(&m)
		if _, err := m.Size(CheckTrailer); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
}

// TestV2Boundary: 127 bytes of topic are the last that fit a signed length byte.
func TestV2Boundary(t *testing.T) {
	for n, magic := range map[int]uint32{1: MagicV1, 127: MagicV1, 128: MagicV2, 255: MagicV2} {
		m := testMessage()
		m.Topic = strings.Repeat("t", n)
		b := written(t, m, CheckTrailer, 0)
		if got := binary.BigEndian.Uint32(b[4:]); got != magic {
			t.Errorf("topic of %d bytes: magic %#x", n, got)
		}
	}
}

func TestHosts(t *testing.T) {
	for _, tc := range []struct {
		host    netip.AddrPort
		want    string
		sysFlag int32
	}{
		{netip.AddrPort{}, "0.0.0.0:0", 0},
		{netip.MustParseAddrPort("10.1.2.3:65535"), "10.1.2.3:65535", 0},
		{netip.MustParseAddrPort("[::ffff:10.1.2.3]:7"), "10.1.2.3:7", 0},
		{netip.MustParseAddrPort("[fe80::1]:7"), "[fe80::1]:7", SysBornIPv6},
	} {
		m := testMessage()
		m.Born, m.SysFlag = tc.host, SysBornIPv6|SysStoreIPv6|SysCompressed // the sender's bits do not count
		var r Record
		if err := Parse(written(t, m, CheckOff, 9), &r); err != nil {
			t.Fatal(err)
		}
		if r.Born.String() != tc.want || r.SysFlag != tc.sysFlag|SysCompressed || r.Store != testStore {
			t.Errorf("%v became %v, sysFlag %#x", tc.host, r.Born, r.SysFlag)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	m := testMessage()
	good := m.Append(nil, CheckOff, 0, 0, 0)
	topicAt, propsAt := len(good)-0x3f-2-9-1, len(good)-0x3f-2
	for _, tc := range []struct {
		name   string
		change func(b []byte) []byte
		want   error
	}{
		{"nothing", func(b []byte) []byte { return nil }, ErrTorn},
		{"seven bytes", func(b []byte) []byte { return b[:7] }, ErrTorn},
		{"one byte short", func(b []byte) []byte { return b[:len(b)-1] }, ErrTorn},
		{"zeros", func(b []byte) []byte { return make([]byte, 100) }, ErrEmpty},
		{"size 0 with a magic", func(b []byte) []byte { b[3] = 0; return b }, ErrCorrupt},
		{"negative size", func(b []byte) []byte { b[0] = 0x80; return b }, ErrCorrupt},
		{"size 90", func(b []byte) []byte { b[3] = 90; return b }, ErrCorrupt},
		{"another magic", func(b []byte) []byte { b[7]++; return b }, ErrCorrupt},
		{"negative body length", func(b []byte) []byte { b[84] = 0xff; return b }, ErrCorrupt},
		{"body longer than the record", func(b []byte) []byte { b[86] = 1; return b }, ErrCorrupt},
		{"topic of -1 bytes", func(b []byte) []byte { b[topicAt] = 0xff; return b }, ErrCorrupt},
		{"properties of -1 bytes", func(b []byte) []byte { b[propsAt] = 0xff; return b }, ErrCorrupt},
		{"properties shorter than the rest", func(b []byte) []byte { b[propsAt+1]--; return b }, ErrCorrupt},
		{"port 65536", func(b []byte) []byte { b[53] = 1; return b }, ErrCorrupt},
	} {
		var r Record
		if err := Parse(tc.change(bytes.Clone(good)), &r); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
}

func TestVerifyRefuses(t *testing.T) {
	m := testMessage()
	good := m.Append(nil, CheckOff, 0, 4096, 0)
	var r Record
	if err := Verify(good, 4096, &r); err != nil {
		t.Fatal(err)
	}
	if err := Verify(good, 8192, &r); !errors.Is(err, ErrCorrupt) {
		t.Errorf("at another offset: %v", err)
	}
	good[88] ^= 1
	if err := Verify(good, 4096, &r); !errors.Is(err, ErrCorrupt) {
		t.Errorf("with another body: %v", err)
	}
}

func TestBatchRefuses(t *testing.T) {
	e := Element{Flag: 1, Body: []byte("body"), Props: []byte("a\x01b\x02")}
	good := e.Append(e.Append(nil))
	for name, body := range map[string][]byte{
		"cut":              good[:len(good)-1],
		"one byte":         good[:len(good)/2+1],
		"size too small":   bytes.Replace(good, []byte{0, 0, 0, 30}, []byte{0, 0, 0, 29}, 1),
		"size too large":   bytes.Replace(good, []byte{0, 0, 0, 30}, []byte{0, 0, 0, 31}, 1),
		"negative body":    bytes.Replace(good, []byte{0, 0, 0, 4}, []byte{255, 255, 255, 255}, 1),
		"trailing garbage": append(bytes.Clone(good), 0),
	} {
		b := NewBatch(body)
		for n := 0; b.Next(&e); n++ {
			if n == 2 {
				t.Fatalf("%s: more elements than there are", name)
			}
		}
		if !errors.Is(b.Err(), ErrBatch) {
			t.Errorf("%s: %v", name, b.Err())
		}
		if b.Next(&e) {
			t.Errorf("%s: goes on after its error", name)
		}
	}
	if b := NewBatch(nil); b.Next(&e) || b.Err() != nil {
		t.Errorf("empty body: %v", b.Err())
	}
}

func TestPropsEditing(t *testing.T) {
	for _, tc := range []struct{ props, name, want string }{
		{"", "a", ""},
		{"a\x011\x02b\x012\x02a\x013\x02", "a", "b\x012\x02"},
		{"a\x011\x02b\x012", "b", "a\x011\x02"},
		{"a\x011\x02b\x012", "a", "b\x012\x02"},
		{"ab\x011\x02a\x02\x02", "a", "ab\x011\x02"}, // a longer name; an entry without a value separator
		{"POP_CK\x01\x02x\x01y\x02", "POP_CK", "x\x01y\x02"},
	} {
		if got := string(AppendPropsBut(nil, []byte(tc.props), func(n []byte) bool { return string(n) == tc.name })); got != tc.want {
			t.Errorf("%q without %s: %q, want %q", tc.props, tc.name, got, tc.want)
		}
	}
	if got := string(AppendProp([]byte("a\x011"), "b", "2")); got != "a\x011\x02b\x012\x02" {
		t.Errorf("appended to an open entry: %q", got)
	}
	for range Props([]byte("a\x011\x02b\x012")) {
		break // stopping early is allowed
	}
}

// TestNoAllocations: these run for every message.
func TestNoAllocations(t *testing.T) {
	m := testMessage()
	m.Props = append(m.Props, "__CRC32#\x011234567890\x02"...) // the slow way through cleaning
	buf := make([]byte, 0, 4096)
	var r Record
	var e Element
	batch := (&Element{Body: m.Body, Props: m.Props}).Append(nil)
	name := "TAGS"
	for _, c := range []Check{CheckTrailer, CheckProperty, CheckOff} {
		rec := m.Append(nil, c, 0, 0, 0)
		for what, f := range map[string]func(){
			"Size":   func() { mustNot(m.Size(c)) },
			"Append": func() { buf = m.Append(buf[:0], c, 1, 2, 3) },
			"Parse":  func() { mustNot(0, Parse(rec, &r)) },
			"Verify": func() { mustNot(0, Verify(rec, 0, &r)) },
			"Prop and TagsCode": func() {
				tags, _ := Prop(r.Props, name)
				TagsCode(tags)
			},
			"Batch": func() {
				for b := NewBatch(batch); b.Next(&e); {
				}
			},
			"AppendMsgID": func() { buf = AppendMsgID(buf[:0], m.Store, 1) },
			"torn":        func() { _ = Parse(rec[:20], &r) },
		} {
			if n := testing.AllocsPerRun(100, f); n != 0 {
				t.Errorf("check %v: %s allocates %v times", c, what, n)
			}
		}
	}
}

func mustNot(_ int, err error) {
	if err != nil {
		panic(err)
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, c := range []Check{CheckTrailer, CheckOff} {
		b.Run("size=1024/check="+c.String(), func(b *testing.B) {
			m := testMessage()
			m.Body = make([]byte, 1024)
			buf := make([]byte, 0, 4096)
			b.ReportAllocs()
			for b.Loop() {
				buf = m.Append(buf[:0], c, 1, 2, 3)
			}
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	m := testMessage()
	m.Body = make([]byte, 1024)
	m.BodyCRC = BodyCRC(m.Body)
	rec := m.Append(nil, CheckTrailer, 0, 0, 0)
	var r Record
	b.ReportAllocs()
	for b.Loop() {
		mustNot(0, Verify(rec, 0, &r))
	}
}

func TestInQueue(t *testing.T) {
	for flag, want := range map[int32]bool{0: true, SysPrepared: false, SysCommit: true, SysRollback: false, SysCompressed: true} {
		if InQueue(flag) != want {
			t.Errorf("flag %#x: in queue %v", flag, !want)
		}
	}
}
