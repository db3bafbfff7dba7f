package index

import (
	"encoding/binary"
	"math"
	"testing"

	"ringmq/store/record"
	"ringmq/store/vfs/memfs"
)

// FuzzFiles opens two files of any bytes, and asks, cuts, goes on and opens them again: nothing panics, no
// chain is endless, and nothing is found that the log, which begins anew behind the cut, cannot have.
func FuzzFiles(f *testing.F) {
	g := geometry{slots: 5, entries: 13}
	disk := memfs.New(1)
	x := openTest(f, disk, fourOptions)
	for i := 1; i <= 8; i++ {
		putAll(f, x, []*record.Record{message(i, "a b", "")})
	}
	if err := x.Flush(); err != nil {
		f.Fatal(err)
	}
	whole := inOrder(readFiles(f, disk))
	f.Add(whole[0], whole[1], int64(500))
	f.Add(whole[0], whole[1], int64(800))
	f.Add(whole[1], whole[0], int64(0))
	f.Add(whole[0][:50], whole[1], int64(math.MaxInt64))
	for _, entry := range []int32{1, 5, 12} {
		for _, before := range []int32{-1, 1, 5, 6, 12, 13, math.MaxInt32, math.MinInt32} {
			b := append([]byte{}, whole[0]...)
			binary.BigEndian.PutUint32(b[g.entryAt(entry)+16:], uint32(before))
			binary.BigEndian.PutUint32(b[g.slotAt(before&3):], uint32(before))
			f.Add(b, whole[1], int64(300))
		}
	}
	f.Fuzz(func(t *testing.T, first, second []byte, cut int64) {
		disk := memfs.New(1)
		// Most damage is to bytes, not to lengths.
		writeFiles(t, disk, map[string][]byte{"20260101000000000": fit(g, first), "20260101000000001": fit(g, second)})
		x := openTest(t, disk, fourOptions)
		if n := len(find(t, x, Query{Key: "a"})); n > 24 {
			t.Fatalf("found %d", n)
		}
		cut &= math.MaxInt64 >> 8
		if err := x.Truncate(cut); err != nil {
			t.Fatal(err)
		}
		if got := x.Newest().Offset; got >= cut && got > 0 {
			t.Fatalf("cut at %d, newest %d", cut, got)
		}
		for i := range 30 {
			r := message(i, "a c", "")
			r.PhysOffset += cut
			putAll(t, x, []*record.Record{r})
		}
		checkNew(t, x, cut)
		if err := x.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		again := openTest(t, disk, fourOptions)
		if again.CompleteTo().Offset != cut+2900 {
			t.Fatalf("complete to %d", again.CompleteTo().Offset)
		}
		checkNew(t, again, cut)
		if err := again.DropAfter(1e12); err != nil {
			t.Fatal(err)
		}
		if err := again.DropBelow(cut); err != nil {
			t.Fatal(err)
		}
		find(t, again, Query{Key: "a"})
	})
}

// checkNew finds what was put in behind the cut.
func checkNew(t *testing.T, x *Index, cut int64) {
	t.Helper()
	got := find(t, x, Query{Key: "c"})
	n := 0
	for _, off := range got {
		if off >= cut {
			n++
		}
	}
	if n < 30 {
		t.Fatalf("%d of 30 found: %v", n, got)
	}
}

// fit gives b the length of a file, unless it is very short.
func fit(g geometry, b []byte) []byte {
	if len(b) < 20 {
		return b
	}
	return append(b, make([]byte, g.fileBytes())...)[:g.fileBytes()]
}
