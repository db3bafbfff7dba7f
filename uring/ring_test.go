package uring

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func openRing(t testing.TB, entries uint32) *Ring {
	t.Helper()
	r, err := NewRing(entries)
	if err != nil {
		t.Skipf("no ring on this machine: %v", err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func TestRingFlushesFiles(t *testing.T) {
	r := openRing(t, 4)
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var done []Completion
	for round := range uint64(50) { // more than the ring has entries, so that both queues wrap
		if _, err := f.WriteAt(make([]byte, 4096), int64(round)*4096); err != nil {
			t.Fatal(err)
		}
		r.Fsync(int(f.Fd()), round)
		if err := r.Wait(-1); err != nil {
			t.Fatal(err)
		}
		done = r.Reap(done[:0])
		if len(done) != 1 || done[0].ID != round || done[0].Err() != nil {
			t.Fatalf("round %d: %+v", round, done)
		}
	}
	if r.InFlight() != 0 {
		t.Fatalf("%d in flight after all were reaped", r.InFlight())
	}
}

func TestRingReportsTheErrorOfAnOperation(t *testing.T) {
	r := openRing(t, 4)
	r.Fsync(1<<20, 7) // no such descriptor
	if err := r.Wait(-1); err != nil {
		t.Fatal(err)
	}
	done := r.Reap(nil)
	if len(done) != 1 || done[0].ID != 7 || !errors.Is(done[0].Err(), syscall.EBADF) {
		t.Fatalf("got %+v, want EBADF for 7", done)
	}
}

func TestRingWaitsNoLongerThanTheLimit(t *testing.T) {
	r := openRing(t, 4)
	fd := eventFd(t)
	r.Poll(fd, 1) // never fires
	start := time.Now()
	if err := r.Wait(30 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if got := r.Reap(nil); len(got) != 0 {
		t.Fatalf("completions %+v from a descriptor that nobody wrote to", got)
	}
	if time.Since(start) < 30*time.Millisecond {
		t.Fatal("came back before the limit without a completion")
	}
}

func TestRingPollWakesTheWaiter(t *testing.T) {
	r := openRing(t, 4)
	fd := eventFd(t)
	r.Poll(fd, 9)
	if err := r.Submit(); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }()
	if err := r.Wait(-1); err != nil {
		t.Fatal(err)
	}
	if got := r.Reap(nil); len(got) != 1 || got[0].ID != 9 || got[0].Res != unix.POLLIN {
		t.Fatalf("got %+v, want POLLIN for 9", got)
	}
}

func TestRingRefusesMoreThanItsEntries(t *testing.T) {
	r := openRing(t, 2)
	defer func() {
		if recover() == nil {
			t.Fatal("a third operation was taken by a ring of two")
		}
	}()
	for id := range uint64(3) {
		r.Nop(id)
	}
}

func TestRingRefusalSaysWhy(t *testing.T) {
	for errno, want := range map[error]string{
		unix.ENOSYS: "5.11",
		unix.EPERM:  "seccomp",
		unix.ENOMEM: "ulimit -l",
		unix.EINVAL: "io_uring_setup",
	} {
		if got := refusal(os.NewSyscallError("iouring_setup", errno)); !strings.Contains(got.Error(), want) || !errors.Is(got, errno) {
			t.Errorf("%v: %q does not say %q", errno, got, want)
		}
	}
}

func TestRingDoesNotAllocatePerOperation(t *testing.T) {
	r := openRing(t, 4)
	done := make([]Completion, 0, 4)
	n := testing.AllocsPerRun(100, func() {
		r.Nop(1)
		if err := r.Wait(time.Second); err != nil {
			t.Fatal(err)
		}
		done = r.Reap(done[:0])
	})
	if n != 0 {
		t.Fatalf("%v allocations per operation", n)
	}
}

// BenchmarkRing: the way to the kernel and back, without any work there.
func BenchmarkRing(b *testing.B) {
	b.Run("op=nop", func(b *testing.B) {
		r := openRing(b, 4)
		done := make([]Completion, 0, 4)
		b.ReportAllocs()
		for b.Loop() {
			r.Nop(1)
			if err := r.Wait(-1); err != nil {
				b.Fatal(err)
			}
			done = r.Reap(done[:0])
		}
	})
}

func eventFd(t *testing.T) int {
	t.Helper()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}
