package index

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"ringmq/store/record"
	"ringmq/store/vfs"
	"ringmq/store/vfs/memfs"
	"ringmq/store/vfs/vfstest"
)

// golden is a log that a stock broker 5.5.0 wrote, its index, and what it answers.
type golden struct {
	log     []*record.Record
	index   map[string][]byte // files by name
	killed  map[string][]byte // as a kill -9 left them, where the broker was killed
	queries []struct {
		Topic, Key, IndexType string
		MaxNum                int
		Begin, End            int64
		PhysicalOffsets       []int64
	}
}

// goldenOptions are the settings that the files were written with.
var goldenOptions = Options{Slots: 100, Entries: 400}

var goldenNames = []string{
	"plain", "roll", "batch", "bcq", "compaction", "delay", "tx", "timer", "retry", "v2props", "ipv6", "lmq",
	"lz4zstd", "crc", "ext", "pop",
	"nocq",  // built anew by the broker
	"crash", // killed, and built anew
}

// TestGoldenQueries: files of a stock broker, and ones built here of the same log, answer as that broker does.
func TestGoldenQueries(t *testing.T) {
	for _, name := range goldenNames {
		t.Run(name, func(t *testing.T) {
			g := loadGolden(t, name)
			disk := memfs.New(1)
			writeFiles(t, disk, g.index)
			theirs := openTest(t, disk, goldenOptions)
			g.ask(t, theirs)
			ours := openTest(t, memfs.New(1), goldenOptions)
			putAll(t, ours, g.log)
			g.ask(t, ours)
			if a, b := theirs.Newest(), ours.Newest(); a != b {
				t.Errorf("newest %+v, built here %+v", a, b)
			}
		})
	}
}

func (g *golden) ask(t *testing.T, x *Index) {
	t.Helper()
	if len(g.queries) < 9 {
		t.Fatalf("only %d queries", len(g.queries))
	}
	hits := 0
	for _, q := range g.queries {
		got, err := x.Find(Query{Topic: q.Topic, Key: q.Key, Tags: q.IndexType == "T", Max: q.MaxNum, BeginMs: q.Begin, EndMs: q.End})
		if err != nil || !slices.Equal(got, q.PhysicalOffsets) {
			t.Errorf("%+v: got %v, %v", q, got, err)
		}
		hits += len(got)
	}
	if hits < 8 {
		t.Errorf("only %d hits", hits)
	}
}

// TestGoldenBytes: the same records make the same files.
func TestGoldenBytes(t *testing.T) {
	for _, name := range goldenNames {
		t.Run(name, func(t *testing.T) {
			g, disk := loadGolden(t, name), memfs.New(1)
			x := openTest(t, disk, goldenOptions)
			putAll(t, x, g.log)
			if err := x.Flush(); err != nil {
				t.Fatal(err)
			}
			compareFiles(t, g.index, readFiles(t, disk))
		})
	}
}

// TestGoldenContinued: a stock broker's files, from which newer records are taken away, are continued to
// the same bytes.
func TestGoldenContinued(t *testing.T) {
	g := loadGolden(t, "roll")
	for at := 0; at < len(g.log); at += 7 {
		disk := memfs.New(1)
		writeFiles(t, disk, g.index)
		x := openTest(t, disk, goldenOptions)
		if err := x.Truncate(g.log[at].PhysOffset); err != nil {
			t.Fatal(err)
		}
		if got := x.CompleteTo().Offset; got >= g.log[at].PhysOffset && at > 0 {
			t.Fatalf("complete to %d, cut at %d", got, g.log[at].PhysOffset)
		}
		putAll(t, x, g.log)
		if err := x.Flush(); err != nil {
			t.Fatal(err)
		}
		compareFiles(t, g.index, readFiles(t, disk))
	}
}

