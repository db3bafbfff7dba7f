// Package cmd holds the binaries; this file holds the rule of who may import whom.
package cmd

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "ringmq/"

// room is one row of the map in docs/architecture.md: which of our packages, and which third-party
// modules, the non-test files below a folder may import. "x/..." stands for x and all below it.
type room struct {
	folder string
	ours   []string
	others []string
}

var (
	words  = []string{"netio/wire", "store/record"}
	tables = []string{"node/topic", "node/group", "node/offset"}
	disk   = []string{"store/vfs", "store/sidefile"}
	lower  = slices.Concat(words, disk, []string{"netio", "netio/remoting", "store", "ha", "uring", "uring/hist"})
)

// rooms is read from the top: the first row whose folder holds the package decides.
var rooms = []room{
	{"uring", []string{"uring/..."}, []string{"golang.org/x/sys", "github.com/iceber/iouring-go/syscall"}},
	{"netio/wire", nil, nil},
	{"netio/remoting", []string{"netio/wire"}, nil},
	{"netio", []string{"netio/wire", "uring/..."}, []string{"github.com/panjf2000/gnet/v2", "golang.org/x/sys"}},
	{"store/record", nil, nil},
	{"store/vfs", []string{"store/vfs/...", "uring/..."}, []string{"golang.org/x/sys"}},
	{"store/sidefile", []string{"store/vfs"}, nil},
	{"store/inspect", []string{"store/...", "netio/wire"}, []string{"github.com/klauspost/compress", "github.com/pierrec/lz4/v4"}},
	{"store", []string{"store/...", "uring/..."}, []string{"golang.org/x/sys"}},
	{"ha", []string{"ha/...", "uring/...", "netio/wire", "store/record"}, []string{"golang.org/x/sys", "github.com/hashicorp/raft"}},
	{"node/topic", slices.Concat(words, disk), nil},
	{"node/group", slices.Concat(words, disk), nil},
	{"node/offset", slices.Concat(words, disk), nil},
	{"node/filter", nil, nil},
	{"node/cgroup", nil, nil},
	{"node/doctor", []string{"node/cgroup", "uring"}, []string{"golang.org/x/sys"}},
	{"node/config", slices.Concat(lower, tables), []string{"github.com/magiconair/properties", "golang.org/x/sys"}},
	{"node/metrics", slices.Concat(lower, tables), []string{"github.com/VictoriaMetrics/metrics"}},
	{"node/admin", slices.Concat(lower, tables), []string{"github.com/VictoriaMetrics/metrics"}},
	{"node/rpc", slices.Concat(lower, tables, []string{"node/filter", "node/pull", "node/lock"}), nil},
	{"node/nodetest", []string{"node/...", "netio/...", "store/...", "uring/..."}, nil},
	{"node", []string{"node/...", "netio/...", "store/...", "ha/...", "uring/..."}, []string{"golang.org/x/sys", "github.com/VictoriaMetrics/metrics"}},
	{"perf", []string{"perf/...", "netio/wire", "netio/remoting", "store/record"}, []string{"github.com/HdrHistogram", "github.com/panjf2000/gnet/v2", "golang.org/x/sys"}},
	{"cmd", []string{"cmd/...", "node/...", "netio/wire", "netio/remoting", "store/...", "perf/..."}, []string{"github.com/spf13/cobra", "github.com/HdrHistogram", "golang.org/x/sys"}},
}

// services of node that no other service may import: each is buildable alone in a test.
func init() {
	for _, s := range []string{"node/pull", "node/lock", "node/delay", "node/namesrv", "node/register"} {
		at := slices.IndexFunc(rooms, func(r room) bool { return r.folder == "node" })
		rooms = slices.Insert(rooms, at, room{s, slices.Concat(lower, tables), nil})
	}
}

// TestArrowsPointDown fails on an import that points up or sideways in the map of the repository.
func TestArrowsPointDown(t *testing.T) {
	seen := 0
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipForeign(file, d)
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		seen++
		pkg := path.Dir(filepath.ToSlash(strings.TrimPrefix(file, ".."+string(filepath.Separator))))
		for _, bad := range badImports(t, file, pkg) {
			t.Errorf("%s imports %s, which its room (%s) may not", file, bad, roomOf(pkg).folder)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen == 0 {
		t.Fatal("no Go file was looked at")
	}
}

// TestArrowsSeeAnUpwardImport proves that the check above can fail.
func TestArrowsSeeAnUpwardImport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "up.go")
	src := "package wire\nimport (\n\"ringmq/node\"\n\"os\"\n\"github.com/spf13/cobra\"\n\"strings\"\n)\n"
	if err := os.WriteFile(file, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	got := badImports(t, file, "netio/wire")
	if want := []string{"ringmq/node", "os", "github.com/spf13/cobra"}; !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
}

// skipForeign leaves out hidden folders, test data and nested modules, which have rules of their own.
func skipForeign(dir string, d fs.DirEntry) error {
	if dir == ".." {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") {
		return filepath.SkipDir
	}
	return nil
}

func roomOf(pkg string) room {
	for _, r := range rooms {
		if within(pkg, r.folder) {
			return r
		}
	}
	return room{folder: "none: add a row for " + pkg}
}

// badImports returns the imports of file, which belongs to package pkg, that its room does not allow.
func badImports(t *testing.T, file, pkg string) (bad []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	r := roomOf(pkg)
	for _, spec := range f.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if !r.allows(name) {
			bad = append(bad, name)
		}
	}
	return bad
}

func (r room) allows(name string) bool {
	if ours, ok := strings.CutPrefix(name, module); ok {
		return slices.ContainsFunc(r.ours, func(pattern string) bool {
			if top, ok := strings.CutSuffix(pattern, "/..."); ok {
				return within(ours, top)
			}
			return ours == pattern
		})
	}
	if !strings.Contains(strings.SplitN(name, "/", 2)[0], ".") { // the standard library
		return !r.isWords() || !slices.Contains([]string{"os", "net", "net/http", "syscall", "os/exec", "io/fs"}, name)
	}
	return slices.ContainsFunc(r.others, func(top string) bool { return within(name, top) })
}

// isWords tells the packages that do no I/O, so that everyone may import them.
func (r room) isWords() bool { return slices.Contains(words, r.folder) }

func within(name, top string) bool { return name == top || strings.HasPrefix(name, top+"/") }
