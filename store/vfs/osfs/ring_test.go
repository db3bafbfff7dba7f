package osfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringmq/store/vfs"
)

func ringEngine(t *testing.T) *ring {
	t.Helper()
	e, err := newRing()
	if err != nil {
		t.Skip("no ring on this machine: ", err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func openSlot(t *testing.T) *slot {
	t.Helper()
	f, err := New(Options{}).Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	s, err := f.Slot()
	if err != nil {
		t.Fatal(err)
	}
	return s.(*slot)
}

// TestRingKeepsTheFirstErrorOfASlot: the kernel tells a failed write-back once and then says OK, for pages that it
// dropped. So the error of a slot is its error for good.
func TestRingKeepsTheFirstErrorOfASlot(t *testing.T) {
	e, s := ringEngine(t), openSlot(t)
	good := s.file
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0) // fdatasync of it is EINVAL
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	s.file = null
	e.Begin(s, 1)
	if got := e.Reap(nil, -1); len(got) != 1 || !errors.Is(got[0].Err, unix.EINVAL) {
		t.Fatalf("got %+v, want EINVAL", got)
	}
	s.file = good
	e.Begin(s, 2)
	if got := e.Reap(nil, -1); len(got) != 1 || got[0].ID != 2 || !errors.Is(got[0].Err, unix.EINVAL) {
		t.Fatalf("got %+v: the slot forgot its error", got)
	}
}

// TestBrokenRingFailsWhatIsInFlight: when the ring itself fails nobody knows what became of the flushes in it, so each of
// them, and each later one, has failed. Kicks still work, so that the writer can be told to stop.
func TestBrokenRingFailsWhatIsInFlight(t *testing.T) {
	e, s := ringEngine(t), openSlot(t)
	e.flying[0] = flying{slot: s, id: 1}
	e.broken(unix.EIO)
	e.Begin(openSlot(t), 2)
	got := e.Reap(nil, -1)
	if len(got) != 2 || !errors.Is(got[0].Err, unix.EIO) || !errors.Is(got[1].Err, unix.EIO) {
		t.Fatalf("got %+v, want EIO for both", got)
	}
	if got := e.Reap(nil, time.Millisecond); len(got) != 0 {
		t.Fatalf("completed again: %+v", got)
	}
	returned := make(chan []vfs.Flushed)
	go func() { returned <- e.Reap(nil, -1) }()
	e.Kick()
	if got := <-returned; len(got) != 0 {
		t.Fatalf("completed again: %+v", got)
	}
}

// TestKickInTheRing: a kick reaches a writer that waits in the kernel because a flush is in flight, each time. This flush
// never completes.
func TestKickInTheRing(t *testing.T) {
	e := ringEngine(t)
	e.flying[0] = flying{slot: openSlot(t), id: 1}
	for range 100 {
		returned := make(chan []vfs.Flushed)
		go func() { returned <- e.Reap(nil, -1) }()
		e.Kick() // before, while or after it begins to wait
		if got := <-returned; len(got) != 0 {
			t.Fatalf("completed %+v", got)
		}
	}
	if got := e.Reap(nil, time.Millisecond); len(got) != 0 {
		t.Fatalf("completed %+v", got)
	}
	e.flying[0] = flying{}
}
