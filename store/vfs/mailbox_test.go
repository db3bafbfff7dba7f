package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"syscall"
	"testing"
)

// TestMailboxLosesNothing: completions from many goroutines arrive once each, however the reader's waits
// and their posts interleave.
func TestMailboxLosesNothing(t *testing.T) {
	const posters, each = 8, 200
	m := NewMailbox()
	var all sync.WaitGroup
	for p := range posters {
		all.Go(func() {
			for i := range each {
				m.Post(Flushed{ID: uint64(p*each + i)})
				if i%10 == 0 {
					m.Kick()
				}
			}
		})
	}
	seen := map[uint64]bool{}
	var got []Flushed
	for n := 0; n < posters*each; n += len(got) {
		got = m.Reap(got[:0], -1)
		for _, f := range got {
			if seen[f.ID] {
				t.Fatalf("completion %d came twice", f.ID)
			}
			seen[f.ID] = true
		}
	}
	all.Wait()
}

// TestMailboxReuses: a writer that reaps into the same slice allocates nothing.
func TestMailboxReuses(t *testing.T) {
	m := NewMailbox()
	into := make([]Flushed, 0, 4)
	if n := testing.AllocsPerRun(100, func() {
		m.Post(Flushed{ID: 1})
		m.Post(Flushed{ID: 2})
		into = m.Reap(into[:0], -1)
	}); n != 0 || len(into) != 2 {
		t.Errorf("%v allocations, %d completions", n, len(into))
	}
}

func TestIsNoSpace(t *testing.T) {
	for err, want := range map[error]bool{
		fmt.Errorf("store: %w", &fs.PathError{Op: "write", Path: "/f", Err: syscall.ENOSPC}): true,
		&fs.PathError{Op: "write", Path: "/f", Err: syscall.EDQUOT}:                          true,
		ErrNoSpace:                     true,
		syscall.EIO:                    false,
		errors.New("no space in here"): false,
		nil:                            false,
	} {
		if IsNoSpace(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
}
