package record

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawMessage makes a message of any shape that Size takes. Its properties often look like checks.
func drawMessage(t *rapid.T) Message {
	host := rapid.SampledFrom([]string{"127.0.0.1:1", "255.1.2.3:65535", "[2001:db8::2]:10911", "[::ffff:1.2.3.4]:9"})
	body := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "body")
	return Message{
		Topic:   strings.Repeat("t", rapid.SampledFrom([]int{1, 9, 127, 128, 255}).Draw(t, "topic")),
		QueueID: rapid.Int32().Draw(t, "queue"), Flag: rapid.Int32().Draw(t, "flag"),
		SysFlag: rapid.Int32().Draw(t, "sysFlag"), ReconsumeTimes: rapid.Int32().Draw(t, "reconsume"),
		BornMs: rapid.Int64().Draw(t, "born"), PreparedOffset: rapid.Int64().Draw(t, "prepared"),
		Born: netip.MustParseAddrPort(host.Draw(t, "bornHost")), Store: netip.MustParseAddrPort(host.Draw(t, "storeHost")),
		Body: body, BodyCRC: BodyCRC(body), Props: drawProps(t),
	}
}

func drawProps(t *rapid.T) []byte {
	piece := rapid.SampledFrom([]string{
		"TAGS\x01TagA", "\x02", "\x02", "\x02", "\x01", "a\x01b", "~r", "~rAAAAAA", "~rAbC_-9", "__CRC32#", "\x01",
		"__CRC32#\x011234567890", "1234567890", "x", "~rA+AAAA", "值",
	})
	props := []byte(strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, "props"), ""))
	if pad := rapid.IntRange(-24, 24).Draw(t, "pad"); pad < 0 && rapid.Bool().Draw(t, "full") {
		filler := bytes.Repeat([]byte("f"), max(0, MaxPropsBytes+pad-len(props)))
		props = append(filler, props...) // hardly any room for a check, or none
	}
	return props
}

// TestWrittenIsAccepted: whatever Append writes, Verify accepts, with the check that it was written with
// unless there was no room, and the properties mean the same.
func TestWrittenIsAccepted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, at := drawMessage(t), rapid.Int64Min(0).Draw(t, "at")
		c := rapid.SampledFrom([]Check{CheckTrailer, CheckProperty, CheckOff}).Draw(t, "check")
		size, err := m.Size(c)
		if err != nil {
			t.Fatal(err)
		}
		b := m.Append(nil, c, 7, at, 11)
		var r Record
		if err := Verify(append(b, "what follows"...), at, &r); err != nil || r.Size != size || size != len(b) {
			t.Fatalf("%v, size %d, parsed %d, written %d", err, size, r.Size, len(b))
		}
		n, last := measureClean(m.Props)
		if want := c.extraBytes(n, last) > 0; (r.Check == c && c != CheckOff) != want || r.Lacks(c) {
			t.Fatalf("found check %v, written with %v, room %v, lacks %v", r.Check, c, want, r.Lacks(c))
		}
		want, got := asMap(appendClean(nil, m.Props)), asMap(r.Props)
		if delete(got, "__CRC32#"); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("properties %q, want %q", got, want)
		}
	})
}

// TestDamageIsRefused: with a check no single wrong byte gets through, and no cut.
func TestDamageIsRefused(t *testing.T) {
	for _, c := range []Check{CheckTrailer, CheckProperty} {
		for name, props := range map[string]string{
			"none": "", "closed": "TAGS\x01TagA\x02", "open": "TAGS\x01TagA", "long": strings.Repeat("n\x01v\x02", 50),
		} {
			t.Run(c.String()+"/"+name, func(t *testing.T) {
				m := testMessage()
				m.Props = []byte(props)
				b := written(t, m, c, 4096)
				var r Record
				for i := range b {
					for flip := 1; flip < 256; flip++ {
						b[i] ^= byte(flip)
						if Verify(b, 4096, &r) == nil {
							t.Fatalf("byte %d of %d changed by %#x: accepted", i, len(b), flip)
						}
						b[i] ^= byte(flip)
					}
				}
				for n := range b {
					if Verify(b[:n], 4096, &r) == nil {
						t.Fatalf("cut to %d of %d bytes: accepted", n, len(b))
					}
					if Verify(append(bytes.Clone(b[:n]), make([]byte, len(b))...), 4096, &r) == nil && !r.Lacks(c) {
						t.Fatalf("zeros after %d of %d bytes: accepted", n, len(b))
					}
				}
			})
		}
	}
}

