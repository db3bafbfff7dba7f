package osfs

import (
	"bytes"
	"path/filepath"
	"testing"
)

// TestNextData: nothing that was written is passed over, before and after it is on the disk.
func TestNextData(t *testing.T) {
	f, err := New(Options{}).Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size, at = 64 << 20, 40<<20 + 5
	if err := f.Preallocate(size); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("x"), at); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"in the cache", "on the disk"} {
		for _, off := range []int64{0, at} {
			from, to, err := f.(*file).NextData(off)
			if err != nil || from < off || from > at || to <= at {
				t.Errorf("%s: data from %d on: %d to %d, %v; the byte is at %d", when, off, from, to, err, at)
			}
		}
		from, to, err := f.(*file).NextData(size)
		if err != nil || from != size || to != size {
			t.Errorf("%s: data behind the end: %d to %d, %v", when, from, to, err)
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestZero: zeros stand exactly where they were asked for, however the file system makes them.
func TestZero(t *testing.T) {
	f := mustCreate(t)
	const size = 64 << 10
	for _, r := range [][2]int64{{0, 1}, {5, 4096}, {4096, 8192}, {size - 3, 3}, {100, 0}} {
		want := bytes.Repeat([]byte{'x'}, size)
		if _, err := f.WriteAt(want, 0); err != nil {
			t.Fatal(err)
		}
		clear(want[r[0] : r[0]+r[1]])
		if err := f.Zero(r[0], r[1]); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, size)
		if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes from %d: wrong bytes, %v", r[1], r[0], err)
		}
		if n, err := f.Size(); n != size || err != nil {
			t.Errorf("%d bytes long, %v", n, err)
		}
	}
}
