// Package vfstest is what every vfs.FS must do, as one suite that each implementation's tests run. Only
// test files import it. What survives a crash is not part of it: that takes an FS that can crash.
package vfstest

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"syscall"
	"testing"

	"ringmq/store/vfs"
)

// Run runs the suite. Each part gets an FS and an empty directory in it by calling fresh.
func Run(t *testing.T, fresh func(t *testing.T) (fsys vfs.FS, dir string)) {
	for _, part := range []struct {
		name string
		run  func(t *testing.T, s suite)
	}{
		{"names", testNames},
		{"missing", testMissing},
		{"wrong kind", testWrongKind},
		{"rename", testRename},
		{"removed but open", testRemovedButOpen},
		{"directories", testDirectories},
		{"MakeDir", testMakeDir},
		{"lock", testLock},
		{"lock a directory", testLockDir},
		{"space", testSpace},
		{"volume", testVolume},
		{"read and write", testReadWrite},
		{"read only", testReadOnly},
		{"vectors", testVectors},
		{"truncate", testTruncate},
		{"preallocate", testPreallocate},
		{"flushes", testFlushes},
		{"durable writes", testDurableWrites},
		{"flush after rename", testFlushAfterRename},
		{"kicks", testKicks},
		{"reap waits", testReapWaits},
		{"close engine", testCloseEngine},
		{"many writers", testManyWriters},
	} {
		t.Run(part.name, func(t *testing.T) {
			fsys, dir := fresh(t)
			part.run(t, suite{T: t, fs: fsys, dir: dir})
		})
	}
}

// suite is the steps that the parts are told in; each fails the test when the call does.
type suite struct {
	*testing.T
	fs  vfs.FS
	dir string
}

func (s suite) path(name string) string { return path.Join(s.dir, name) }

func (s suite) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s suite) create(name string) vfs.File {
	s.Helper()
	f, err := s.fs.Create(s.path(name))
	s.ok(err)
	s.Cleanup(func() { f.Close() })
	return f
}

func (s suite) open(name string) vfs.File {
	s.Helper()
	f, err := s.fs.Open(s.path(name))
	s.ok(err)
	s.Cleanup(func() { f.Close() })
	return f
}

func (s suite) write(f vfs.File, text string, off int64) {
	s.Helper()
	n, err := f.WriteAt([]byte(text), off)
	s.ok(err)
	if n != len(text) {
		s.Fatalf("wrote %d of %d bytes", n, len(text))
	}
}

// put makes a file with text in it.
func (s suite) put(name, text string) {
	s.Helper()
	f := s.create(name)
	s.write(f, text, 0)
	s.ok(f.Close())
}

// holds checks a file's whole contents.
func (s suite) holds(name, text string) {
	s.Helper()
	f, err := s.fs.OpenRead(s.path(name))
	s.ok(err)
	defer f.Close()
	s.reads(f, text)
}

func (s suite) reads(f vfs.File, text string) {
	s.Helper()
	size, err := f.Size()
	s.ok(err)
	got := make([]byte, size)
	if size > 0 {
		_, err = f.ReadAt(got, 0)
		s.ok(err)
	}
	if string(got) != text {
		s.Fatalf("holds %q, want %q", got, text)
	}
}

func (s suite) lists(dir string, want ...string) {
	s.Helper()
	got, err := s.fs.List(s.path(dir))
	s.ok(err)
	if !slices.Equal(got, want) {
		s.Fatalf("lists %q, want %q", got, want)
	}
}

// fails checks the class of an error, and that it says what it was about.
func (s suite) fails(err, class error, about string) {
	s.Helper()
	if !errors.Is(err, class) {
		s.Fatalf("%v, want %v", err, class)
	}
	var place *fs.PathError
	if errors.As(err, &place) && place.Path != about {
		s.Fatalf("%v is about %q, want %q", err, place.Path, about)
	}
}