// TestGluedIsRefused: a power cut in a recycled segment leaves the beginning of a new record and the
// end of an old one. The stock rule takes many of those; a reader who knows that a check must be there
// takes none.
func TestGluedIsRefused(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []Check{CheckTrailer, CheckProperty} {
		stockTakes := 0
		for round := range 300 {
			newer, older := randomLog(t, rng, c), randomLog(t, rng, c)
			cut := rng.IntN(min(len(newer), len(older)))
			both := append(bytes.Clone(newer[:cut]), older[cut:]...)
			var r Record
			for at := 0; at < len(both); at += r.Size {
				if err := Verify(both[at:], int64(at), &r); err != nil || r.Lacks(c) {
					if Parse(both[at:], &r) == nil && r.BodyCRC == BodyCRC(r.Body) {
						stockTakes++
					}
					break
				}
				rec := both[at : at+r.Size]
				if !bytes.HasPrefix(newer[at:], rec) && !bytes.HasPrefix(older[at:], rec) {
					t.Fatalf("%v: round %d, cut at %d: a record of both logs at %d was accepted", c, round, cut, at)
				}
			}
		}
		if stockTakes == 0 {
			t.Errorf("%v: no glued record that the stock rule takes: this test shows nothing", c)
		}
		t.Logf("%v: the stock rule took %d glued records", c, stockTakes)
	}
}

// randomLog is a few records in a row from offset 0, with lengths from a small set, so that the
// boundaries of two logs often agree.
func randomLog(t *testing.T, rng *rand.Rand, c Check) []byte {
	var log []byte
	for len(log) < 1500 {
		m := testMessage()
		m.Topic = []string{"TopicA", "TopicB"}[rng.IntN(2)]
		m.Body = bytes.Repeat([]byte{byte(rng.IntN(2))}, 8*rng.IntN(3))
		m.BodyCRC = BodyCRC(m.Body)
		m.Props = AppendProp(nil, "KEYS", fmt.Sprintf("%08d", rng.IntN(1e8)))
		if _, err := m.Size(c); err != nil {
			t.Fatal(err)
		}
		log = m.Append(log, c, rng.Int64N(3), int64(len(log)), testStoreMs+rng.Int64N(3))
	}
	return log
}

// TestIncomingChecksAreRemoved: nothing that a producer sends can stand where a check is looked for.
func TestIncomingChecksAreRemoved(t *testing.T) {
	for _, tc := range []struct{ props, want string }{
		{"a\x01b\x02~rAAAAAA", "a\x01b\x02"},
		{"~rAAAAAA", ""},
		{"~rAAAAAA\x02a\x01b", "a\x01b"},
		{"a\x01b\x02~rAAAAAA\x02~rBBBBBB", "a\x01b\x02"},
		{"__CRC32#\x011234567890\x02", ""},
		{"__CRC32#\x01\x02a\x01b\x02", "a\x01b\x02"},
		{"__CRC32#\x01any text\x02a\x01b\x02", "a\x01b\x02"},
		{"a\x01b__CRC32#\x011234567890\x02", "a\x01b\x02"}, // as the stock broker's batches have it
		{"a\x01b__CRC32#\x011234567890__CRC32#\x011234567890\x02", "a\x01b\x02"},
		{"a\x01b\x02~rAAAAAA__CRC32#\x011234567890\x02", "a\x01b\x02"},
		{"a\x01x~rAAAAAA", "a\x01x~rAAAAAA"}, // a value that ends like a trailer is none
		{"~rAAAAA+\x02", "~rAAAAA+\x02"},
		{"~rAAAAAAA\x02", "~rAAAAAAA\x02"},
		{"__CRC32\x01x\x02", "__CRC32\x01x\x02"},
		{"\x02\x02~rAAAAAA\x02", "\x02\x02"},
	} {
		got := appendClean(nil, []byte(tc.props))
		if string(got) != tc.want {
			t.Errorf("%q: %q, want %q", tc.props, got, tc.want)
		}
		if n, last := measureClean([]byte(tc.props)); n != len(tc.want) || last != lastByte([]byte(tc.want)) {
			t.Errorf("%q: measured %d bytes ending in %#x", tc.props, n, last)
		}
		for _, c := range []Check{CheckTrailer, CheckProperty, CheckOff} {
			m := testMessage()
			m.Props = []byte(tc.props)
			written(t, m, c, 77)
		}
	}
}

