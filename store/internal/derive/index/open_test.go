package index

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"ringmq/store/record"
	"ringmq/store/vfs"
	"ringmq/store/vfs/memfs"
)

// fourFiles returns the files of an index of 20 records, and their names. In each record are two keys,
// in each file twelve entries.
func fourFiles(t *testing.T) (files map[string][]byte, names []string, log []*record.Record) {
	t.Helper()
	disk := memfs.New(1)
	x := openTest(t, disk, fourOptions)
	for i := 1; i <= 20; i++ {
		log = append(log, message(i, "a b", ""))
	}
	putAll(t, x, log)
	if err := x.Flush(); err != nil {
		t.Fatal(err)
	}
	files = readFiles(t, disk)
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) != 4 {
		t.Fatalf("%v", names)
	}
	return files, names, log
}

var fourOptions = Options{Slots: 5, Entries: 13}

// TestDamagedFiles: what a file must be to be used, from where on the log is put in again otherwise, and
// that the result is what it was.
func TestDamagedFiles(t *testing.T) {
	set := func(at int, to ...byte) func([]byte) []byte {
		return func(b []byte) []byte { copy(b[at:], to); return b }
	}
	for _, tc := range []struct {
		name   string
		file   int
		change func(b []byte) []byte
		from   int64 // CompleteTo
		warn   string
	}{
		{"nothing", 0, func(b []byte) []byte { return b }, 2000, ""},
		{"newest short", 3, func(b []byte) []byte { return b[:len(b)-1] }, 1800, "it has 319 bytes"},
		{"newest long", 3, func(b []byte) []byte { return append(b, 0) }, 1800, "it has 321 bytes"},
		{"newest without bytes", 3, func([]byte) []byte { return nil }, 1800, "it has 0 bytes"},
		{"newest all zero", 3, func(b []byte) []byte { clear(b); return b }, 1800, ""},
		{"first short", 0, func(b []byte) []byte { return b[:100] }, 0, "it has 100 bytes"},
		{"second short", 1, func(b []byte) []byte { return b[:100] }, 600, "it has 100 bytes"},
		{"second all zero", 1, func(b []byte) []byte { clear(b); return b }, 600, "not full"},
		{"second not full", 1, set(39, 12), 1200, "not full"},
		{"second counts too many", 1, set(39, 14), 600, "next entry is 14"},
		{"second counts negative", 1, set(36, 0x80), 600, "next entry is"},
		{"second begins before the first ends", 1, set(22, 0, 0), 600, "begins at 0"},
		{"third ends before it begins", 2, set(30, 0, 0), 1200, "spans the log from 1300 to 0"},
		{"third begins below zero", 2, set(16, 0x80), 1200, "spans the log"},
		{"newest of the far future", 3, set(8, 0x40), 1800, "were stored from"},
		{"newest of before 1970", 3, set(0, 0x80), 1800, "were stored from"},
		{"newest empty, and does not follow", 3, set(39, 1), 1800, "does not follow"},
		{"second missing", 1, nil, 2000, ""}, // nothing can tell
	} {
		t.Run(tc.name, func(t *testing.T) {
			files, names, log := fourFiles(t)
			want := []int64{}
			for _, r := range log {
				if tc.change != nil || r.PhysOffset <= 600 || r.PhysOffset > 1200 {
					want = append(want, r.PhysOffset)
				}
			}
			if b := files[names[tc.file]]; tc.change == nil {
				delete(files, names[tc.file])
			} else {
				files[names[tc.file]] = tc.change(b)
			}
			disk := memfs.New(1)
			writeFiles(t, disk, files)
			var text bytes.Buffer
			o := fourOptions
			o.Log = slog.New(slog.NewTextHandler(&text, nil))
			x, err := Open(disk, dir, o)
			if err != nil {
				t.Fatal(err)
			}
			if got := x.CompleteTo().Offset; got != tc.from {
				t.Errorf("complete to %d, want %d", got, tc.from)
			}
			if !strings.Contains(text.String(), tc.warn) || tc.warn == "" && text.Len() > 0 {
				t.Errorf("logged %q", text.String())
			}
			for _, r := range log {
				if r.PhysOffset >= x.CompleteTo().Offset {
					putAll(t, x, []*record.Record{r})
				}
			}
			for _, key := range []string{"a", "b"} {
				if got := find(t, x, Query{Key: key}); !slices.Equal(got, want) {
					t.Errorf("%s: %v", key, got)
				}
			}
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestForeignNames: what is no index file is named and left alone.
func TestForeignNames(t *testing.T) {
	files, _, _ := fourFiles(t)
	disk := memfs.New(1)
	foreign := []string{"notes", "2026113003000000", "202611300300000011", "2026113003000000x", "20261130030000001.bak"}
	for _, name := range foreign {
		files[name] = []byte("mine")
	}
	writeFiles(t, disk, files)
	if err := vfs.MakeDir(disk, dir+"/20271130030000001"); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	o := fourOptions
	o.Log = slog.New(slog.NewTextHandler(&text, nil))
	x, err := Open(disk, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if got := find(t, x, Query{Key: "a"}); len(got) != 20 {
		t.Errorf("found %v", got)
	}
	for _, name := range append(foreign, "20271130030000001") {
		if !strings.Contains(text.String(), name) {
			t.Errorf("%s is not logged", name)
		}
		if _, err := disk.Stat(dir + "/" + name); err != nil {
			t.Error(err)
		}
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestTruncate: cuts at every record, and what follows is as if the records had never been.
func TestTruncate(t *testing.T) {
	files, names, log := fourFiles(t)
	for cut := range log {
		disk := memfs.New(1)
		writeFiles(t, disk, files)
		x := openTest(t, disk, fourOptions)
		end := log[cut].PhysOffset
		if err := x.Truncate(end); err != nil {
			t.Fatal(err)
		}
		last := Position{}
		want := []int64{}
		for _, r := range log[:cut] {
			want = append(want, r.PhysOffset)
			last = Position{r.PhysOffset, r.StoreMs}
		}
		got := x.Newest()
		if got.Offset != last.Offset || got.StoreMs < last.StoreMs || got.StoreMs > last.StoreMs+999 || got != x.CompleteTo() {
			t.Errorf("cut at %d: newest %+v, want %+v", end, got, last)
		}
		other := message(0, "a", "")
		other.PhysOffset = end + 50
		putAll(t, x, []*record.Record{other})
		if got := find(t, x, Query{Key: "a"}); !slices.Equal(got, append(want, end+50)) {
			t.Errorf("cut at %d: %v", end, got)
		}
		if now, err := disk.List(dir); err != nil || len(now) > 1+cut/6 && len(now) > len(names) {
			t.Errorf("cut at %d: %v, %v", end, now, err)
		}
	}
}

// TestTruncateInMemory: entries that were never flushed can be cut too.
func TestTruncateInMemory(t *testing.T) {
	x := openTest(t, memfs.New(1), goldenOptions)
	for i := range 9 {
		putAll(t, x, []*record.Record{message(i, "a", "")})
	}
	if err := x.Truncate(350); err != nil {
		t.Fatal(err)
	}
	if got := find(t, x, Query{Key: "a"}); !slices.Equal(got, []int64{0, 100, 200, 300}) {
		t.Errorf("found %v", got)
	}
	if got := x.CompleteTo(); got != (Position{300, 1e12 + 3999}) {
		t.Errorf("complete to %+v", got)
	}
	if err := x.Truncate(0); err != nil || x.CompleteTo() != (Position{}) {
		t.Errorf("%v, complete to %+v", err, x.CompleteTo())
	}
	if got := find(t, x, Query{Key: "a"}); len(got) > 0 {
		t.Errorf("found %v", got)
	}
}

// TestDropBelow: only files that end before the log begins go, and never the newest.
func TestDropBelow(t *testing.T) {
	for min, left := range map[int64]int{0: 4, 600: 4, 601: 3, 1200: 3, 1201: 2, 1801: 1, 1 << 60: 1} {
		files, names, _ := fourFiles(t)
		disk := memfs.New(1)
		writeFiles(t, disk, files)
		x := openTest(t, disk, fourOptions)
		if err := x.DropBelow(min); err != nil {
			t.Fatal(err)
		}
		if got, err := disk.List(dir); err != nil || !slices.Equal(got, names[4-left:]) {
			t.Errorf("min %d: %v, %v", min, got, err)
		}
		if got := find(t, x, Query{Key: "a"}); got[0] != 100+600*int64(4-left) || got[len(got)-1] != 2000 {
			t.Errorf("min %d: found %v", min, got)
		}
	}
}