func testNames(t *testing.T, s suite) {
	s.put("b", "text")
	f := s.create("a")
	if f.Name() != s.path("a") {
		t.Errorf("name %q", f.Name())
	}
	s.lists("", "a", "b")
	_, err := s.fs.Create(s.path("a"))
	s.fails(err, fs.ErrExist, s.path("a"))
	info, err := s.fs.Stat(s.path("b"))
	if s.ok(err); info.Size != 4 || info.Dir || info.Mod.IsZero() {
		t.Errorf("%+v", info)
	}
	s.ok(s.fs.SyncDir(s.dir))
	s.ok(s.fs.Remove(s.path("a")))
	s.lists("", "b")
}

func testMissing(_ *testing.T, s suite) {
	missing := s.path("missing")
	_, err := s.fs.Open(missing)
	s.fails(err, fs.ErrNotExist, missing)
	_, err = s.fs.OpenRead(missing)
	s.fails(err, fs.ErrNotExist, missing)
	_, err = s.fs.Stat(missing)
	s.fails(err, fs.ErrNotExist, missing)
	_, err = s.fs.List(missing)
	s.fails(err, fs.ErrNotExist, missing)
	_, err = s.fs.Create(path.Join(missing, "f"))
	s.fails(err, fs.ErrNotExist, path.Join(missing, "f"))
	_, err = s.fs.Lock(path.Join(missing, "f"))
	s.fails(err, fs.ErrNotExist, path.Join(missing, "f"))
	_, err = s.fs.LockDir(missing)
	s.fails(err, fs.ErrNotExist, missing)
	_, _, err = s.fs.Space(missing)
	s.fails(err, fs.ErrNotExist, missing)
	s.fails(s.fs.Remove(missing), fs.ErrNotExist, missing)
	s.fails(s.fs.SyncDir(missing), fs.ErrNotExist, missing)
	s.fails(s.fs.Rename(missing, s.path("x")), fs.ErrNotExist, missing)
}

func testWrongKind(_ *testing.T, s suite) {
	s.put("file", "")
	s.ok(s.fs.MkdirAll(s.path("dir")))
	_, err := s.fs.Open(s.path("dir"))
	s.fails(err, syscall.EISDIR, s.path("dir"))
	_, err = s.fs.OpenRead(s.path("dir"))
	s.fails(err, syscall.EISDIR, s.path("dir"))
	_, err = s.fs.Open(s.path("file/x"))
	s.fails(err, syscall.ENOTDIR, s.path("file/x"))
	s.fails(s.fs.SyncDir(s.path("file")), syscall.ENOTDIR, s.path("file"))
	if err := s.fs.MkdirAll(s.path("file/x")); !errors.Is(err, syscall.ENOTDIR) {
		s.Errorf("directory below a file: %v", err)
	}
	if err := s.fs.Rename(s.path("dir"), s.path("file")); !errors.Is(err, syscall.ENOTDIR) {
		s.Errorf("directory over a file: %v", err)
	}
	if err := s.fs.Rename(s.path("dir"), s.path("dir/x")); !errors.Is(err, syscall.EINVAL) {
		s.Errorf("directory into itself: %v", err)
	}
	if err := s.fs.Rename(s.path("file"), s.path("dir")); err == nil {
		s.Error("a file replaced a directory")
	}
}

func testRename(_ *testing.T, s suite) {
	s.put("a", "new")
	s.put("b", "old")
	s.ok(s.fs.MkdirAll(s.path("dir")))
	f := s.open("a")
	s.ok(s.fs.Rename(s.path("a"), s.path("b")))
	s.lists("", "b", "dir")
	s.holds("b", "new")
	s.write(f, "NEW", 0) // the handle follows the file
	s.holds("b", "NEW")
	s.ok(s.fs.Rename(s.path("b"), s.path("b")))
	s.ok(s.fs.Rename(s.path("b"), s.path("dir/c")))
	s.lists("", "dir")
	s.holds("dir/c", "NEW")
	s.ok(s.fs.Rename(s.path("dir"), s.path("dir2")))
	s.holds("dir2/c", "NEW")
	s.ok(s.fs.SyncDir(s.dir))
}

