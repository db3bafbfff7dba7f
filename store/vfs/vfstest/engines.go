package vfstest

import (
	"slices"
	"testing"
	"time"

	"ringmq/store/vfs"
)

func (s suite) engine() vfs.Engine {
	s.Helper()
	e, err := s.fs.NewEngine()
	s.ok(err)
	s.Cleanup(func() { s.ok(e.Close()) })
	return e
}

func (s suite) slot(f vfs.File) vfs.Slot {
	s.Helper()
	sl, err := f.Slot()
	s.ok(err)
	s.Cleanup(func() { sl.Close() })
	return sl
}

// reap waits until n flushes have completed, in any order, and returns their ids sorted.
func (s suite) reap(e vfs.Engine, n int) []uint64 {
	s.Helper()
	var done []vfs.Flushed
	for len(done) < n {
		done = e.Reap(done, -1)
	}
	var ids []uint64
	for _, d := range done {
		s.ok(d.Err)
		ids = append(ids, d.ID)
	}
	slices.Sort(ids)
	return ids
}

func testFlushes(t *testing.T, s suite) {
	e, f := s.engine(), s.create("f")
	if e.Name() == "" {
		t.Error("the engine has no name")
	}
	slots := []vfs.Slot{s.slot(f), s.slot(f), s.slot(s.create("g"))}
	for round := range uint64(5) {
		for i, sl := range slots {
			s.write(f, "bytes", int64(round)*5)
			e.Begin(sl, round*10+uint64(i))
		}
		want := []uint64{round * 10, round*10 + 1, round*10 + 2}
		if got := s.reap(e, 3); !slices.Equal(got, want) {
			t.Fatalf("completed %v, want %v", got, want)
		}
	}
	kept := []vfs.Flushed{{ID: 99}}
	e.Begin(slots[0], 1)
	for len(kept) < 2 {
		kept = e.Reap(kept, 0)
	}
	if kept[0].ID != 99 || kept[1].ID != 1 {
		t.Errorf("appended to %v", kept)
	}
}

// testDurableWrites: what WriteDurable wrote can be read, and flushes of the slot go on beside it.
func testDurableWrites(t *testing.T, s suite) {
	e, f := s.engine(), s.create("f")
	s.ok(f.Preallocate(8))
	sl := s.slot(f)
	n, err := sl.WriteDurable([][]byte{[]byte("so"), nil, []byte("me")}, 2)
	if n != 4 || err != nil {
		t.Fatalf("wrote %d bytes: %v", n, err)
	}
	s.holds("f", "\x00\x00some\x00\x00")
	e.Begin(sl, 1)
	s.reap(e, 1)
	if n, err := sl.WriteDurable([][]byte{[]byte("ab")}, 0); n != 2 || err != nil {
		t.Fatalf("wrote %d bytes: %v", n, err)
	}
	s.holds("f", "absome\x00\x00")
}

func testFlushAfterRename(_ *testing.T, s suite) {
	e, f := s.engine(), s.create("spare")
	s.ok(s.fs.Rename(s.path("spare"), s.path("segment")))
	s.put("spare", "another file of the old name")
	sl := s.slot(f)
	s.write(f, "bytes", 0)
	e.Begin(sl, 1)
	s.reap(e, 1)
	s.holds("segment", "bytes")
}

// testKicks: a kick ends the Reap that waits, or the next one that would; none is lost, also when a
// Reap that only looks comes in between.
func testKicks(t *testing.T, s suite) {
	e := s.engine()
	e.Kick()
	e.Kick()
	if got := e.Reap(nil, -1); len(got) != 0 {
		t.Fatalf("completed %v", got)
	}
	e.Kick()
	e.Reap(nil, 0)
	e.Reap(nil, -1)
	for range 100 {
		returned := make(chan struct{})
		go func() {
			e.Reap(nil, -1)
			close(returned)
		}()
		e.Kick() // before, while or after it begins to wait
		<-returned
	}
}

func testReapWaits(t *testing.T, s suite) {
	e := s.engine()
	if got := e.Reap(nil, time.Millisecond); len(got) != 0 {
		t.Fatalf("completed %v", got)
	}
	sl := s.slot(s.create("f"))
	e.Begin(sl, 7)
	if got := e.Reap(nil, time.Hour); len(got) != 1 || got[0].ID != 7 {
		t.Fatalf("completed %v", got)
	}
}

func testCloseEngine(_ *testing.T, s suite) {
	e, err := s.fs.NewEngine()
	s.ok(err)
	sl := s.slot(s.create("f"))
	e.Begin(sl, 1)
	s.ok(e.Close())
}
