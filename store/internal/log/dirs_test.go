package log

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"ringmq/store/internal/filename"
	"ringmq/store/record"
	"ringmq/store/vfs"
	"ringmq/store/vfs/faultfs"
	"ringmq/store/vfs/memfs"
)

// twoDirs sets up a log in /a and /b with files of 16 KiB.
func twoDirs(c *Config) {
	c.Dirs, c.SegmentBytes, c.StagingBytes = []string{"/a", "/b"}, 16<<10, 64<<10
}

// judged is a file system whose calls are looked at before they are made.
type judged struct {
	vfs.FS
	judge func(op, name string) error
}

func (f judged) Create(name string) (vfs.File, error) {
	if err := f.judge("create", name); err != nil {
		return nil, err
	}
	return f.FS.Create(name)
}

func (f judged) Open(name string) (vfs.File, error) {
	if err := f.judge("open", name); err != nil {
		return nil, err
	}
	return f.FS.Open(name)
}

func (f judged) Rename(from, to string) error {
	if err := errors.Join(f.judge("rename", from), f.judge("rename", to)); err != nil {
		return err
	}
	return f.FS.Rename(from, to)
}

func (f judged) MkdirAll(dir string) error {
	if err := f.judge("mkdir", dir); err != nil {
		return err
	}
	return f.FS.MkdirAll(dir)
}

func (f judged) SyncDir(dir string) error {
	if err := f.judge("syncdir", dir); err != nil {
		return err
	}
	return f.FS.SyncDir(dir)
}

// fillTo appends until the log has n files.
func (r *rig) fillTo(n int) {
	r.t.Helper()
	for len(*r.segments.Load()) < n {
		r.await(func() bool { return r.Reserve(1000) == nil })
		r.Release(1000)
		end := r.append(1000, 'x')
		r.await(func() bool { return r.Durable() == end })
	}
}

// places are the files of the log, in its order.
func (r *rig) places() (names []string) {
	for _, g := range *r.segments.Load() {
		names = append(names, g.name())
	}
	return names
}

// TestTurns: the directory of each new file is the one that a stock broker chooses (MultiPathMappedFileQueue), then the
// others.
func TestTurns(t *testing.T) {
	for _, tc := range []struct {
		full string
		want []string // by the number of the file
	}{
		{"", []string{"a b c", "b c a", "c a b", "a b c"}},
		{"b", []string{"a c b", "c a b", "a c b", "c a b"}},
		{"a c", []string{"b a c", "b c a", "b a c"}},
		{"a b c", []string{"a b c", "b c a"}},
	} {
		l := &Log{cfg: Config{
			Dirs: []string{"c", "a", "b"}, SegmentBytes: 4096,
			Full: func(dir string) bool { return strings.Contains(tc.full, dir) },
		}}
		l.spare = newPreparer(l)
		for i, want := range tc.want {
			if got := strings.Join(l.turns(int64(i)*4096), " "); got != want {
				t.Errorf("full %q, file %d: %s, want %s", tc.full, i, got, want)
			}
		}
	}
}

// TestOneDiskFails: files go on in the other directory while one cannot take them, and come back.
func TestOneDiskFails(t *testing.T) {
	var broken atomic.Bool
	disk := memfs.New(1)
	fsys := judged{disk, func(op, name string) error {
		if broken.Load() && op == "create" && strings.HasPrefix(name, "/b/") {
			return syscall.EIO
		}
		return nil
	}}
	r := newRig(t, fsys, disk, twoDirs)
	defer r.shut()
	broken.Store(true)
	r.fillTo(4)
	broken.Store(false)
	r.fillTo(7)
	var dirs []string
	for _, name := range r.places() {
		dirs = append(dirs, path.Dir(name))
	}
	if got := strings.Join(dirs[:4], " "); got != "/a /a /a /a" { // the fifth was prepared meanwhile, perhaps
		t.Errorf("files in %s while /b fails", got)
	}
	if got := strings.Join(dirs[5:], " "); got != "/b /a" {
		t.Errorf("files in %s afterwards", got)
	}
}