// TestTrailerDigits: they are what any base64url encoder makes of the big-endian CRC.
func TestTrailerDigits(t *testing.T) {
	m := testMessage()
	b := written(t, m, CheckTrailer, 0)
	head, digits := b[:len(b)-trailerDigits], string(b[len(b)-trailerDigits:])
	crc := binary.BigEndian.AppendUint32(nil, crc32.Checksum(head, crc32.MakeTable(crc32.Castagnoli)))
	if want := base64.RawURLEncoding.EncodeToString(crc); digits != want || !bytes.HasSuffix(head, []byte("\x02~r")) {
		t.Errorf("the record ends in %q, want %q", b[len(b)-9:], want)
	}
}

// TestNoRoom: properties that are as long as can be are stored, without a check, and are not refused
// for that later.
func TestNoRoom(t *testing.T) {
	for _, c := range []Check{CheckTrailer, CheckProperty} {
		stored := map[bool]int{}
		for n := MaxPropsBytes - 25; n <= MaxPropsBytes; n++ {
			m := testMessage()
			m.Props = bytes.Repeat([]byte("p"), n)
			b := written(t, m, c, 0)
			var r Record
			if err := Verify(b, 0, &r); err != nil {
				t.Fatal(err)
			}
			if has := r.Check == c; has {
				stored[has]++
			} else if stored[false]++; len(r.Props) != n {
				t.Fatalf("%v: %d bytes of properties became %d", c, n, len(r.Props))
			}
		}
		if stored[true] == 0 || stored[false] == 0 {
			t.Errorf("%v: with and without a check: %v", c, stored)
		}
	}
}

// TestZeroIsACheck: a CRC of 0 counts (the stock broker took it for missing, rocketmq#9121). The
// queue id is chosen so that the CRC comes out as 0.
func TestZeroIsACheck(t *testing.T) {
	m := testMessage()
	b := written(t, m, CheckTrailer, 0)
	head := b[:len(b)-trailerDigits]
	forceZero(head[12:16], func() uint32 { return crc32.Checksum(head, castagnoli) })
	copy(b[len(b)-trailerDigits:], "AAAAAA")
	var r Record
	if err := Verify(b, 0, &r); err != nil || r.Check != CheckTrailer {
		t.Fatalf("a check of 0: %v, found %v", err, r.Check)
	}
	b[20]++
	if Verify(b, 0, &r) == nil {
		t.Fatal("with a check of 0 a changed byte was accepted")
	}
}

// forceZero sets the four bytes so that crc, which is linear in them over GF(2), becomes 0.
func forceZero(at []byte, crc func() uint32) {
	clear(at)
	base := crc()
	type row struct{ out, in uint32 }
	var rows []row
	for bit := range 32 {
		at[bit/8] = 1 << (bit % 8)
		rows = append(rows, row{crc() ^ base, 1 << bit})
		at[bit/8] = 0
	}
	var in uint32
	for bit := 31; bit >= 0; bit-- {
		pivot := -1
		for i, r := range rows {
			if r.out>>bit&1 == 1 {
				pivot = i
				break
			}
		}
		if pivot < 0 {
			continue
		}
		p := rows[pivot]
		rows = append(rows[:pivot], rows[pivot+1:]...)
		for i := range rows {
			if rows[i].out>>bit&1 == 1 {
				rows[i] = row{rows[i].out ^ p.out, rows[i].in ^ p.in}
			}
		}
		if base>>bit&1 == 1 {
			base, in = base^p.out, in^p.in
		}
	}
	for i := range at {
		at[i] = byte(in >> (8 * i))
	}
}