func testRemovedButOpen(_ *testing.T, s suite) {
	s.put("f", "text")
	f := s.open("f")
	s.ok(s.fs.Remove(s.path("f")))
	s.lists("")
	s.reads(f, "text")
	s.put("f", "another")
	s.write(f, "TEXT", 0)
	s.ok(f.Sync())
	s.reads(f, "TEXT")
	s.holds("f", "another")
}

func testDirectories(_ *testing.T, s suite) {
	s.ok(s.fs.MkdirAll(s.path("a/b/c")))
	s.ok(s.fs.MkdirAll(s.path("a/b/c")))
	s.put("a/b/f", "")
	s.lists("a/b", "c", "f")
	info, err := s.fs.Stat(s.path("a/b"))
	if s.ok(err); !info.Dir {
		s.Errorf("%+v", info)
	}
	s.fails(s.fs.Remove(s.path("a/b")), syscall.ENOTEMPTY, s.path("a/b"))
	s.ok(s.fs.Remove(s.path("a/b/f")))
	s.ok(s.fs.Remove(s.path("a/b/c")))
	s.ok(s.fs.Remove(s.path("a/b")))
	s.lists("a")
	s.ok(s.fs.SyncDir(s.path("a")))
}

func testMakeDir(_ *testing.T, s suite) {
	s.ok(vfs.MakeDir(s.fs, s.path("a/b/c")))
	s.ok(vfs.MakeDir(s.fs, s.path("a/b/c")))
	s.ok(vfs.MakeDir(s.fs, s.path("a/d/")))
	s.lists("a", "b", "d")
	s.put("a/f", "")
	if err := vfs.MakeDir(s.fs, s.path("a/f/g")); !errors.Is(err, syscall.ENOTDIR) {
		s.Errorf("directory below a file: %v", err)
	}
}

func testLock(_ *testing.T, s suite) {
	name := s.path("lock")
	held, err := s.fs.Lock(name)
	s.ok(err)
	for range 2 { // being refused must not drop the lock
		_, err = s.fs.Lock(name)
		s.fails(err, vfs.ErrLocked, name)
	}
	s.ok(held.Close())
	held, err = s.fs.Lock(name)
	s.ok(err)
	other, err := s.fs.Lock(s.path("other"))
	s.ok(err)
	s.ok(other.Close())
	_, err = s.fs.Lock(name)
	s.fails(err, vfs.ErrLocked, name)
	s.ok(held.Close())
	s.lists("", "lock", "other")
}

func testLockDir(_ *testing.T, s suite) {
	s.put("file", "")
	_, err := s.fs.LockDir(s.path("file"))
	s.fails(err, syscall.ENOTDIR, s.path("file"))
	s.ok(s.fs.MkdirAll(s.path("dir")))
	held, err := s.fs.LockDir(s.path("dir"))
	s.ok(err)
	for range 2 { // being refused must not drop the lock
		_, err = s.fs.LockDir(s.path("dir"))
		s.fails(err, vfs.ErrLocked, s.path("dir"))
	}
	other, err := s.fs.LockDir(s.dir)
	s.ok(err)
	s.ok(other.Close())
	s.ok(held.Close())
	held, err = s.fs.LockDir(s.path("dir"))
	s.ok(err)
	s.ok(held.Close())
	s.lists("dir")
}

func testSpace(_ *testing.T, s suite) {
	free, total, err := s.fs.Space(s.dir)
	s.ok(err)
	if free <= 0 || total < free {
		s.Errorf("%d of %d bytes free", free, total)
	}
}

// testVolume: a sync of all of it works while files are open, and as often as it is asked for.
func testVolume(t *testing.T, s suite) {
	v, err := s.fs.Volume(s.dir)
	s.ok(err)
	f, err := s.fs.Create(s.path("f"))
	s.ok(err)
	for range 2 {
		_, err = f.WriteAt([]byte("x"), 0)
		s.ok(err)
		s.ok(v.Sync())
	}
	s.ok(f.Close())
	s.ok(v.Close())
	if _, err := s.fs.Volume(s.path("none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("volume of nothing: %v", err)
	}
	if _, err := s.fs.Volume(s.path("f")); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("volume of a file: %v", err)
	}
}
