package inspect

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"ringmq/store/vfs"
	"ringmq/store/vfs/memfs"
	"ringmq/store/vfs/vfstest"
)

// unpack returns a file system whose root is the archived store directory.
func unpack(t testing.TB, archive string) *memfs.FS {
	t.Helper()
	fsys := memfs.New(1)
	vfstest.Unpack(t, fsys, archive)
	return fsys
}

// writeFile makes a file, or replaces it.
func writeFile(t testing.TB, fsys vfs.FS, name string, data []byte) {
	t.Helper()
	vfstest.WriteFile(t, fsys, name, data)
}

func readFile(t testing.TB, fsys FS, name string) []byte {
	t.Helper()
	return vfstest.ReadFile(t, fsys, name)
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
