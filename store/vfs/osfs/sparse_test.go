package osfs

import (
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
