package store

import (
	"slices"
	"testing"

	"ringmq/store/vfs/memfs"
)

// TestProgress: a start that reads much of the log tells how far it is, from its beginning to near its end.
func TestProgress(t *testing.T) {
	fsys := memfs.New(1)
	o := Options{Dir: "/s", SegmentBytes: 32 << 20, FlushSync: true}
	h := openTest(t, fsys, o)
	for range 15 {
		if !h.send(h.put("T", 0, make([]byte, 4<<20))) {
			t.Fatal(h.Err())
		}
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	var told []int64
	o.Progress = func(done, total int64) {
		told = append(told, done)
		if total != 96<<20 {
			t.Errorf("%d of %d bytes", done, total)
		}
	}
	if _, err := Rebuild(fsys, o); err != nil {
		t.Fatal(err)
	}
	if len(told) < 3 || !slices.IsSorted(told) || told[len(told)-1] < 40<<20 {
		t.Errorf("told of %v bytes", told)
	}
}
