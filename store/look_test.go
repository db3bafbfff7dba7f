package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ringmq/store/record"
	"ringmq/store/vfs"
	"ringmq/store/vfs/memfs"
	"ringmq/store/vfs/osfs"
)

// numbered makes a message whose property n is a number, and whose body and other parts are of some size.
func (h *harness) numbered(rng *rand.Rand, topic string, id int32, n int) Put {
	p := h.put(topic, id, bytes.Repeat([]byte("x"), []int{1, 100, 1000, 5000, 9000, 40_000}[rng.IntN(6)]))
	p.Props = record.AppendProp(record.AppendProp(nil, "pad", strings.Repeat("p", rng.IntN(300))), "n", strconv.Itoa(n))
	if rng.IntN(3) == 0 {
		p.Born = netip.MustParseAddrPort("[2001:db8::1]:1")
	}
	if rng.IntN(3) == 0 {
		p.Store = netip.MustParseAddrPort("[2001:db8::2]:2")
	}
	if rng.IntN(9) == 0 {
		p.Props = record.AppendProp(p.Props, "long", strings.Repeat("l", 32_000))
	}
	var err error
	if p.Bytes, err = h.RecordBytes(&p.Message); err != nil {
		h.t.Fatal(err)
	}
	return p
}

// everyThird is a filter by properties.
func everyThird(props []byte) bool {
	text, _ := record.Prop(props, "n")
	n, err := strconv.Atoi(string(text))
	return err == nil && n%3 == 0
}

// readFiltered reads a queue to its end and returns the queue offsets of what passed.
func (h *harness) readFiltered(topic string, id int32, match func([]byte) bool, got *Got) (passed []int64) {
	h.t.Helper()
	q := h.Queue(topic, id)
	for at := q.Min(); at < q.Max(); at = got.Next {
		if err := h.Get(q, Get{Offset: at, MaxCount: 5, MaxBytes: 1 << 20, MatchProps: match}, got); err != nil {
			h.t.Fatal(err)
		}
		if got.Next <= at {
			h.t.Fatalf("%s/%d at %d: %v, next %d", topic, id, at, got.Status, got.Next)
		}
		if want := NoMatchedMessage; got.Count == 0 && got.Status != want {
			h.t.Fatalf("%s/%d at %d: %v", topic, id, at, got.Status)
		}
		for _, phys := range runRecords(h.t.(*testing.T), h, got) {
			var head [28]byte
			if err := h.ReadAt(head[:], phys); err != nil {
				h.t.Fatal(err)
			}
			passed = append(passed, int64(binary.BigEndian.Uint64(head[20:])))
		}
	}
	return passed
}