// TestNameStays: a file that has its name, though perhaps not for good, is not made once more in another directory: it
// would be there twice.
func TestNameStays(t *testing.T) {
	var fails atomic.Int64
	disk := memfs.New(1)
	fsys := judged{disk, func(op, name string) error {
		if op == "syncdir" && name == "/b" && fails.Add(1) <= 3 {
			return syscall.EIO
		}
		return nil
	}}
	r := newRig(t, fsys, disk, twoDirs)
	defer r.shut()
	r.fillTo(2)
	if got := r.places(); got[1] != "/b/"+filename.Of(16<<10) {
		t.Errorf("files %q", got)
	}
	if names := r.names("/a"); slices.Contains(names, filename.Of(16<<10)) {
		t.Errorf("/a has %q as well", names)
	}
}

// openAt opens the log of twoDirs on a disk, and closes it.
func openAt(fsys vfs.FS, change func(*Config)) error {
	cfg := Config{FS: fsys, FlushDepth: 1, Log: slog.New(slog.DiscardHandler)}
	twoDirs(&cfg)
	if change != nil {
		change(&cfg)
	}
	l, err := Open(cfg)
	if err != nil {
		return err
	}
	return l.Close()
}

// makeFiles makes files of the log's length, durable.
func makeFiles(t *testing.T, fsys vfs.FS, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := vfs.MakeDir(fsys, path.Dir(name)); err != nil {
			t.Fatal(err)
		}
		f, err := fsys.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Truncate(16<<10), f.Sync(), fsys.SyncDir(path.Dir(name)), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCutLeavesNoGap: a power cut takes back the removal of a file in one directory and not the one before it in
// the other. Each is on the disk before the next, and a lie of that sync is noticed.
func TestCutLeavesNoGap(t *testing.T) {
	const site = "log.(*Log).dropFilesBehind:syncdir"
	story := func(seed uint64, k int, lie string) (cut bool, err error) {
		disk := memfs.New(seed)
		makeFiles(t, disk, "/a/"+filename.Of(0), "/b/"+filename.Of(16<<10), "/a/"+filename.Of(32<<10), "/b/"+filename.Of(48<<10))
		power := faultfs.Wrap(disk)
		power.CutAt(k)
		if lie != "" {
			power.Lie(lie)
		}
		cfg := Config{FS: power, FlushDepth: 1, Log: slog.New(slog.DiscardHandler)}
		twoDirs(&cfg)
		l, err := Open(cfg)
		if err != nil {
			return false, err
		}
		tail, err := l.Inspect(0, record.CheckTrailer)
		if err == nil {
			_, err = l.Cut(tail, "/cut")
		}
		_ = l.Close()
		if err != nil && !power.IsCut() {
			return false, err
		}
		return power.IsCut(), openAt(disk.Crash(rand.New(rand.NewPCG(seed, 1)), 50), nil)
	}
	for seed := range uint64(20) {
		for k, cut := 0, true; cut; k++ {
			var err error
			if cut, err = story(seed, k, ""); err != nil {
				t.Fatalf("seed %d, cut at %d: %v", seed, k, err)
			}
		}
	}
	for seed := range uint64(1000) {
		if _, err := story(seed, 1<<30, site); err != nil {
			t.Logf("seed %d: %v", seed, err)
			return
		}
	}
	t.Error("nobody noticed that this sync was a lie")
}

// TestDropLeavesNoGap: the same for what is dropped at the front of the log.
func TestDropLeavesNoGap(t *testing.T) {
	story := func(seed uint64, lie string) error {
		disk := memfs.New(seed)
		makeFiles(t, disk, "/a/"+filename.Of(0), "/b/"+filename.Of(16<<10), "/a/"+filename.Of(32<<10))
		for _, dir := range []string{"/a/" + spareDir, "/b/" + spareDir} {
			if err := vfs.MakeDir(disk, dir); err != nil {
				t.Fatal(err)
			}
		}
		power := faultfs.Wrap(disk)
		if lie != "" {
			power.Lie(lie)
		}
		r := newRigAt(t, power, disk, 32<<10, twoDirs)
		defer r.shut()
		for _, base := range []int64{0, 16 << 10} {
			held, err := r.Range(base, 1) // what is read is not removed, which would sync as well
			if err != nil {
				t.Fatal(err)
			}
			defer held.Release()
			if err := r.Drop(base, true, nil); err != nil {
				t.Fatal(err)
			}
		}
		return openAt(disk.AfterCrash(rand.New(rand.NewPCG(seed, 1)), 50), nil)
	}
	for seed := range uint64(100) {
		if err := story(seed, ""); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	for seed := range uint64(1000) {
		if err := story(seed, "log.(*Log).takeName:syncdir"); err != nil {
			t.Logf("seed %d: %v", seed, err)
			return
		}
	}
	t.Error("nobody noticed that this sync was a lie")
}

// TestReadOnlyDir: files in such a directory are read and dropped, and nothing else is done there.
func TestReadOnlyDir(t *testing.T) {
	disk := memfs.New(1)
	makeFiles(t, disk, "/old/"+filename.Of(0), "/old/"+filename.Of(16<<10), "/a/"+filename.Of(32<<10))
	if err := disk.MkdirAll("/b"); err != nil {
		t.Fatal(err)
	}
	fsys := judged{disk, func(op, name string) error {
		if strings.HasPrefix(name, "/old") && op != "syncdir" {
			t.Errorf("%s %s", op, name)
		}
		return nil
	}}
	r := newRigAt(t, fsys, disk, 32<<10, func(c *Config) {
		twoDirs(c)
		c.ReadOnly = []string{"/old"}
	})
	defer r.shut()
	var b [8]byte
	if err := r.ReadAt(b[:], 16<<10); err != nil {
		t.Error(err)
	}
	r.fillTo(4)
	held, err := r.Range(0, 8)
	if err != nil {
		t.Fatal(err)
	}
	for _, base := range []int64{0, 16 << 10, 32 << 10} {
		if err := r.Drop(base, true, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := held.ReadAt(b[:], 0); err != nil {
		t.Errorf("a reader that was there before the drop: %v", err)
	}
	held.Release()
	if names := r.names("/old"); len(names) > 0 {
		t.Errorf("files left: %q", names)
	}
}

// TestRefuseDirs: what cannot be one log in several directories is refused with the place and the remedy.
func TestRefuseDirs(t *testing.T) {
	file := func(dir string, i int64) string { return dir + "/" + filename.Of(i*16<<10) }
	for _, tc := range []struct {
		name  string
		files []string
		says  []string
	}{
		{"a name twice", []string{file("/a", 0), file("/b", 1), file("/a", 1)}, []string{file("/a", 1), file("/b", 1), "copy", "move the file away"}},
		{"a disk that is not mounted", []string{file("/a", 0), file("/a", 2)}, []string{filename.Of(16 << 10), "/a,/b", "mount"}},
		{"the newest is read-only", []string{file("/a", 0), file("/old", 1)}, []string{file("/old", 1), "read-only", "move the file to /a"}},
		{"an empty file is read-only", []string{file("/a", 0), file("/old", 1) + " empty"}, []string{file("/old", 1), "empty", "remove it"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			disk := memfs.New(1)
			for _, dir := range []string{"/a", "/b", "/old"} {
				if err := disk.MkdirAll(dir); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range tc.files {
				if name, empty := strings.CutSuffix(name, " empty"); !empty {
					makeFiles(t, disk, name)
				} else if _, err := disk.Create(name); err != nil {
					t.Fatal(err)
				}
			}
			err := openAt(disk, func(c *Config) { c.ReadOnly = []string{"/old"} })
			for _, word := range tc.says {
				if !strings.Contains(fmt.Sprint(err), word) {
					t.Errorf("%v: does not say %q", err, word)
				}
			}
		})
	}
}

// TestEndInReadOnlyDir: the file behind is prepared only, so that the log would go on in a read-only directory.
func TestEndInReadOnlyDir(t *testing.T) {
	disk := memfs.New(1)
	makeFiles(t, disk, "/old/"+filename.Of(0), "/a/"+filename.Of(16<<10), "/b/"+filename.Of(32<<10))
	cfg := Config{FS: disk, FlushDepth: 1, Log: slog.New(slog.DiscardHandler), ReadOnly: []string{"/old"}}
	twoDirs(&cfg)
	l, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	tail, err := l.Inspect(0, record.CheckTrailer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Cut(tail, "/cut"); err == nil || !strings.Contains(err.Error(), "/old/"+filename.Of(0)) {
		t.Errorf("cut: %v", err)
	}
	for _, name := range []string{"/a/" + filename.Of(16<<10), "/b/" + filename.Of(32<<10)} {
		if _, err := disk.Stat(name); err != nil {
			t.Errorf("after the refusal: %v", err)
		}
	}
}