// TestKilledStock: what a killed broker left is dropped by its own rule and built anew; where it happens
// to be whole it can be continued instead.
func TestKilledStock(t *testing.T) {
	g := loadGolden(t, "crash")
	if len(g.killed) != 2 {
		t.Fatalf("%d files", len(g.killed))
	}
	for _, dropAfter := range []int64{0, 1796009924375, 1796009924376} { // all, the newer of both, none
		disk := memfs.New(1)
		writeFiles(t, disk, g.killed)
		x := openTest(t, disk, goldenOptions)
		if err := x.DropAfter(dropAfter); err != nil {
			t.Fatal(err)
		}
		putAll(t, x, g.log)
		if err := x.Flush(); err != nil {
			t.Fatal(err)
		}
		g.ask(t, x)
		compareFiles(t, g.index, readFiles(t, disk))
	}
}

func compareFiles(t *testing.T, want, got map[string][]byte) {
	t.Helper()
	a, b := inOrder(want), inOrder(got)
	if len(a) != len(b) {
		t.Fatalf("%d files, want %d", len(b), len(a))
	}
	for i := range a {
		if bytes.Equal(a[i], b[i]) {
			continue
		}
		t.Errorf("file %d: head %+v, want %+v", i, parseHead(b[i]), parseHead(a[i]))
		for at := range a[i] {
			if a[i][at] != b[i][at] {
				t.Fatalf("file %d differs from byte %d on", i, at)
			}
		}
	}
}

// inOrder returns the contents in the names' order.
func inOrder(files map[string][]byte) (contents [][]byte) {
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		contents = append(contents, files[name])
	}
	return contents
}

func putAll(t testing.TB, x *Index, log []*record.Record) {
	t.Helper()
	for _, r := range log {
		if err := x.Put(r); err != nil {
			t.Fatal(err)
		}
	}
}

const dir = "/s/index"

// openTest opens an index whose clock goes one ms further at each look.
func openTest(t testing.TB, fsys vfs.FS, o Options) *Index {
	t.Helper()
	x, err := tryOpen(fsys, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if x.failed != errClosed {
			_ = x.Close()
		}
	})
	return x
}

func tryOpen(fsys vfs.FS, o Options) (*Index, error) {
	now := time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)
	o.Now = func() time.Time { now = now.Add(time.Millisecond); return now }
	o.Log = quiet
	return Open(fsys, dir, o)
}

func writeFiles(t testing.TB, fsys vfs.FS, files map[string][]byte) {
	t.Helper()
	if err := vfs.MakeDir(fsys, dir); err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		f, err := fsys.Create(path.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(data, 0); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if err := fsys.SyncDir(dir); err != nil {
		t.Fatal(err)
	}
}

func readFiles(t testing.TB, fsys vfs.FS) map[string][]byte {
	t.Helper()
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		f, err := fsys.OpenRead(path.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name], err = io.ReadAll(io.NewSectionReader(f, 0, 1<<30))
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func loadGolden(t testing.TB, name string) *golden {
	t.Helper()
	g := &golden{index: map[string][]byte{}, killed: map[string][]byte{}}
	vfstest.EachArchived(t, "testdata/"+name+".tar.gz", func(file string, data []byte) {
		var err error
		switch kind, base, _ := strings.Cut(file, "/"); kind {
		case "commitlog":
			err = g.addSegment(base, data)
		case "index":
			g.index[base] = data
		case "killed":
			g.killed[base] = data
		case "queries.json":
			err = json.Unmarshal(data, &g.queries)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	return g
}

// addSegment takes the records of one file of the log; the archive has them in order.
func (g *golden) addSegment(name string, data []byte) error {
	var base int64
	if _, err := fmt.Sscanf(name, "%d", &base); err != nil {
		return err
	}
	for at := 0; at < len(data); {
		r := new(record.Record)
		err := record.Verify(data[at:], base+int64(at), r)
		if errors.Is(err, record.ErrBlank) || errors.Is(err, record.ErrEmpty) {
			return nil
		}
		if err != nil {
			return err
		}
		g.log = append(g.log, r)
		at += r.Size
	}
	return nil
}
