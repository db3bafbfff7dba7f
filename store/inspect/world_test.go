package inspect

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"strings"
	"testing"

	"ringmq/store/vfs"
	"ringmq/store/vfs/memfs"
)

// unpack returns a file system whose root is the archived store directory.
func unpack(t testing.TB, archive string) *memfs.FS {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	fsys := memfs.New(1)
	for r := tar.NewReader(z); ; {
		head, err := r.Next()
		if err == io.EOF {
			return fsys
		}
		if err != nil {
			t.Fatal(err)
		}
		if head.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, fsys, path.Join("/", head.Name), data)
	}
}

// writeFile makes a file, or replaces it.
func writeFile(t testing.TB, fsys vfs.FS, name string, data []byte) {
	t.Helper()
	if err := fsys.MkdirAll(path.Dir(name)); err != nil {
		t.Fatal(err)
	}
	_ = fsys.Remove(name) // mostly it is not there
	f, err := fsys.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
}

func readFile(t testing.TB, fsys FS, name string) []byte {
	t.Helper()
	f, err := fsys.OpenRead(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, n)
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return b
}

func verify(t testing.TB, fsys FS, o Options) *Report {
	t.Helper()
	d, err := Open(fsys, o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := d.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// find returns the worst verdict on a file.
func find(t testing.TB, r *Report, file string) Verdict {
	t.Helper()
	worst, found := Verdict{}, false
	for _, v := range r.Verdicts {
		if v.File == file && (!found || v.Level > worst.Level) {
			worst, found = v, true
		}
	}
	if !found {
		t.Fatalf("no verdict on %s:\n%s", file, describe(r))
	}
	return worst
}

// describe lists what is not OK.
func describe(r *Report) string {
	var b strings.Builder
	for _, v := range r.Verdicts {
		if v.Level != OK {
			fmt.Fprintf(&b, "%v %v %s at %d: %s\n", v.Level, v.Kind, v.File, v.At, v.Text)
		}
	}
	return b.String()
}

// newRand is dice with a seed that is shown when the test fails.
func newRand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
