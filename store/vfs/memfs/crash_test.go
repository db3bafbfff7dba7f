package memfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ringmq/store/vfs"
)

// disk is the steps that the stories here are told in.
type disk struct {
	*testing.T
	*FS
}

func newDisk(t *testing.T) disk { return disk{t, New(1)} }

func (d disk) ok(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

func (d disk) file(name string) vfs.File {
	d.Helper()
	f, err := d.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = d.Create(name)
	}
	d.ok(err)
	return f
}

func (d disk) write(f vfs.File, text string, off int64) {
	d.Helper()
	_, err := f.WriteAt([]byte(text), off)
	d.ok(err)
}

// durable makes a file that a crash cannot touch.
func (d disk) durable(name, text string) vfs.File {
	d.Helper()
	f := d.file(name)
	d.write(f, text, 0)
	d.ok(f.Sync())
	d.ok(d.SyncDir("/"))
	return f
}

func (d disk) crash(seed uint64, keepPercent int) disk {
	return disk{d.T, d.Crash(rand.New(rand.NewPCG(seed, 0)), keepPercent)}
}

// wouldLeave is crash without the crash.
func (d disk) wouldLeave(seed uint64, keepPercent int) disk {
	return disk{d.T, d.AfterCrash(rand.New(rand.NewPCG(seed, 0)), keepPercent)}
}

// text is a file's contents, or "-" if there is none.
func (d disk) text(name string) string {
	d.Helper()
	f, err := d.OpenRead(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "-"
	}
	d.ok(err)
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<30))
	d.ok(err)
	return string(b)
}

// leaves crashes with many throws of the dice and returns how often each contents of the file came up.
func (d disk) leaves(name string) map[string]int {
	d.Helper()
	seen := map[string]int{}
	for seed := range uint64(200) {
		seen[d.wouldLeave(seed, 50).text(name)]++
	}
	return seen
}

func (d disk) want(seen map[string]int, texts ...string) {
	d.Helper()
	for _, text := range texts {
		if seen[text] == 0 {
			d.Errorf("never left: %.40q; left: %.200q", text, fmt.Sprint(seen))
		}
	}
	if len(seen) != len(texts) {
		d.Errorf("left %.200q, want only %.200q", fmt.Sprint(seen), texts)
	}
}

func TestCrashKeepsWhatIsSynced(t *testing.T) {
	d := newDisk(t)
	f := d.durable("/f", "synced")
	d.write(f, "unsync", 0)
	d.durable("/g", "synced")
	h := d.file("/h") // its name is not synced
	d.write(h, "synced", 0)
	d.ok(h.Sync())
	if after := d.crash(1, 0); after.text("/f") != "synced" || after.text("/g") != "synced" || after.text("/h") != "-" {
		t.Errorf("keeping nothing: %q %q %q", after.text("/f"), after.text("/g"), after.text("/h"))
	}
	if after := d.crash(1, 100); after.text("/f") != "unsync" || after.text("/h") != "synced" {
		t.Errorf("keeping everything: %q %q", after.text("/f"), after.text("/h"))
	}
	d.want(d.leaves("/f"), "synced", "unsync")
	d.want(d.leaves("/h"), "-", "synced")
}

// TestCrashSizeAndPages: size and contents are kept independently, page by page.
func TestCrashSizeAndPages(t *testing.T) {
	d := newDisk(t)
	f := d.durable("/f", "")
	one, two := strings.Repeat("1", pageBytes), strings.Repeat("2", pageBytes)
	zero := strings.Repeat("\x00", pageBytes)
	d.write(f, one+two, 0)
	d.want(d.leaves("/f"), "", zero+zero, one+zero, zero+two, one+two)
}

func TestCrashTearsSectors(t *testing.T) {
	d := newDisk(t)
	f := d.durable("/f", strings.Repeat("o", pageBytes))
	d.write(f, strings.Repeat("n", pageBytes), 0)
	d.want(d.leaves("/f"), strings.Repeat("o", pageBytes), strings.Repeat("n", pageBytes))
	d.TearSectors(true)
	for text := range d.leaves("/f") {
		for at := 0; at < pageBytes; at += sectorBytes {
			if s := text[at : at+sectorBytes]; s != strings.Repeat(s[:1], sectorBytes) {
				t.Fatalf("sector at %d is torn", at)
			}
		}
	}
	if seen := d.leaves("/f"); len(seen) < 50 {
		t.Errorf("only %d ways to tear eight sectors", len(seen))
	}
}

