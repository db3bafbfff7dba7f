package osfs

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ringmq/uring"
)

// TestWriteAll: what the kernel may answer to a write of 10 bytes in three buffers, call by call. All that is not an
// error goes on at the byte where it ended.
func TestWriteAll(t *testing.T) {
	type answer struct {
		n   int
		err error
	}
	for _, tc := range []struct {
		name   string
		script []answer
		wrote  int
		err    error
	}{
		{"all at once", []answer{{10, nil}}, 10, nil},
		{"a signal before anything was written", []answer{{-1, unix.EINTR}, {-1, unix.EINTR}, {10, nil}}, 10, nil},
		{"short, each time", []answer{{1, nil}, {2, nil}, {3, nil}, {4, nil}}, 10, nil},
		{"short, then a signal", []answer{{4, nil}, {-1, unix.EINTR}, {6, nil}}, 10, nil},
		{"short, then full", []answer{{4, nil}, {-1, unix.ENOSPC}}, 4, unix.ENOSPC},
		{"a signal, then broken", []answer{{-1, unix.EINTR}, {-1, unix.EIO}}, 0, unix.EIO},
		{"nothing, and no reason", []answer{{7, nil}, {0, nil}}, 7, io.ErrShortWrite},
	} {
		t.Run(tc.name, func(t *testing.T) {
			script, disk := tc.script, make([]byte, 100)
			n, err := writeAll(func(bufs [][]byte, at int64) (int, error) {
				a := script[0]
				script = script[1:]
				copy(disk[at:], bytes.Join(bufs, nil)[:max(a.n, 0)])
				return a.n, a.err
			}, [][]byte{[]byte("012"), []byte("3456"), []byte("789")}, 50)
			if n != tc.wrote || !errors.Is(err, tc.err) || len(script) > 0 {
				t.Errorf("wrote %d, %v, %d answers left: want %d, %v", n, err, len(script), tc.wrote, tc.err)
			}
			if got := string(bytes.TrimRight(disk[50:], "\x00")); got != "0123456789"[:tc.wrote] {
				t.Errorf("the disk has %q", got)
			}
		})
	}
}

// TestAgain: a call is repeated for a signal and for nothing else.
func TestAgain(t *testing.T) {
	for _, last := range []error{nil, unix.EIO, unix.EAGAIN} {
		script := []error{unix.EINTR, unix.EINTR, last}
		err := again(func() error {
			e := script[0]
			script = script[1:]
			return e
		})
		if !errors.Is(err, last) || len(script) > 0 {
			t.Errorf("got %v, %d answers left, want %v", err, len(script), last)
		}
	}
}

// TestRingGoesOnAfterASignal: a flush that a signal ended is handed over again under its number, and its slot has no error.
func TestRingGoesOnAfterASignal(t *testing.T) {
	e, s := ringEngine(t), openSlot(t)
	e.flying[3] = flying{slot: s, id: 77}
	for range 2 { // so two go to the kernel, as each time the one before is gone
		if got := e.landed(nil, e.flying[3], uring.Completion{ID: 3, Res: -int32(unix.EINTR)}); len(got) > 0 {
			t.Fatalf("completed by a signal: %+v", got)
		}
		got := e.Reap(nil, -1)
		if len(got) != 1 || got[0].ID != 77 || got[0].Err != nil {
			t.Fatalf("after the signal: %+v", got)
		}
		e.flying[3] = flying{slot: s, id: 77}
	}
	got := e.landed(nil, e.flying[3], uring.Completion{ID: 3, Res: -int32(unix.EIO)})
	if len(got) != 1 || got[0].ID != 77 || !errors.Is(got[0].Err, unix.EIO) || !strings.Contains(got[0].Err.Error(), s.name) {
		t.Fatalf("a real error: %+v", got)
	}
	if e.inFlight() {
		t.Error("something is still in flight")
	}
}
