package osfs

import (
	"path/filepath"
	"testing"
)

// TestSeekData: nothing that was written is passed over, before and after it is on the disk.
func TestSeekData(t *testing.T) {
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
		for _, tc := range []struct{ from, most int64 }{{0, at}, {at, at}, {at + 1, size}} {
			got, err := f.(*file).SeekData(tc.from)
			if err != nil || got < tc.from || got > tc.most {
				t.Errorf("%s: data from %d on: at %d, %v; want %d at most", when, tc.from, got, err, tc.most)
			}
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
	}
}