// TestCrashTruncate: a truncation that is not synced may come undone.
func TestCrashTruncate(t *testing.T) {
	d := newDisk(t)
	f := d.durable("/f", "synced")
	d.ok(f.Truncate(3))
	d.want(d.leaves("/f"), "synced", "syn", "syn\x00\x00\x00")
	d.ok(f.Sync())
	d.want(d.leaves("/f"), "syn")
}

func TestCrashPreallocate(t *testing.T) {
	d := newDisk(t)
	f := d.durable("/f", "head")
	d.ok(f.Preallocate(8))
	d.want(d.leaves("/f"), "head", "head\x00\x00\x00\x00")
	d.ok(f.Sync())
	d.want(d.leaves("/f"), "head\x00\x00\x00\x00")
}

// TestCrashLosesFresh: a page that was preallocated reads as zeros after a crash until two syncs in a row have
// succeeded. The second may be of another file or of a directory, but it begins after the first has ended.
func TestCrashLosesFresh(t *testing.T) {
	const text = "text"
	for name, tc := range map[string]struct {
		then func(d disk, f vfs.File)
		lost bool
	}{
		"one sync":          {func(disk, vfs.File) {}, true},
		"two":               {func(d disk, f vfs.File) { d.ok(f.Sync()) }, false},
		"of a directory":    {func(d disk, _ vfs.File) { d.ok(d.SyncDir("/")) }, false},
		"of another file":   {func(d disk, _ vfs.File) { d.ok(d.file("/g").Sync()) }, false},
		"written once more": {func(d disk, f vfs.File) { d.write(f, text, 0) }, true},
		"of the volume": {func(d disk, _ vfs.File) {
			v, err := d.Volume("/")
			d.ok(errors.Join(err, v.Sync()))
		}, false},
		"one that failed": {func(d disk, f vfs.File) {
			d.FailSync(0, errors.New("failed"))
			if f.Sync() == nil {
				d.Error("the sync did not fail")
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDisk(t)
			d.LoseFresh(true)
			f := d.file("/f")
			d.ok(f.Preallocate(pageBytes))
			d.ok(errors.Join(f.Sync(), d.SyncDir("/")))
			d.write(f, text, 0)
			d.ok(f.Sync())
			tc.then(d, f)
			want := text
			if tc.lost {
				want = strings.Repeat("\x00", len(text))
			}
			if got := d.crash(1, 0).text("/f")[:len(text)]; got != want {
				t.Errorf("after a crash: %q, want %q", got, want)
			}
		})
	}
}

// TestCrashLosesFreshOnly: blocks that came with the write, and those that were written before, stay.
func TestCrashLosesFreshOnly(t *testing.T) {
	d := newDisk(t)
	d.LoseFresh(true)
	d.durable("/f", "old")
	f := d.file("/f")
	d.write(f, "new", 0)
	d.ok(f.Sync())
	if got := d.wouldLeave(1, 0).text("/f"); got != "new" {
		t.Errorf("%q is left", got)
	}
}

// TestCrashRename: an unsynced replacement leaves the old file or the new one, never none and never a
// mixture. Without a sync of the file its name can lead to nothing.
func TestCrashRename(t *testing.T) {
	for _, tc := range []struct {
		sync bool
		want []string
	}{
		{true, []string{"old", "new"}},
		{false, []string{"old", "new", "", "\x00\x00\x00"}},
	} {
		d := newDisk(t)
		d.durable("/f", "old")
		f := d.file("/f.tmp")
		d.write(f, "new", 0)
		if tc.sync {
			d.ok(f.Sync())
		}
		d.ok(d.Rename("/f.tmp", "/f"))
		d.want(d.leaves("/f"), tc.want...)
		if tc.sync {
			d.ok(d.SyncDir("/"))
			d.want(d.leaves("/f"), "new")
		}
	}
}

// TestCrashOrder: of a directory's operations a prefix is kept.
func TestCrashOrder(t *testing.T) {
	d := newDisk(t)
	for i := range 5 {
		d.file(fmt.Sprintf("/%d", i))
	}
	seen := map[int]bool{}
	for seed := range uint64(200) {
		names, err := d.crash(seed, 60).List("/")
		d.ok(err)
		for i, name := range names {
			if name != fmt.Sprint(i) {
				t.Fatalf("kept %q", names)
			}
		}
		seen[len(names)] = true
	}
	if len(seen) != 6 {
		t.Errorf("kept %v of 5 operations", seen)
	}
}

// TestCrashMove: a rename between directories is in both or in neither.
func TestCrashMove(t *testing.T) {
	d := newDisk(t)
	d.ok(d.MkdirAll("/a"))
	d.ok(d.MkdirAll("/b"))
	d.ok(d.SyncDir("/"))
	f := d.file("/a/f")
	d.write(f, "text", 0)
	d.ok(f.Sync())
	d.ok(d.Rename("/a/f", "/b/f"))
	seen := map[string]int{}
	for seed := range uint64(200) {
		after := d.wouldLeave(seed, 50)
		seen[after.text("/a/f")+" "+after.text("/b/f")]++
	}
	d.want(seen, "- -", "text -", "- text")

	d.ok(d.SyncDir("/b")) // commits the rename as a whole, and the creation before it
	if after := d.crash(1, 0); after.text("/a/f") != "-" || after.text("/b/f") != "text" {
		t.Errorf("after the sync of one side: %q %q", after.text("/a/f"), after.text("/b/f"))
	}
}

func TestCrashLosesDirectories(t *testing.T) {
	d := newDisk(t)
	d.ok(d.MkdirAll("/a/b"))
	f := d.file("/a/b/f")
	d.write(f, "text", 0)
	d.ok(f.Sync())
	d.ok(d.SyncDir("/a/b"))
	d.ok(d.SyncDir("/a"))
	if after := d.crash(1, 0); after.text("/a/b/f") != "-" {
		t.Error("it survived below a directory without a name")
	}
	d.want(d.leaves("/a/b/f"), "-", "text")

	m := newDisk(t)
	m.ok(vfs.MakeDir(m, "/x/y/z"))
	if _, err := m.crash(1, 0).List("/x/y/z"); err != nil {
		t.Errorf("MakeDir: %v", err)
	}
}

// TestCrashIsFinal: the old file system is dead, its locks are gone, and another throw of the dice starts
// from the same moment.
func TestCrashIsFinal(t *testing.T) {
	d := newDisk(t)
	f := d.durable("/f", "synced")
	_, err := d.Lock("/lock")
	d.ok(err)
	d.ok(d.SyncDir("/"))
	e, err := d.NewEngine()
	d.ok(err)
	slot, err := f.Slot()
	d.ok(err)
	d.write(f, "flying", 0)
	e.Begin(slot, 1)

	first := d.crash(7, 50)
	for name, err := range map[string]error{
		"open": second(d.Open("/f")), "create": second(d.Create("/g")), "list": second(d.List("/")),
		"lock": second(d.Lock("/l")), "remove": d.Remove("/f"), "mkdir": d.MkdirAll("/d"), "syncdir": d.SyncDir("/"),
		"rename": d.Rename("/f", "/g"), "engine": second(d.NewEngine()), "read": second(f.ReadAt(make([]byte, 1), 0)),
		"write": second(f.WriteAt([]byte("x"), 0)), "sync": f.Sync(), "truncate": f.Truncate(0), "slot": second(f.Slot()),
	} {
		if !errors.Is(err, ErrCrashed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	e.Begin(slot, 2)
	var got []vfs.Flushed
	for len(got) < 2 {
		got = e.Reap(got, -1)
	}
	if got[0].ID != 1 || got[1].ID != 2 || !errors.Is(got[0].Err, ErrCrashed) || !errors.Is(got[1].Err, ErrCrashed) {
		t.Errorf("flushes ended with %+v", got)
	}
	if _, err := first.Lock("/lock"); err != nil {
		t.Errorf("the lock outlived the crash: %v", err)
	}
	first.write(first.file("/f"), "changed", 0)
	if again := d.crash(7, 50); again.text("/f") != d.crash(7, 50).text("/f") {
		t.Error("the same dice, another outcome")
	}
	d.want(d.leaves("/f"), "synced", "flying")
}

func second[T any](_ T, err error) error { return err }

// TestCrashTwice: what a crash left is durable, and the next one starts from there.
func TestCrashTwice(t *testing.T) {
	d := newDisk(t)
	f := d.durable("/f", "one")
	d.write(f, "two", 0)
	d = d.crash(1, 100).crash(1, 0)
	if got := d.text("/f"); got != "two" {
		t.Fatalf("%q", got)
	}
	f = d.file("/f")
	d.write(f, "six", 0)
	d.ok(f.Sync())
	if got := d.crash(1, 0).text("/f"); got != "six" {
		t.Errorf("%q", got)
	}
}

// TestCrashModel: keeping nothing leaves exactly what the last sync covered; keeping some leaves of each
// page something that was there since.
func TestCrashModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := New(1)
		f, err := d.Create("/f")
		if err != nil || d.SyncDir("/") != nil {
			t.Fatal(err)
		}
		var now, synced []byte
		since := [][]byte{nil} // all contents since the last sync
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"write", "write", "write", "sync", "truncate"}).Draw(t, "step") {
			case "write":
				off := rapid.IntRange(0, 3*pageBytes).Draw(t, "off")
				b := bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, rapid.IntRange(1, 2*pageBytes).Draw(t, "bytes"))
				if _, err := f.WriteAt(b, int64(off)); err != nil {
					t.Fatal(err)
				}
				now = append(bytes.Clone(now), make([]byte, max(0, off+len(b)-len(now)))...)
				copy(now[off:], b)
			case "truncate":
				n := rapid.IntRange(0, 4*pageBytes).Draw(t, "size")
				if err := f.Truncate(int64(n)); err != nil {
					t.Fatal(err)
				}
				now = append(bytes.Clone(now), make([]byte, max(0, n-len(now)))...)[:n]
			case "sync":
				if err := f.Sync(); err != nil {
					t.Fatal(err)
				}
				synced, since = now, nil
			}
			since = append(since, now)
		}
		read := func(d *FS) []byte {
			f, err := d.Open("/f")
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		if got := read(d); !bytes.Equal(got, now) {
			t.Fatalf("the cache holds %d bytes, want %d", len(got), len(now))
		}
		if got := read(d.Crash(rng, 0)); !bytes.Equal(got, synced) {
			t.Fatalf("keeping nothing: %d bytes, want %d", len(got), len(synced))
		}
		if got := read(d.Crash(rng, 100)); !bytes.Equal(got, now) {
			t.Fatalf("keeping everything: %d bytes, want %d", len(got), len(now))
		}
		got := read(d.Crash(rng, 50))
		for at := 0; at < len(got); at += pageBytes {
			if page := got[at:min(at+pageBytes, len(got))]; !anyHas(since, at, page) {
				t.Fatalf("page at %d was never that", at)
			}
		}
	})
}

// anyHas reports whether one of the contents, with zeros behind its end, has page at that place.
func anyHas(contents [][]byte, at int, page []byte) bool {
	for _, c := range contents {
		padded := append(bytes.Clone(c), make([]byte, max(0, at+len(page)-len(c)))...)
		if bytes.Equal(padded[at:at+len(page)], page) {
			return true
		}
	}
	return false
}

// TestVolumeSync: one sync of the whole leaves nothing for a crash to take, of bytes or names, wherever.
func TestVolumeSync(t *testing.T) {
	d := newDisk(t)
	d.durable("/old", "aaaa")
	d.ok(d.MkdirAll("/a/b"))
	d.write(d.file("/a/b/new"), "bbbb", 0)
	d.write(d.file("/old"), "cc", 0)
	v, err := d.Volume("/a")
	d.ok(err)
	d.ok(v.Sync())
	d.write(d.file("/old"), "later", 0)
	after := d.crash(1, 0)
	for name, want := range map[string]string{"/a/b/new": "bbbb", "/old": "ccaa"} {
		b := make([]byte, len(want))
		if _, err := after.file(name).ReadAt(b, 0); err != nil || string(b) != want {
			t.Errorf("%s: %q %v, want %q", name, b, err, want)
		}
	}
}
