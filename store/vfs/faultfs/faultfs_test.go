package faultfs_test

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"ringmq/store/vfs"
	"ringmq/store/vfs/faultfs"
	"ringmq/store/vfs/memfs"
	"ringmq/store/vfs/vfstest"
)

var _ vfs.FS = (*faultfs.FS)(nil)

// TestSuite: without faults it is the file system below.
func TestSuite(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) (vfs.FS, string) {
		return faultfs.Wrap(memfs.New(1)), "/"
	})
}

// calls are all counted calls, each on a fresh file system with the file /f.
var calls = []struct {
	name string
	call func(f vfs.FS, h vfs.File) error
}{
	{"Create", func(f vfs.FS, _ vfs.File) error { _, err := f.Create("/g"); return err }},
	{"Remove", func(f vfs.FS, _ vfs.File) error { return f.Remove("/f") }},
	{"Rename", func(f vfs.FS, _ vfs.File) error { return f.Rename("/f", "/g") }},
	{"MkdirAll", func(f vfs.FS, _ vfs.File) error { return f.MkdirAll("/d") }},
	{"SyncDir", func(f vfs.FS, _ vfs.File) error { return f.SyncDir("/") }},
	{"WriteAt", func(_ vfs.FS, h vfs.File) error { _, err := h.WriteAt([]byte("new"), 0); return err }},
	{"WriteVec", func(_ vfs.FS, h vfs.File) error { _, err := h.WriteVec([][]byte{[]byte("new")}, 0); return err }},
	{"Truncate", func(_ vfs.FS, h vfs.File) error { return h.Truncate(1) }},
	{"Preallocate", func(_ vfs.FS, h vfs.File) error { return h.Preallocate(100) }},
	{"Sync", func(_ vfs.FS, h vfs.File) error { return h.Sync() }},
	{"flush", flush},
}

// durableWrite is two calls, so it has no row above.
func durableWrite(h vfs.File) error {
	s, err := h.Slot()
	if err != nil {
		return err
	}
	_, err = s.WriteDurable([][]byte{[]byte("new")}, 0)
	return err
}

// TestDurableWrite: a fault at its write leaves the old bytes; one at its flush, or a lie, the new ones in
// the cache only.
func TestDurableWrite(t *testing.T) {
	for _, tc := range []struct {
		name          string
		fault         func(f *faultfs.FS, k int)
		fails         bool
		cache, onDisk string
	}{
		{"good", func(*faultfs.FS, int) {}, false, "new!", "new!"},
		{"write fails", func(f *faultfs.FS, k int) { f.FailAt(k, syscall.EIO) }, true, "old!", "old!"},
		{"flush fails", func(f *faultfs.FS, k int) { f.FailAt(k+1, syscall.EIO) }, true, "new!", "old!"},
		{"flush of this file fails", func(f *faultfs.FS, _ int) { f.FailIn("/f", 1, 1, syscall.EIO) }, true, "new!", "old!"},
		{"another file fails", func(f *faultfs.FS, _ int) { f.FailIn("/g", 0, 9, syscall.EIO) }, false, "new!", "new!"},
		{"short", func(f *faultfs.FS, k int) { f.ShortWriteAt(k, 1) }, true, "nld!", "old!"},
		{"lie", func(f *faultfs.FS, k int) { f.Lie("faultfs_test.durableWrite:flush") }, false, "new!", "old!"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			disk, f, h, k := withFile(t)
			if err := errors.Join(h.Preallocate(4), h.Sync(), f.SyncDir("/")); err != nil {
				t.Fatal(err)
			}
			tc.fault(f, k+3)
			if err := durableWrite(h); (err != nil) != tc.fails {
				t.Errorf("got %v", err)
			}
			if got := contents(t, disk, "/f"); got != tc.cache {
				t.Errorf("the cache has %q, want %q", got, tc.cache)
			}
			if got := contents(t, disk.Crash(rand.New(rand.NewPCG(1, 1)), 0), "/f"); got != tc.onDisk {
				t.Errorf("the disk has %q, want %q", got, tc.onDisk)
			}
		})
	}
}

