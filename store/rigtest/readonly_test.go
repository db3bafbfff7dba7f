package rigtest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringmq/store"
	"ringmq/store/record"
	"ringmq/store/vfs/osfs"
)

// TestReadOnlyMount: a part of the log lies on a disk that is mounted read-only. It is read, derived files are made
// anew from it, and new messages go elsewhere; retention says that it cannot remove a file there, and removes no
// younger one.
func TestReadOnlyMount(t *testing.T) {
	eachDisk(t, func(t *testing.T, fs string) {
		dir := t.TempDir()
		mountTmpfs(t, dir, diskBytes[fs]+64<<20)
		disk := newImage(t, fs, dir, diskBytes[fs])
		old, young := filepath.Join(disk.dir, "log"), filepath.Join(dir, "young") // in the order of their turns
		var said bytes.Buffer
		o := job{Dir: filepath.Join(dir, "s"), SegmentBytes: 64 << 10}.options()
		o.CommitLogDirs, o.NoIndex, o.Log = []string{old, young}, true, slog.New(slog.NewTextHandler(&said, nil))

		s := openOn(t, o)
		fillFiles(t, s, 2) // the first on the one disk, the second on the other
		closeAll(t, s)
		if err := unix.Mount("", disk.dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
		o.ReadOnlyLogDirs, o.Retention = []string{old}, store.Retention{MaxBytes: 2 * o.SegmentBytes}
		if _, err := store.Rebuild(osfs.New(osfs.Options{Log: o.Log}), o); err != nil {
			t.Fatal(err)
		}
		s = openOn(t, o)
		defer closeAll(t, s)
		fillFiles(t, s, 4)
		readAll(t, s, 0)
		for s.Stats().Checkpoint < 3*o.SegmentBytes {
			runtime.Gosched()
		}
		ctx, cancel := context.WithCancel(t.Context())
		tick, done := make(chan time.Time), make(chan struct{})
		go func() {
			defer close(done)
			s.Retain(ctx, tick)
		}()
		tick <- time.Time{}
		tick <- time.Time{} // the first round is over
		cancel()
		<-done
		readAll(t, s, 0) // what cannot go is offered
		min := s.Stats().MinOffset
		closeAll(t, s) // nobody logs from here on
		if text := said.String(); min != 0 || !strings.Contains(text, "read-only file system") {
			t.Errorf("the log begins at %d:\n%s", min, text)
		}
	})
}

// readAll reads all messages from an offset on.
func readAll(t *testing.T, s *store.Store, from int64) {
	t.Helper()
	q := s.Queue(topic, 0)
	for at := from; at < q.Max(); at++ {
		var got store.Got
		if err := s.Get(q, store.Get{Offset: at, MaxCount: 1}, &got); err != nil || got.Status != store.Found {
			t.Fatalf("message %d of %d: %v, %v", at, q.Max(), got.Status, err)
		}
		b := make([]byte, got.Bytes)
		if err := s.ReadAt(b, got.Runs[0].Offset); err != nil {
			t.Fatal(err)
		}
		var r record.Record
		if err := record.Verify(b, got.Runs[0].Offset, &r); err != nil || r.QueueOffset != at {
			t.Fatalf("message %d: %v", at, err)
		}
	}
}

func openOn(t *testing.T, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(osfs.New(osfs.Options{Log: o.Log}), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeAll(t *testing.T, s *store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// fillFiles sends messages, one after the other, until the log has entered its n-th file.
func fillFiles(t *testing.T, s *store.Store, n int64) {
	t.Helper()
	for s.Marks().Visible <= (n-1)*64<<10 {
		body := fmt.Appendf(nil, "%d %s", s.Marks().Visible, bytes.Repeat([]byte("x"), 4000))
		m := record.Message{Topic: topic, BornMs: 1, Born: host, Store: host, Body: body, BodyCRC: record.BodyCRC(body)}
		size, err := s.RecordBytes(&m)
		if err != nil {
			t.Fatal(err)
		}
		if s.Reserve(size) != nil {
			runtime.Gosched() // the next file is being made
			continue
		}
		puts := []store.Put{{Queue: s.OpenQueue(topic, 0), Message: m, Bytes: size}}
		if s.Append(puts); puts[0].Err != nil {
			continue
		}
		for s.Marks().Visible < puts[0].End {
			if err := s.Err(); err != nil {
				t.Fatal(err)
			}
			runtime.Gosched()
		}
	}
}
