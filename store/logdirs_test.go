package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ringmq/store/vfs"
	"ringmq/store/vfs/memfs"
	"ringmq/store/vfs/osfs"
)

// disks is a file system on which some directories are disks of their own.
type disks struct {
	vfs.FS
	usedPercent map[string]int64
}

func (d disks) Space(dir string) (free, total int64, err error) {
	if used, ok := d.usedPercent[dir]; ok {
		return (100 - used) << 30, 100 << 30, nil
	}
	return d.FS.Space(dir)
}

// sendFiles sends messages until the log has n files.
func (h *harness) sendFiles(n int64) {
	h.t.Helper()
	for i := 0; h.Marks().Visible <= (n-1)*h.o.SegmentBytes; i++ {
		if !h.send(h.put("T", int32(i%2), fmt.Appendf(nil, "%d %s", i, bytes.Repeat([]byte("x"), 2000)))) {
			h.t.Fatal(h.Err(), h.Refusing())
		}
	}
}

// bodies are all messages of the topic of sendFiles, by queue and offset.
func (h *harness) bodies() (all []string) {
	for id := range int32(2) {
		for at := h.Queue("T", id).Min(); at < h.Queue("T", id).Max(); at++ {
			all = append(all, string(h.body("T", id, at)))
		}
	}
	return all
}

// TestLogDirs: new files go to the directories in turn, not to one whose disk is at the level from which on files go whatever
// their age, and all of it reads back from wherever it lies, whatever the order of the directories.
func TestLogDirs(t *testing.T) {
	disk := memfs.New(1)
	fsys := disks{disk, map[string]int64{"/x/a": 10, "/x/b": 86, "/x/c": 84}}
	o := tinyOptions("/s")
	o.CommitLogDirs = []string{"/x/c", "/x/a", "/x/b/"}
	o.Retention = Retention{ForcePercent: 85}
	h := openTest(t, fsys, o)
	h.sendFiles(4)
	want := h.bodies()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	fsys.usedPercent["/x/b"] = 20
	slices.Reverse(o.CommitLogDirs)
	h = openTest(t, fsys, o)
	if got := h.bodies(); !slices.Equal(got, want) {
		t.Errorf("%d messages, want %d", len(got), len(want))
	}
	if found := h.found; found.From != found.End || found.Rebuilt {
		t.Errorf("after a clean stop: %+v", found)
	}
	h.sendFiles(7)
	want = h.bodies()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	checkStockView(t, disk, "/s", o.CommitLogDirs...)
	var dirs []string
	for _, name := range logFiles(disk, o.CommitLogDirs) {
		dirs = append(dirs, path.Base(path.Dir(name)))
	}
	// b is full for the first four, and from the sixth on it is not; the fifth may have been prepared before the stop.
	if got := strings.Join(dirs, ""); len(got) != 7 || got[:4] != "acac" || got[5:] != "ca" {
		t.Errorf("the files are in %s", got)
	}
	h = openTest(t, fsys, o)
	defer h.Close()
	if got := h.bodies(); !slices.Equal(got, want) {
		t.Errorf("%d messages, want %d", len(got), len(want))
	}
}

// TestRoomiestLogDir: the level of the log is that of its directory with most room. The queues' disk counts as well.
func TestRoomiestLogDir(t *testing.T) {
	fsys := disks{memfs.New(1), map[string]int64{"/a": 99, "/b": 50, "/s": 10}}
	o := tinyOptions("/s")
	o.CommitLogDirs = []string{"/a", "/b"}
	o.Retention = Retention{ForcePercent: 85, WarnPercent: 90}
	h := openTest(t, fsys, o)
	defer h.Close()
	for _, tc := range []struct {
		a, b, s, want int64
		refusing      string
	}{
		{99, 50, 10, 50, ""},
		{99, 50, 60, 60, ""},
		{99, 95, 10, 95, "/b"},
		{94, 95, 10, 94, "/a"},
		{10, 99, 95, 95, "/s"},
		{10, 99, 10, 10, ""},
	} {
		fsys.usedPercent["/a"], fsys.usedPercent["/b"], fsys.usedPercent["/s"] = tc.a, tc.b, tc.s
		d := h.lookAtDisk()
		if int64(d.percent) != tc.want {
			t.Errorf("%+v: used to %d %%", tc, d.percent)
		}
		err := h.Refusing()
		if (err != nil) != (tc.refusing != "") || err != nil && !strings.Contains(err.Error(), "disk of "+tc.refusing+" ") {
			t.Errorf("%+v: refusing with %v", tc, err)
		}
	}
}

// TestReadOnlyLogDir: a directory that is to be emptied gets no new file; its messages are read, and go with age.
func TestReadOnlyLogDir(t *testing.T) {
	disk := memfs.New(1)
	o := tinyOptions("/s")
	o.checkpointBytes, o.QueueFlushInterval = 1, 1
	o.CommitLogDirs = []string{"/a", "/b"}
	h := openTest(t, disk, o)
	h.sendFiles(4)
	want := h.bodies()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	before := allFiles(t, disk, "/a")
	if len(before) != 2 {
		t.Fatalf("/a has %d files", len(before))
	}
	o.ReadOnlyLogDirs = []string{"/a"} // and still in the list of all, as an operator may leave it
	o.Retention = Retention{MaxBytes: 2 * o.SegmentBytes}
	h = openTest(t, disk, o)
	if got := h.bodies(); !slices.Equal(got, want) {
		t.Errorf("%d messages, want %d", len(got), len(want))
	}
	h.sendFiles(7)
	if after := allFiles(t, disk, "/a"); len(after) != 2 || !bytes.Equal(after["/a/00000000000000000000"], before["/a/00000000000000000000"]) {
		t.Errorf("/a has %d files, or other bytes", len(after))
	}
	for h.log.Min() < 5*o.SegmentBytes {
		h.retainRound(t.Context())
	}
	want = h.bodies()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if after := allFiles(t, disk, "/a"); len(after) != 0 {
		t.Errorf("/a still has %d files", len(after))
	}
	checkStockView(t, disk, "/s", o.CommitLogDirs...)
	h = openTest(t, disk, o)
	defer h.Close()
	if got := h.bodies(); !slices.Equal(got, want) {
		t.Errorf("%d messages, want %d", len(got), len(want))
	}
}

