package store

import (
	"bytes"
	"errors"
	"testing"

	"ringmq/store/vfs/memfs"
	"ringmq/uring"
)

// TestRanges: runs of several segments are as long and where they should be, those of one segment hold its file once, and
// after all are released the file can go.
func TestRanges(t *testing.T) {
	s := openTest(t, memfs.New(1), tinyOptions("/data"))
	var runs []Run
	for i := range 20 {
		puts := []Put{s.put("T", 0, bytes.Repeat([]byte{byte(i)}, 2000))}
		if !s.send(puts...) {
			t.Fatal(s.Err())
		}
		runs = append(runs, Run{puts[0].Offset, puts[0].Bytes})
	}
	ranges, err := s.Ranges(nil, runs)
	if err != nil {
		t.Fatal(err)
	}
	shared := 0
	for i, r := range ranges {
		want, got := make([]byte, runs[i].Bytes), make([]byte, runs[i].Bytes)
		if err := s.ReadAt(want, runs[i].Offset); err != nil {
			t.Fatal(err)
		}
		if n, err := r.ReadAt(got, 0); n != len(want) || err != nil || !bytes.Equal(got, want) {
			t.Errorf("range %d: %d bytes, %v", i, n, err)
		}
		if r.Shares {
			shared++
		}
	}
	if shared < 10 || shared > 17 || ranges[len(ranges)-1].Shares {
		t.Errorf("%d of 20 ranges, in three segments at least, share their use of a file", shared)
	}
	had := []uring.FileRange{{}}
	if all, err := s.Ranges(had, append(runs, Run{runs[19].Offset, 1 << 20})); !errors.Is(err, ErrOffset) || len(all) != 1 {
		t.Errorf("%d ranges, %v", len(all), err)
	}
	file := ranges[0].File
	for _, r := range ranges {
		r.Release()
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if file.Acquire() {
		t.Error("somebody still holds the first segment")
	}
}