func flush(f vfs.FS, h vfs.File) error {
	e, err := f.NewEngine()
	if err != nil {
		return err
	}
	s, err := h.Slot()
	if err != nil {
		return err
	}
	e.Begin(s, 5)
	done := e.Reap(nil, -1)
	if len(done) != 1 || done[0].ID != 5 {
		return errors.New("no completion")
	}
	return done[0].Err
}

// withFile returns a fresh stack with the file /f open and holding "old!"; the next counted call is number
// k.
func withFile(t *testing.T) (disk *memfs.FS, f *faultfs.FS, h vfs.File, k int) {
	t.Helper()
	disk = memfs.New(1)
	f = faultfs.Wrap(disk)
	h, err := f.Create("/f")
	if err == nil {
		_, err = h.WriteAt([]byte("old!"), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return disk, f, h, f.Calls()
}

func contents(t *testing.T, f vfs.FS, name string) string {
	t.Helper()
	h, err := f.OpenRead(name)
	if err != nil {
		return err.Error()
	}
	b, err := io.ReadAll(io.NewSectionReader(h, 0, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestEachCallFails: a planned failure does nothing below, comes once, and is told with its path.
func TestEachCallFails(t *testing.T) {
	for _, tc := range calls {
		t.Run(tc.name, func(t *testing.T) {
			disk, f, h, k := withFile(t)
			f.FailAt(k, syscall.EIO)
			if err := tc.call(f, h); !errors.Is(err, syscall.EIO) {
				t.Fatalf("%v", err)
			}
			if f.Calls() != k+1 || f.IsCut() {
				t.Errorf("%d calls counted, want %d", f.Calls()-k, 1)
			}
			if names, _ := disk.List("/"); !slices.Equal(names, []string{"f"}) || contents(t, disk, "/f") != "old!" {
				t.Errorf("below there are %v, f holds %q", names, contents(t, disk, "/f"))
			}
			if err := tc.call(f, h); err != nil {
				t.Errorf("the next one: %v", err)
			}
		})
	}
}

// TestEachCallIsCut: nothing works from the cut on, reads included, and the disk below is as it was.
func TestEachCallIsCut(t *testing.T) {
	for _, tc := range calls {
		t.Run(tc.name, func(t *testing.T) {
			disk, f, h, k := withFile(t)
			f.CutAt(k)
			for range 2 {
				if err := tc.call(f, h); !errors.Is(err, faultfs.ErrPower) {
					t.Fatalf("%v", err)
				}
			}
			_, openErr := f.Open("/f")
			_, statErr := f.Stat("/f")
			_, listErr := f.List("/")
			_, lockErr := f.Lock("/lock")
			_, _, spaceErr := f.Space("/")
			_, readErr := h.ReadAt(make([]byte, 1), 0)
			_, sizeErr := h.Size()
			_, slotErr := h.Slot()
			for i, err := range []error{openErr, statErr, listErr, lockErr, spaceErr, readErr, sizeErr, slotErr} {
				var place *fs.PathError
				if !errors.Is(err, faultfs.ErrPower) || !errors.As(err, &place) {
					t.Errorf("reading call %d: %v", i, err)
				}
			}
			if !f.IsCut() || contents(t, disk, "/f") != "old!" {
				t.Errorf("cut %v, f holds %q", f.IsCut(), contents(t, disk, "/f"))
			}
			if err := h.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}

func TestShortWrites(t *testing.T) {
	for n, want := range map[int]string{0: "old!", 1: "nld!", 2: "nel!"[:2] + "d!", 3: "new!"} {
		for _, call := range []string{"WriteAt", "WriteVec"} {
			disk, f, h, k := withFile(t)
			f.ShortWriteAt(k, n)
			var wrote int
			var err error
			if call == "WriteAt" {
				wrote, err = h.WriteAt([]byte("new"), 0)
			} else {
				wrote, err = h.WriteVec([][]byte{[]byte("n"), nil, []byte("ew")}, 0)
			}
			if wrote != n || vfs.IsNoSpace(err) != (n < 3) || contents(t, disk, "/f") != want {
				t.Errorf("%s cut to %d: wrote %d, %v, holds %q", call, n, wrote, err, contents(t, disk, "/f"))
			}
		}
	}
}

func TestHold(t *testing.T) {
	disk, f, h, k := withFile(t)
	gate := f.HoldAt(k)
	done := make(chan error)
	go func() {
		_, err := h.WriteAt([]byte("new"), 0)
		done <- err
	}()
	<-gate.Reached()
	if got := contents(t, disk, "/f"); got != "old!" {
		t.Errorf("written before the gate opened: %q", got)
	}
	gate.Open()
	if err := <-done; err != nil || contents(t, disk, "/f") != "new!" {
		t.Errorf("%v, holds %q", err, contents(t, disk, "/f"))
	}
}

// TestCutEndsWaitingReap: the writer waits for a flush that the power never lets end.
func TestCutEndsWaitingReap(t *testing.T) {
	disk, f, h, k := withFile(t)
	disk.HoldFlushes()
	e, err := f.NewEngine()
	if err != nil {
		t.Fatal(err)
	}
	s, err := h.Slot()
	if err != nil {
		t.Fatal(err)
	}
	e.Begin(s, 1)
	disk.WaitHeld(1)
	done := make(chan []vfs.Flushed)
	go func() {
		got := e.Reap(nil, -1)
		e.Begin(s, 2)
		got = e.Reap(got, -1)
		done <- got
	}()
	f.CutAt(k + 1)
	if err := f.SyncDir("/"); !errors.Is(err, faultfs.ErrPower) {
		t.Fatal(err)
	}
	got := <-done
	if len(got) != 2 || got[0].ID != 1 || got[1].ID != 2 ||
		!errors.Is(got[0].Err, faultfs.ErrPower) || !errors.Is(got[1].Err, faultfs.ErrPower) {
		t.Errorf("%+v", got)
	}
	e.Kick()
	if got := e.Reap(nil, -1); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if got := contents(t, disk.Crash(rand.New(rand.NewPCG(1, 1)), 0), "/f"); got == "old!" {
		t.Error("the flush that was cut made its bytes durable")
	}
}

// The sites of TestLies, beside flush.
func syncFile(h vfs.File) error { return h.Sync() }
func syncDir(f vfs.FS) error    { return f.SyncDir("/") }

func syncAll(f vfs.FS, h vfs.File) error  { return errors.Join(syncFile(h), syncDir(f)) }
func flushAll(f vfs.FS, h vfs.File) error { return errors.Join(flush(f, h), syncDir(f)) }

// TestLies: a site is named by function and kind, and a lying one leaves nothing on the disk.
func TestLies(t *testing.T) {
	for _, tc := range []struct {
		lie   string
		story func(vfs.FS, vfs.File) error
		safe  bool
	}{
		{"", syncAll, true},
		{"", flushAll, true},
		{"faultfs_test.nobody:sync", syncAll, true},
		{"faultfs_test.syncFile:sync", syncAll, false},
		{"faultfs_test.syncDir:syncdir", syncAll, false},
		{"faultfs_test.flush:flush", flushAll, false},
	} {
		disk, f, h, _ := withFile(t)
		f.Lie(tc.lie)
		if err := tc.story(f, h); err != nil {
			t.Fatalf("lie %q: %v", tc.lie, err)
		}
		after := disk.Crash(rand.New(rand.NewPCG(1, 1)), 0)
		if got := contents(t, after, "/f"); (got == "old!") != tc.safe {
			t.Errorf("lie %q: the disk holds %q", tc.lie, got)
		}
	}
	_, f, h, _ := withFile(t)
	if err := errors.Join(syncAll(f, h), flushAll(f, h)); err != nil {
		t.Fatal(err)
	}
	want := []string{"faultfs_test.flush:flush", "faultfs_test.syncDir:syncdir", "faultfs_test.syncFile:sync"}
	if got := f.Sites(); !slices.Equal(got, want) {
		t.Errorf("sites %q, want %q", got, want)
	}
}
