package uring

import (
	"bytes"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRingReads reads past the page cache into an arena, at idle priority, and is told by an eventfd.
func TestRingReads(t *testing.T) {
	const page = 4096
	r := openRing(t, 4)
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(event)
	if err := r.SetEvent(event); err != nil {
		t.Fatal(err)
	}
	f := coldFile(t, 64*page)
	fd := openDirect(t, f.Name())
	a, err := NewArena(16 * page)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	r.Read(fd, a.Bytes(0, 16*page), 32*page, IdlePriority, 7)
	if err := r.Submit(); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Read(event, make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	done := r.Reap(nil)
	if len(done) != 1 || done[0].ID != 7 || done[0].Res != 16*page {
		t.Fatalf("%+v", done)
	}
	want := make([]byte, 16*page)
	if _, err := f.ReadAt(want, 32*page); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Bytes(0, 16*page), want) {
		t.Error("other bytes than in the file")
	}
}

func openDirect(t *testing.T, name string) int {
	t.Helper()
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip("no O_DIRECT here: ", err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func TestArena(t *testing.T) {
	a, err := NewArena(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	b := a.Bytes(4096, 8192)
	b[0], b[8191] = 1, 1
	if err := a.Forget(4096, 4096); err != nil {
		t.Fatal(err)
	}
	if b[0] != 0 || b[8191] != 1 || cap(b) != 8192 {
		t.Errorf("%d, %d of %d", b[0], b[8191], cap(b))
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestLowerThread(t *testing.T) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		if err := LowerThread(); err != nil {
			t.Error(err)
			return
		}
		priority, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, 1, 0, 0)
		if errno != 0 || priority != IdlePriority {
			t.Errorf("priority %#x, %v", priority, errno)
		}
	}()
	<-ended
}
