package memfs

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"ringmq/store/vfs"
)

func (d disk) engine() vfs.Engine {
	d.Helper()
	e, err := d.NewEngine()
	d.ok(err)
	return e
}

func (d disk) slot(f vfs.File) vfs.Slot {
	d.Helper()
	s, err := f.Slot()
	d.ok(err)
	return s
}

// TestFlushCoversWhatWasBefore: bytes written after Begin are not its business. While it is in flight the
// disk may hold any of the three.
func TestFlushCoversWhatWasBefore(t *testing.T) {
	for _, tc := range []struct {
		completed bool
		want      []string
	}{
		{false, []string{"one", "two", "six"}},
		{true, []string{"two", "six"}},
	} {
		d := newDisk(t)
		f := d.durable("/f", "one")
		e, s := d.engine(), d.slot(f)
		d.write(f, "two", 0)
		e.Begin(s, 1)
		d.write(f, "six", 0)
		if tc.completed {
			e.Reap(nil, -1)
		}
		d.want(d.leaves("/f"), tc.want...)
	}
}

// TestDurableWriteCoversItsPages: other dirty pages stay as they are, and an error is final for the slot.
func TestDurableWriteCoversItsPages(t *testing.T) {
	d := newDisk(t)
	f := d.durable("/f", strings.Repeat("-", 2*pageBytes))
	d.write(f, "before", pageBytes)
	s := d.slot(f)
	if _, err := s.WriteDurable([][]byte{[]byte("durable")}, 0); err != nil {
		t.Fatal(err)
	}
	if got := d.wouldLeave(1, 0).text("/f"); got[:7] != "durable" || got[pageBytes:pageBytes+6] != "------" {
		t.Errorf("left %.10q and %.10q", got, got[pageBytes:])
	}
	d.FailSync(0, syscall.EIO)
	for range 2 {
		if _, err := s.WriteDurable([][]byte{[]byte("nowhere")}, 0); !errors.Is(err, syscall.EIO) {
			t.Errorf("failed with %v", err)
		}
	}
	d.HoldFlushes()
	if n, err := d.slot(f).WriteDurable([][]byte{[]byte("later")}, 0); n != 0 || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("while flushes are held: %d, %v", n, err)
	}
}

// TestFlushesOutOfOrder: an older flush that completes after a newer one takes nothing back.
func TestFlushesOutOfOrder(t *testing.T) {
	d := newDisk(t)
	f := d.durable("/f", "one")
	e, s1, s2 := d.engine(), d.slot(f), d.slot(f)
	d.HoldFlushes()
	d.write(f, "two", 0)
	e.Begin(s1, 1)
	d.write(f, "three", 0)
	e.Begin(s2, 2)
	if n := d.WaitHeld(2); n != 2 {
		t.Fatalf("%d held", n)
	}
	if got := e.Reap(nil, 0); len(got) != 0 {
		t.Fatalf("held flushes completed: %v", got)
	}
	d.Release(1, nil)
	d.Release(0, nil)
	got := e.Reap(nil, -1)
	if len(got) != 2 || got[0].ID != 2 || got[1].ID != 1 {
		t.Fatalf("%v", got)
	}
	d.want(d.leaves("/f"), "three")
}

// TestFailedFlushLosesItsPages is the kernel's behaviour: the pages are clean, a later flush says OK, and
// the disk never saw them. What was written after the flush began is not lost with it.
func TestFailedFlushLosesItsPages(t *testing.T) {
	d := newDisk(t)
	f := d.durable("/f", "one")
	e, s := d.engine(), d.slot(f)
	d.HoldFlushes()
	d.write(f, "two", 0)
	d.write(f, "tail", pageBytes)
	e.Begin(s, 1)
	d.write(f, "TAIL", pageBytes)
	d.Release(0, syscall.EIO)
	if got := e.Reap(nil, -1); len(got) != 1 || !errors.Is(got[0].Err, syscall.EIO) {
		t.Fatalf("%v", got)
	}
	d.ReleaseAll()
	e.Begin(s, 2)
	if got := e.Reap(nil, -1); len(got) != 1 || !errors.Is(got[0].Err, syscall.EIO) {
		t.Errorf("the slot forgot its error: %v", got)
	}
	e.Begin(d.slot(f), 3)
	if got := e.Reap(nil, -1); len(got) != 1 || got[0].Err != nil {
		t.Errorf("a slot opened after the error: %v", got)
	}
	if got := d.text("/f"); !strings.HasPrefix(got, "two") {
		t.Errorf("the cache holds %q", got)
	}
	want := "one" + strings.Repeat("\x00", pageBytes-3) + "TAIL"
	d.want(d.leaves("/f"), want)
}

// TestRewrittenPagesAreDirtyAgain: writing a lost page once more saves it.
func TestRewrittenPagesAreDirtyAgain(t *testing.T) {
	d := newDisk(t)
	f := d.durable("/f", "one")
	d.write(f, "two", 0)
	d.FailSync(0, syscall.EIO)
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	d.ok(f.Sync())
	d.write(f, "w", 1)
	d.ok(f.Sync())
	d.want(d.leaves("/f"), "two")
}

