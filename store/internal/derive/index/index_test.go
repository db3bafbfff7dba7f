package index

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path"
	"slices"
	"testing"
	"time"

	"ringmq/store/record"
	"ringmq/store/vfs/memfs"
	"ringmq/store/vfs/osfs"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// message is a record with keys; every one is stored a second after the one before it.
func message(i int, keys, tags string) *record.Record {
	var props []byte
	if keys != "" {
		props = record.AppendProp(props, "KEYS", keys)
	}
	if tags != "" {
		props = record.AppendProp(props, "TAGS", tags)
	}
	return &record.Record{Topic: []byte("TopicTest"), PhysOffset: int64(i) * 100, StoreMs: 1e12 + int64(i)*1000, Props: props}
}

// TestHash: vectors of the stock broker 5.5.0. Some texts have the smallest number for a hash, whose
// absolute value in Java is negative still.
func TestHash(t *testing.T) {
	for text, want := range map[string]int32{
		"TopicTest#k1": 2746024, "TopicTest#Aa": 2744770, "TopicTest#BB": 2744770, "TopicTest#标签": 3599833,
		"TopicTest#😀": 4515557, "TopicTest#": 1148604930, "AaBBAaBB": 540425984,
		"polygenelubricants": 0, "GydZG_": 0, "": 0,
	} {
		if got := hashOf([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// TestLayout: head and entries that a stock broker wrote.
func TestLayout(t *testing.T) {
	h := head{beginMs: 0x1a22922681f, endMs: 0x1a2292268e0, endPhys: 0x489, used: 4, count: 6}
	want := "000001a22922681f" + "000001a2292268e0" + "0000000000000000" + "0000000000000489" + "00000004" + "00000006"
	if got := h.append(nil); hex.EncodeToString(got) != want || parseHead(got) != h {
		t.Errorf("head %x, read %+v", got, parseHead(got))
	}
	for text, e := range map[string]entry{
		"0029e6a8" + "0000000000000000" + "00000000" + "00000000": {hash: 0x29e6a8},
		"4553827d" + "0000000000000489" + "00000000" + "00000004": {hash: 0x4553827d, phys: 0x489, before: 4},
	} {
		if got := e.append(nil); hex.EncodeToString(got) != text || parseEntry(got) != e {
			t.Errorf("entry %x, want %s, read %+v", got, text, parseEntry(got))
		}
	}
	var full Options
	full.Fill()
	g := geometry{slots: int32(full.Slots), entries: int32(full.Entries)}
	if g.fileBytes() != 420_000_040 || g.slotAt(24) != 136 || g.entryAt(1) != 20_000_060 {
		t.Errorf("a file has %d bytes, slot 24 is at %d, entry 1 at %d", g.fileBytes(), g.slotAt(24), g.entryAt(1))
	}
}

// TestSeconds: how far from the file's first record an entry is, at the limits.
func TestSeconds(t *testing.T) {
	for _, tc := range []struct {
		beginMs, storeMs int64
		want             int32
	}{
		{1000, 1999, 0}, {1000, 2000, 1}, {1000, 0, 0}, {0, 5000, 0}, {-1, 5000, 0},
		{1, 1 << 62, 1<<31 - 1}, {1, 1 + 1000*(1<<31-1), 1<<31 - 1}, {1, 1000 * (1<<31 - 1), 1<<31 - 2},
	} {
		if got := (&head{beginMs: tc.beginMs}).secondsAt(tc.storeMs); got != tc.want {
			t.Errorf("%+v: %d", tc, got)
		}
	}
}

// TestKeys: which keys a record has, in which order.
func TestKeys(t *testing.T) {
	for _, tc := range []struct {
		props string
		want  []string
	}{
		{"", nil},
		{"KEYS\x01a b\x02", []string{"P#a", "P#b"}},
		{"KEYS\x01 a  b \x02", []string{"P#a", "P#b"}},
		{"KEYS\x01a a\x02", []string{"P#a", "P#a"}},
		{"KEYS\x01  \x02", nil},
		{"TAGS\x01A||B\x02KEYS\x01k\x02UNIQ_KEY\x01U\x02", []string{"P#U", "P#k", "P#T#A||B"}},
		{"UNIQ_KEY\x01U V\x02x\x01y\x02", []string{"P#U V"}},
		{"KEYS\x01a\x02KEYS\x01b", []string{"P#b"}},
		{"KEYS\x01\x02TAGS\x01\x02UNIQ_KEY\x01\x02", nil},
	} {
		var got []string
		for k := range keysOf([]byte(tc.props)) {
			got = append(got, string(k.append(nil, []byte("P"))))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%q: %q, want %q", tc.props, got, tc.want)
		}
	}
}

// TestSkipped: a rolled back half message has no keys, an old record is not put in again.
func TestSkipped(t *testing.T) {
	x := openTest(t, memfs.New(1), goldenOptions)
	back, half := message(1, "k", ""), message(2, "k", "")
	back.SysFlag, half.SysFlag = record.SysRollback, record.SysPrepared
	putAll(t, x, []*record.Record{back, half, half, message(3, "", ""), half, message(1, "k", "")})
	if got := find(t, x, Query{Key: "k"}); !slices.Equal(got, []int64{200}) {
		t.Errorf("found %v", got)
	}
}

// TestNames: names are the clock's, but never at or behind the one before. In autumn the wall clock shows
// the same hour twice.
func TestNames(t *testing.T) {
	berlin := time.FixedZone("", 3600)
	now := time.Date(2026, 11, 30, 23, 59, 59, 999e6, berlin)
	disk := memfs.New(1)
	x, err := Open(disk, dir, Options{Slots: 5, Entries: 2, Log: quiet, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	putAll(t, x, []*record.Record{message(1, "a b c", "")})
	now = now.Add(-time.Hour)
	putAll(t, x, []*record.Record{message(2, "d", "")})
	now = now.Add(2 * time.Hour)
	putAll(t, x, []*record.Record{message(3, "e", "")})
	names, err := disk.List(dir)
	want := []string{"20261130235959999", "20261130235960000", "20261130235960001", "20261130235960002", "20261201005959999"}
	if err != nil || !slices.Equal(names, want) {
		t.Errorf("%v, %v, want %v", names, err, want)
	}
	if err := errors.Join(x.Flush(), x.Close()); err != nil {
		t.Fatal(err)
	}
	x = openTest(t, disk, Options{Slots: 5, Entries: 2})
	if got := find(t, x, Query{Key: "d"}); !slices.Equal(got, []int64{200}) {
		t.Errorf("found %v", got)
	}
}

// TestNoNameLeft: a name that cannot be followed is an error, not a loop.
func TestNoNameLeft(t *testing.T) {
	disk := memfs.New(1)
	o := Options{Slots: 5, Entries: 2}
	x := openTest(t, disk, o)
	putAll(t, x, []*record.Record{message(1, "a", "")})
	if err := x.Flush(); err != nil {
		t.Fatal(err)
	}
	for name := range readFiles(t, disk) {
		if err := disk.Rename(path.Join(dir, name), path.Join(dir, "99999999999999999")); err != nil {
			t.Fatal(err)
		}
	}
	x = openTest(t, disk, o)
	for range 2 {
		if err := x.Put(message(2, "a", "")); err == nil {
			t.Fatal("put")
		}
	}
	if got := find(t, x, Query{Key: "a"}); !slices.Equal(got, []int64{100}) {
		t.Errorf("found %v", got)
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{Slots: -1}, {Slots: maxSlots + 1}, {Entries: 1}, {Entries: -5}, {Entries: 1 << 31}} {
		if _, err := Open(memfs.New(1), dir, o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	o := Options{Slots: -1, Entries: -1}
	if err := o.Check(); err == nil || len(err.(interface{ Unwrap() []error }).Unwrap()) != 2 {
		t.Errorf("not both complaints: %v", err)
	}
}

// TestFullSize: files of the default size take only the blocks that are used.
func TestFullSize(t *testing.T) {
	disk := memfs.New(1)
	disk.SetSpace(1 << 20)
	x := openTest(t, disk, Options{})
	for i := range 50 {
		putAll(t, x, []*record.Record{message(i, fmt.Sprint("k", i), "T")})
	}
	if err := x.Flush(); err != nil {
		t.Fatal(err)
	}
	x = openTest(t, disk, Options{})
	if got := find(t, x, Query{Key: "k7"}); !slices.Equal(got, []int64{700}) {
		t.Errorf("found %v", got)
	}
	if got := find(t, x, Query{Key: "T", Tags: true}); len(got) != 50 {
		t.Errorf("found %v", got)
	}
}

// TestPutAllocatesNothing, with the writes of full buffers, on a real file.
func TestPutAllocatesNothing(t *testing.T) {
	x, err := Open(osfs.New(osfs.Options{}), t.TempDir()+"/index", Options{Slots: 5000, Entries: 1 << 20, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	r := message(0, "some keys", "and-tags")
	put := func() {
		r.PhysOffset += 100
		if err := x.Put(r); err != nil {
			t.Fatal(err)
		}
	}
	put()
	if n := testing.AllocsPerRun(5000, put); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestClosed: nothing works after Close, and nothing breaks.
func TestClosed(t *testing.T) {
	x := openTest(t, memfs.New(1), goldenOptions)
	putAll(t, x, []*record.Record{message(1, "k", "")})
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{x.Put(message(2, "k", "")), x.Flush(), x.Truncate(0), x.DropAfter(0)} {
		if !errors.Is(err, errClosed) {
			t.Error(err)
		}
	}
	if got := find(t, x, Query{Key: "k"}); len(got) > 0 {
		t.Errorf("found %v", got)
	}
}

// BenchmarkPut: three keys a record, files of the default size, a flush for every 100,000 records.
func BenchmarkPut(b *testing.B) {
	x, err := Open(osfs.New(osfs.Options{}), b.TempDir()+"/index", Options{Log: quiet})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	topic, props, i := []byte("TopicTest"), []byte(nil), 0
	for b.Loop() {
		i++
		props = record.AppendProp(props[:0], "UNIQ_KEY", "7F0000010000F1D70000000000000000")
		for j, n := 0, i; j < 8; j, n = j+1, n*31+7 {
			props[10+j] = 'a' + byte(n%23)
		}
		props = append(props, "KEYS\x01order-12345\x02TAGS\x01TagA\x02"...)
		if err := x.Put(&record.Record{Topic: topic, PhysOffset: int64(i), StoreMs: 1e12, Props: props}); err != nil {
			b.Fatal(err)
		}
		if i%100_000 == 0 {
			if err := x.Flush(); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := x.Close(); err != nil {
		b.Fatal(err)
	}
}
