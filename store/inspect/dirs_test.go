package inspect

import (
	"testing"

	"ringmq/store/vfs/memfs"
)

// TestLogDirsDamage spoils a log in two directories.
func TestLogDirsDamage(t *testing.T) {
	const second = "/commitlog-b/00000000000000065536"
	for _, c := range []struct {
		what  string
		spoil func(t *testing.T, fsys *memfs.FS)
		dirs  []string
		file  string
		kind  Kind
		at    int64
	}{
		{"a directory is missing", func(*testing.T, *memfs.FS) {}, []string{"/commitlog-a", "/commitlog-b", "/c"}, "c", MissingFile, -1},
		{"a file is in both", func(t *testing.T, fsys *memfs.FS) {
			writeFile(t, fsys, "/commitlog-a/00000000000000065536", readFile(t, fsys, second))
		}, []string{"/commitlog-a", "/commitlog-b"}, second[1:], Stray, 65536},
		{"a directory is left out", func(*testing.T, *memfs.FS) {}, []string{"/commitlog-a"}, "commitlog-a/00000000000000065536", MissingFile, 65536},
	} {
		fsys := unpack(t, ours+"multipath.tar.gz")
		c.spoil(t, fsys)
		r := verify(t, fsys, Options{Dir: "/", CommitLogDirs: c.dirs})
		if v := find(t, r, c.file); r.Level != Damaged || v.Level != Damaged || v.Kind != c.kind || v.At != c.at {
			t.Errorf("%s: %v %v at %d\n%s", c.what, v.Level, v.Kind, v.At, describe(r))
		}
	}
}
