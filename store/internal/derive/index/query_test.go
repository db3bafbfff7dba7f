package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"ringmq/store/record"
	"ringmq/store/vfs/memfs"
)

// find asks for a key of topic TopicTest; a query without limits has none.
func find(t testing.TB, x *Index, q Query) []int64 {
	t.Helper()
	q.Topic = "TopicTest"
	if q.Max == 0 {
		q.Max = math.MaxInt
	}
	if q.EndMs == 0 {
		q.EndMs = math.MaxInt64
	}
	got, err := x.Find(q)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestFind: what is found across four files, the newest of which is partly in memory.
func TestFind(t *testing.T) {
	x := openTest(t, memfs.New(1), Options{Slots: 3, Entries: 6})
	for i := 1; i <= 9; i++ {
		putAll(t, x, []*record.Record{message(i, "a b", []string{"odd", "even"}[(i+1)%2])})
	}
	if len(x.files) < 4 {
		t.Fatalf("%d files", len(x.files))
	}
	at := func(i int) int64 { return 1e12 + int64(i)*1000 }
	for _, tc := range []struct {
		q    Query
		want []int64
	}{
		{Query{Key: "a"}, []int64{100, 200, 300, 400, 500, 600, 700, 800, 900}},
		{Query{Key: "a", Max: 2}, []int64{800, 900}},
		{Query{Key: "a", Max: 5}, []int64{500, 600, 700, 800, 900}},
		{Query{Key: "a", Max: -1}, nil},
		{Query{Key: "even", Tags: true}, []int64{200, 400, 600, 800}},
		{Query{Key: "even"}, nil},
		{Query{Key: "T#even"}, []int64{200, 400, 600, 800}}, // the same text is hashed, as in stock
		{Query{Key: "c"}, nil},
		{Query{Key: ""}, nil},
		{Query{Key: "a", EndMs: at(3)}, []int64{100, 200, 300}},
		{Query{Key: "a", BeginMs: at(8)}, []int64{800, 900}},
		{Query{Key: "a", BeginMs: at(4), EndMs: at(6)}, []int64{400, 500, 600}},
		{Query{Key: "a", BeginMs: at(10)}, nil},
		{Query{Key: "a", BeginMs: at(6), EndMs: at(4)}, nil},
		{Query{Key: "a", Max: 3, Accept: func(off int64) bool { return off%200 == 0 }}, []int64{400, 600, 800}},
	} {
		if got := find(t, x, tc.q); !slices.Equal(got, tc.want) {
			t.Errorf("%+v: got %v, want %v", tc.q, got, tc.want)
		}
	}
	if got, err := x.Find(Query{Topic: "Other", Key: "a", Max: 9, EndMs: at(99)}); err != nil || len(got) > 0 {
		t.Errorf("other topic: %v, %v", got, err)
	}
}

// TestCollision: Aa and BB have one hash. Accept tells them apart, and what it refuses takes no place.
func TestCollision(t *testing.T) {
	x := openTest(t, memfs.New(1), goldenOptions)
	log := []*record.Record{message(0, "Aa", ""), message(1, "BB", ""), message(2, "", "Aa"), message(3, "x Aa", "")}
	log[1].Topic, log[1].Props = []byte("TopicTest"), record.AppendProp(nil, "UNIQ_KEY", "BB")
	putAll(t, x, log)
	if got := find(t, x, Query{Key: "Aa"}); !slices.Equal(got, []int64{0, 100, 300}) {
		t.Errorf("without a look: %v", got)
	}
	for key, want := range map[string][]int64{"Aa": {0, 300}, "BB": {100}} {
		q := Query{Topic: "TopicTest", Key: key, Max: 2, EndMs: math.MaxInt64}
		q.Accept = func(off int64) bool { return q.Matches(log[off/100]) }
		if got := find(t, x, q); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
	if q := (Query{Topic: "Other", Key: "Aa"}); q.Matches(log[0]) {
		t.Error("another topic matches")
	}
	if q := (Query{Topic: "TopicTest", Key: "Aa", Tags: true}); q.Matches(log[0]) || !q.Matches(log[2]) {
		t.Error("tags are keys")
	}
}

// TestHostileKeys: somebody sends messages by the thousand whose keys have one hash, and others ask for such a key; or all
// messages have one key, and somebody asks for an old time. Each look would read all of them.
func TestHostileKeys(t *testing.T) {
	x := openTest(t, memfs.New(1), Options{Slots: 10, Entries: 5000})
	var log []*record.Record
	for i := range 12_000 {
		key := "AaAaAa"
		if i > 10 {
			key = "BBBBBB" // of the same hash
		}
		log = append(log, message(i, key, ""))
	}
	putAll(t, x, log)
	if err := x.Flush(); err != nil {
		t.Fatal(err)
	}
	looked := 0
	q := Query{Topic: "TopicTest", Key: "AaAaAa", Max: 5, EndMs: math.MaxInt64, Effort: 1000 * ReadEffort}
	q.Accept = func(off int64) bool { looked++; return q.Matches(log[off/100]) }
	if got, err := x.Find(q); !errors.Is(err, ErrEffort) || looked > 1000 {
		t.Errorf("%v, %v after a look at %d messages", got, err, looked)
	}
	q.Effort = 0
	if got, err := x.Find(q); err != nil || !slices.Equal(got, []int64{600, 700, 800, 900, 1000}) {
		t.Errorf("without a bound: %v, %v", got, err)
	}
	q.Key, q.Max, q.Effort = "BBBBBB", 50_000, 1000*ReadEffort
	if got, err := x.Find(q); err != nil || len(got) < 500 || got[len(got)-1] != 1_199_900 {
		t.Errorf("of a key that many have, the newest %d: %v", len(got), err)
	}
	q.Accept, q.EndMs, q.Effort = nil, log[100].StoreMs, 1000
	if got, err := x.Find(q); !errors.Is(err, ErrEffort) {
		t.Errorf("of an old time: %d, %v", len(got), err)
	}
}

// TestDamagedChain: a chain that leads to itself, to younger entries, or out of the file ends there.
func TestDamagedChain(t *testing.T) {
	for _, before := range []int32{3, 5, 4, 400, math.MaxInt32, math.MinInt32, -1} {
		disk := memfs.New(1)
		x := openTest(t, disk, goldenOptions)
		for i := range 5 {
			putAll(t, x, []*record.Record{message(i, "a", "")})
		}
		if err := x.Flush(); err != nil {
			t.Fatal(err)
		}
		f := x.newest()
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(before))
		if _, err := f.WriteAt(b[:], x.g.entryAt(3)+16); err != nil {
			t.Fatal(err)
		}
		if got := find(t, x, Query{Key: "a"}); !slices.Equal(got, []int64{200, 300, 400}) {
			t.Errorf("before=%d: %v", before, got)
		}
	}
}

// TestFindWhilePut: queries see every record that was put before they began, whatever the owner does
// meanwhile, in order and once.
func TestFindWhilePut(t *testing.T) {
	x := openTest(t, memfs.New(1), Options{Slots: 50, Entries: 3000})
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 3 {
		wg.Go(func() {
			for last := false; !last; {
				select {
				case <-done:
					last = true
				default:
				}
				before := x.Newest().Offset
				got := find(t, x, Query{Key: "a", Max: 40})
				for i := range got {
					if i > 0 && got[i] != got[i-1]+100 {
						t.Errorf("%v", got)
						return
					}
				}
				if len(got) > 0 && got[len(got)-1] < before {
					t.Errorf("newest found %d, put before %d", got[len(got)-1], before)
					return
				}
			}
		})
	}
	for i := 1; i <= 5000; i++ {
		putAll(t, x, []*record.Record{message(i, fmt.Sprintf("a k%d", i%100), "")})
		if i%700 == 0 {
			if err := x.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if i == 4000 {
			if err := x.DropBelow(200_000); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(done)
	wg.Wait()
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkFind: 40 hits of a key that every tenth record has.
func BenchmarkFind(b *testing.B) {
	x := openTest(b, memfs.New(1), Options{Slots: 5000, Entries: 1 << 20})
	for i := range 100_000 {
		putAll(b, x, []*record.Record{message(i, fmt.Sprintf("u%d k%d", i, i%10), "")})
	}
	b.ReportAllocs()
	for b.Loop() {
		if got := find(b, x, Query{Key: "k3", Max: 40}); len(got) != 40 {
			b.Fatal(len(got))
		}
	}
}