// TestErrorIsToldOncePerHandle: each description that was open learns of it, once.
func TestErrorIsToldOncePerHandle(t *testing.T) {
	d := newDisk(t)
	f := d.durable("/f", "one")
	other := d.file("/f")
	d.FailSync(1, syscall.EIO)
	d.ok(f.Sync())
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	late := d.file("/f")
	d.ok(f.Sync())
	if err := other.Sync(); !errors.Is(err, syscall.EIO) {
		t.Errorf("the other handle: %v", err)
	}
	d.ok(other.Sync())
	d.ok(late.Sync())
}

// TestCompletionsFollowTheSeed: every order comes up, and the same seed gives the same one.
func TestCompletionsFollowTheSeed(t *testing.T) {
	orders := map[string]bool{}
	for seed := range uint64(50) {
		order := completionOrder(t, seed)
		if again := completionOrder(t, seed); again != order {
			t.Fatalf("seed %d: %s, then %s", seed, order, again)
		}
		orders[order] = true
	}
	for _, want := range []string{"[0 1 2]", "[2 1 0]", "[1 0 2]"} {
		if !orders[want] {
			t.Errorf("%s never came up: %v", want, orders)
		}
	}
}

func completionOrder(t *testing.T, seed uint64) string {
	t.Helper()
	d := disk{t, New(seed)}
	e := d.engine()
	for id := range uint64(3) {
		e.Begin(d.slot(d.file(fmt.Sprint("/", id))), id)
	}
	var ids []uint64
	for len(ids) < 3 {
		for _, done := range e.Reap(nil, -1) {
			d.ok(done.Err)
			ids = append(ids, done.ID)
		}
	}
	return fmt.Sprint(ids)
}

// TestReleaseWakesReap: the writer sleeps until the test lets its flush complete.
func TestReleaseWakesReap(t *testing.T) {
	d := newDisk(t)
	e, s := d.engine(), d.slot(d.file("/f"))
	d.HoldFlushes()
	done := make(chan []vfs.Flushed)
	go func() {
		e.Begin(s, 1)
		done <- e.Reap(nil, -1)
	}()
	d.WaitHeld(1)
	d.Release(0, nil)
	if got := <-done; len(got) != 1 || got[0].ID != 1 || got[0].Err != nil {
		t.Errorf("%v", got)
	}
}

// TestOneFlushPerSlot: a second one is a fault of the caller.
func TestOneFlushPerSlot(t *testing.T) {
	d := newDisk(t)
	e, s := d.engine(), d.slot(d.file("/f"))
	e.Begin(s, 1)
	defer func() {
		if recover() == nil {
			t.Error("a second flush on one slot was taken")
		}
	}()
	e.Begin(s, 2)
}

func TestSpace(t *testing.T) {
	d := newDisk(t)
	d.SetSpace(4 * pageBytes)
	free := func() int64 {
		n, total, err := d.FS.Space("/")
		d.ok(err)
		if total != 4*pageBytes {
			t.Errorf("total %d", total)
		}
		return n / pageBytes
	}
	is := func(what string, want int64) {
		t.Helper()
		if got := free(); got != want {
			t.Errorf("%s: %d pages free, want %d", what, got, want)
		}
	}
	f := d.file("/f")
	d.ok(f.Preallocate(2 * pageBytes))
	is("preallocated", 2)
	d.write(f, strings.Repeat("x", 2*pageBytes), 0)
	is("written where blocks are", 2)
	n, err := f.WriteAt(make([]byte, 3*pageBytes), 2*pageBytes-10)
	if n != 2*pageBytes+10 || !vfs.IsNoSpace(err) {
		t.Errorf("wrote %d bytes, %v", n, err)
	}
	is("full", 0)
	g := d.file("/g")
	if err := g.Preallocate(1); !vfs.IsNoSpace(err) {
		t.Errorf("preallocated on a full disk: %v", err)
	}
	d.write(f, "overwriting needs none", 0)
	d.ok(f.Truncate(pageBytes + 1))
	is("truncated", 2)
	d.ok(f.Preallocate(3 * pageBytes))
	is("preallocated again", 1)
	d.ok(d.Rename("/f", "/f2"))
	is("renamed", 1)
	d.write(g, "g", 0)
	is("another file", 0)
	d.ok(d.Rename("/g", "/f2"))
	is("replaced but open", 0)
	d.ok(f.Close())
	is("and closed", 3)
	d.ok(d.Remove("/f2"))
	is("removed but open", 3)
	d.ok(g.Sync())
	d.ok(g.Close())
	is("empty", 4)
	d.durable("/h", "h")
	if got, _, err := d.crash(1, 0).FS.Space("/"); err != nil || got != 3*pageBytes {
		t.Errorf("after a crash %d bytes free, %v", got, err)
	}
}