// TestRefuseLogDirs: directories that cannot be one log are refused with the path, the reason and a remedy, and nothing is
// touched.
func TestRefuseLogDirs(t *testing.T) {
	for _, tc := range []struct {
		name          string
		dirs, readers []string
		says          []string
	}{
		{"one is given twice", []string{"/commitlog-a", "/commitlog-b", "/commitlog-a/"}, nil, []string{`"/commitlog-a" is given twice`, "once"}},
		{"a read-only one is given twice", []string{"/commitlog-a"}, []string{"/commitlog-b", "/commitlog-b"}, []string{`"/commitlog-b" is given twice`}},
		{"an empty name", []string{"/commitlog-a", ""}, nil, []string{"no name"}},
		{"none to write", []string{"/commitlog-a"}, []string{"/commitlog-a"}, []string{"all are read-only"}},
		{"one is missing", []string{"/commitlog-a", "/commitlog-b", "/disk3/log"}, nil, []string{"/disk3/log is not there", "mount", "make the directory"}},
		{"a read-only one is missing", []string{"/commitlog-a", "/commitlog-b"}, []string{"/old"}, []string{"/old is not there", "mount"}},
		{"one is left out", []string{"/commitlog-a"}, nil, []string{"00000000000000065536 is missing", "restore"}},
		{"the newest file is read-only", []string{"/commitlog-b"}, []string{"/commitlog-a"}, []string{"/commitlog-a/00000000000000262144", "move the file to /commitlog-b"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fsys := memfs.New(1)
			unpack(t, fsys, "multipath")
			o := goldenOptions
			o.CommitLogDirs, o.ReadOnlyLogDirs, o.Log = tc.dirs, tc.readers, slog.New(slog.DiscardHandler)
			_, err := Open(fsys, o)
			for _, word := range tc.says {
				if !strings.Contains(fmt.Sprint(err), word) {
					t.Errorf("%v: does not say %q", err, word)
				}
			}
			for _, name := range []string{"/abort", "/disk3", "/old"} {
				if _, err := fsys.Stat(name); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}

// TestOneDirUnderTwoNames: links are followed, before the first file is there twice.
func TestOneDirUnderTwoNames(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(real, 0o755), os.Symlink(real, link)); err != nil {
		t.Fatal(err)
	}
	o := tinyOptions(filepath.Join(dir, "s"))
	o.CommitLogDirs, o.Log = []string{real, link}, slog.New(slog.DiscardHandler)
	for range 2 { // the lock is not kept
		_, err := Open(osfs.New(osfs.Options{}), o)
		if err == nil || !strings.Contains(err.Error(), real+" and "+link+" are one") {
			t.Fatalf("got %v", err)
		}
	}
}

// TestTwoStoresOneLog: two nodes are set up with roots of their own, and the second one's storePathCommitLog was copied
// from the first. Each root has its own lock, so nothing kept the second from writing into the first one's log.
func TestTwoStoresOneLog(t *testing.T) {
	dir := t.TempDir()
	options := func(root string, readers ...string) Options {
		o := tinyOptions(filepath.Join(dir, root))
		o.CommitLogDirs, o.ReadOnlyLogDirs, o.Log = []string{filepath.Join(dir, root+"-own"), filepath.Join(dir, "log")}, readers, slog.New(slog.DiscardHandler)
		return o
	}
	fsys := osfs.New(osfs.Options{})
	h := openTest(t, fsys, options("a"))
	if err := os.Mkdir(filepath.Join(dir, "c-own"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{"written": options("b"), "read-only": options("c", filepath.Join(dir, "log"))} {
		for range 2 { // nor does the second one keep what it has locked
			_, err := Open(fsys, o)
			if !errors.Is(err, vfs.ErrLocked) || !strings.Contains(err.Error(), filepath.Join(dir, "log")+" is in use by another store") {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if _, err := Rebuild(fsys, o); !errors.Is(err, vfs.ErrLocked) {
			t.Errorf("%s, rebuild: %v", name, err)
		}
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if err := openTest(t, fsys, options("b")).Close(); err != nil {
		t.Error(err)
	}
}

// TestRebuildLogDirs: derived files are made anew from a log in several directories.
func TestRebuildLogDirs(t *testing.T) {
	fsys, g := memfs.New(1), loadGolden(t, "multipath")
	unpack(t, fsys, "multipath")
	o := goldenOptions
	o.CommitLogDirs, o.ReadOnlyLogDirs, o.Log = []string{"/commitlog-a"}, []string{"/commitlog-b"}, slog.New(slog.DiscardHandler)
	before := allFiles(t, fsys, "/commitlog-b")
	if _, err := Rebuild(fsys, o); err != nil {
		t.Fatal(err)
	}
	after := allFiles(t, fsys, "/commitlog-b")
	for name, b := range before {
		if len(after) != len(before) || !bytes.Equal(after[name], b) {
			t.Errorf("%s was touched", name)
		}
	}
	h := openTest(t, fsys, o)
	defer h.Close()
	compareGolden(t, h, g)
}