// TestMatchProps: properties are found in records of every form and size, close together and apart, in memory and after
// a restart.
func TestMatchProps(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"memfs": memfs.New(1), "osfs": osfs.New(osfs.Options{})} {
		t.Run(name, func(t *testing.T) {
			o := tinyOptions("/s")
			if name == "osfs" {
				o.Dir = path.Join(t.TempDir(), "s")
			}
			o.SegmentBytes, o.StagingBytes, o.MaxMessageBytes, o.QueueFileBytes = 128<<10, 1<<20, 64<<10, 400
			h := openTest(t, fsys, o)
			rng := rand.New(rand.NewPCG(3, 4))
			longTopic := strings.Repeat("t", 200) // a record of version 2
			want := map[string][]int64{}
			next := map[string]int64{}
			for i := range 300 {
				topic, id := []string{"T", longTopic}[rng.IntN(2)], int32(rng.IntN(2))
				if !h.send(h.numbered(rng, topic, id, i)) {
					t.Fatal(h.Err())
				}
				key := fmt.Sprint(topic, id)
				if i%3 == 0 {
					want[key] = append(want[key], next[key])
				}
				next[key]++
			}
			var got Got
			check := func() {
				for _, topic := range []string{"T", longTopic} {
					for id := range int32(2) {
						key := fmt.Sprint(topic, id)
						if passed := h.readFiltered(topic, id, everyThird, &got); !slices.Equal(passed, want[key]) {
							t.Errorf("%s: passed %v, want %v", key, passed, want[key])
						}
					}
				}
			}
			check()
			if err := h.Close(); err != nil {
				t.Fatal(err)
			}
			h = openTest(t, fsys, o) // now no entry was made by this process
			got = Got{}              // the offsets are the same, the store is another
			check()
			if err := h.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestLooksAreBounded: a Get that finds nothing ends after some megabytes, not after all that there is, and the next one
// goes on there.
func TestLooksAreBounded(t *testing.T) {
	o := tinyOptions("/s")
	o.SegmentBytes, o.StagingBytes, o.QueueFileBytes = 64<<20, 4<<20, 60_000
	h := openTest(t, memfs.New(1), o)
	defer h.Close()
	const n = 700
	body := make([]byte, 7<<10)
	for range n / 50 {
		var puts []Put
		for range 50 {
			puts = append(puts, h.put("T", 0, body))
		}
		if !h.send(puts...) {
			t.Fatal(h.Err())
		}
	}
	var got Got
	gets, most := 0, int64(0)
	for at := int64(0); at < n; at = got.Next {
		looks := 0
		none := func([]byte) bool { looks++; return false }
		if err := h.Get(h.Queue("T", 0), Get{Offset: at, MaxCount: 32, MaxBytes: 1 << 20, MatchProps: none}, &got); err != nil {
			t.Fatal(err)
		}
		if got.Status != NoMatchedMessage || got.Next <= at || int64(looks) != got.Next-at {
			t.Fatalf("at %d: %v, next %d after %d looks", at, got.Status, got.Next, looks)
		}
		gets++
		most = max(most, got.Next-at)
	}
	if atMost := int64(maxLookedBytes/len(body)) + windowBytes/int64(len(body)) + 1; gets < 2 || most > atMost {
		t.Errorf("%d calls, one looked at %d messages; want %d at most", gets, most, atMost)
	}
}

// TestOneReadForMany: the second who looks at a message finds it in memory.
func TestOneReadForMany(t *testing.T) {
	h := openTest(t, memfs.New(1), tinyOptions("/s"))
	defer h.Close()
	if !h.send(h.put("T", 0, []byte("x"))) {
		t.Fatal(h.Err())
	}
	var got Got
	for i := range 3 {
		g := Get{MaxCount: 1, MaxBytes: 1, MatchProps: func(props []byte) bool { return string(props[:4]) == "TAGS" }}
		if err := h.Get(h.Queue("T", 0), g, &got); err != nil || got.Status != Found {
			t.Fatalf("%v %v", got.Status, err)
		}
		if (i == 0) != (got.looked > 0) {
			t.Errorf("look %d: %d bytes", i, got.looked)
		}
	}
	g := Get{MaxCount: 1, MaxBytes: 1, MatchProps: func(props []byte) bool { return false }}
	if n := testing.AllocsPerRun(100, func() { _ = h.Get(h.Queue("T", 0), g, &got) }); n > 0 {
		t.Errorf("%v allocations for a look", n)
	}
}

// TestLooksAtDamage: entries that point to no record have no properties, whatever stands there.
func TestLooksAtDamage(t *testing.T) {
	fsys := memfs.New(1)
	unpack(t, fsys, "roll")
	h := openTest(t, fsys, Options{Dir: "/"})
	q := h.Queue("RollA", 0)
	all := q.Max()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := fsys.Open("/consumequeue/RollA/0/00000000000000000000")
	if err != nil {
		t.Fatal(err)
	}
	entry := make([]byte, 20)
	for i, e := range []struct {
		at   uint64
		size uint32
	}{{513, 200}, {0, 20}, {0, 9000}, {1, 9000}, {1 << 40, 100}} {
		binary.BigEndian.PutUint64(entry, e.at)
		binary.BigEndian.PutUint32(entry[8:], e.size)
		if _, err := f.WriteAt(entry, int64(1+i)*20); err != nil {
			t.Fatal(err)
		}
	}
	h = openTest(t, fsys, Options{Dir: "/"})
	defer h.Close()
	looks := int64(0)
	var got Got
	for at := int64(0); at < all; at = got.Next {
		g := Get{Offset: at, MaxCount: 1, MaxBytes: 1, MatchProps: func([]byte) bool { looks++; return true }}
		if err := h.Get(h.Queue("RollA", 0), g, &got); err != nil {
			t.Fatal(err)
		}
		for _, phys := range runRecords(t, h, &got) {
			if phys == 513 || phys == 1 {
				t.Errorf("served bytes at %d, where no record begins", phys)
			}
		}
	}
	if looks == 0 || looks > all {
		t.Errorf("%d looks at %d entries", looks, all)
	}
}
