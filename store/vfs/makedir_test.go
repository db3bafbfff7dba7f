package vfs_test

import (
	"math/rand/v2"
	"testing"

	"ringmq/store/vfs"
	"ringmq/store/vfs/faultfs"
	"ringmq/store/vfs/memfs"
)

// survives reports whether the directory is there after a power cut that keeps nothing unsynced.
func survives(disk *memfs.FS, dir string) bool {
	_, err := disk.AfterCrash(rand.New(rand.NewPCG(1, 1)), 0).List(dir)
	return err == nil
}

// TestMakeDirEveryCrash: whenever the process is killed on the way, the next MakeDir makes all of it
// durable.
func TestMakeDirEveryCrash(t *testing.T) {
	for k := 0; ; k++ {
		disk := memfs.New(1)
		killed := faultfs.Wrap(disk)
		killed.CutAt(k) // the process dies; the disk does not
		err := vfs.MakeDir(killed, "/a/b/c")
		if (err == nil) == killed.IsCut() {
			t.Fatalf("killed at call %d: %v", k, err)
		}
		if err == nil && !survives(disk, "/a/b/c") {
			t.Fatal("it returned and was not durable")
		}
		if err := vfs.MakeDir(disk, "/a/b/c"); err != nil {
			t.Fatal(err)
		}
		if !survives(disk, "/a/b/c") {
			t.Errorf("killed at call %d: the next one left it undurable", k)
		}
		if !killed.IsCut() {
			return
		}
	}
}

// TestMakeDirEverySyncIsNeeded: its syncs are one site.
func TestMakeDirEverySyncIsNeeded(t *testing.T) {
	for lie, want := range map[string]bool{"": true, "vfs.MakeDir:syncdir": false} {
		disk := memfs.New(1)
		liar := faultfs.Wrap(disk)
		liar.Lie(lie)
		if err := vfs.MakeDir(liar, "/a/b/c"); err != nil {
			t.Fatal(err)
		}
		if got := survives(disk, "/a/b/c"); got != want {
			t.Errorf("lie %q: survives %v, sites %q", lie, got, liar.Sites())
		}
	}
}
