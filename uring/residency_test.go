package uring

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// coldFile makes a file of n bytes whose pages are on the disk and not in the cache. The kernel does not read ahead in it: pages
// that are on their way cannot be dropped.
func coldFile(t *testing.T, n int) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i / 512)
	}
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
	chill(t, f)
	return f
}

func chill(t *testing.T, f *os.File) {
	t.Helper()
	err := f.Sync()
	if err == nil {
		err = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	}
	if err != nil {
		t.Fatal(err)
	}
	if cached, err := cachestat(int(f.Fd()), 0, 0); err == nil && cached > 0 {
		t.Skip("the temporary directory is on a file system whose pages stay in the cache")
	}
}

// warm reads bytes through the page cache.
func warm(t *testing.T, f *os.File, off int64, n int) {
	t.Helper()
	if _, err := f.ReadAt(make([]byte, n), off); err != nil {
		t.Fatal(err)
	}
}

// TestCached: a range counts as cached when all of its pages are there, the partly covered ones at its ends too.
func TestCached(t *testing.T) {
	const page = 4096
	f := coldFile(t, 32*page)
	fd := int(f.Fd())
	if r, why := ProbeResidency(fd); r != ByCachestat {
		t.Skip(why)
	}
	chill(t, f)
	r := ByCachestat
	if r.Cached(fd, 0, 1) || r.Cached(fd, 3*page, 10*page) {
		t.Error("what was dropped counts as cached")
	}
	warm(t, f, 8*page, 4*page)
	for _, c := range []struct {
		off, n int64
		want   bool
	}{
		{8 * page, 4 * page, true}, {8*page + 100, 1, true}, {9*page - 1, 2, true},
		{8*page - 1, 2, false}, {12*page - 1, 2, false}, {0, 32 * page, false},
	} {
		if got := r.Cached(fd, c.off, c.n); got != c.want {
			t.Errorf("%d bytes at %d: cached %v, want %v", c.n, c.off, got, c.want)
		}
	}
	if NoResidency.Cached(fd, 8*page, page) {
		t.Error("a kernel that does not tell said yes")
	}
}

// TestCachedByNoWait is the same for the second way. It brings in what it misses, and a disk may be so quick that the bytes are
// there before the call returns: then yes is true. That is so for some pages at most.
func TestCachedByNoWait(t *testing.T) {
	const page, pages = 4096, 256
	f := coldFile(t, pages*page)
	fd := int(f.Fd())
	warm(t, f, 0, page)
	if _, err := readNoWait(fd, make([]byte, 1), 0); err != nil {
		t.Skip("no RWF_NOWAIT here: ", err)
	}
	chill(t, f)
	missing := 0
	for i := range int64(pages) {
		if !ByNoWait.Cached(fd, i*page, 1) {
			missing++
		}
	}
	if missing == 0 {
		t.Error("what was dropped counts as cached")
	}
	warm(t, f, 0, pages*page)
	if !ByNoWait.Cached(fd, 100, pages*page-100) {
		t.Error("what was read does not count as cached")
	}
}

// TestResidencyWithout: each way is chosen where the ones before it are refused. That a kernel refuses is what child processes
// with a seccomp filter are for, see store/internal/cold; here a descriptor that is none refuses all.
func TestResidencyWithout(t *testing.T) {
	r, why := ProbeResidency(1 << 20)
	if r != NoResidency || !errors.Is(why, unix.EBADF) {
		t.Errorf("%v, %v", r, why)
	}
	f, err := os.Open("/proc/version") // a file that is not in the page cache, whoever reads it
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	if r, why := ProbeResidency(int(f.Fd())); r != NoResidency || why == nil {
		t.Errorf("a file beside the page cache: %v, %v", r, why)
	}
	for r, want := range map[Residency]string{ByCachestat: "cachestat", ByNoWait: "preadv2(RWF_NOWAIT)", NoResidency: "none"} {
		if fmt.Sprint(r) != want {
			t.Errorf("%v is called %s", r, want)
		}
	}
}

func BenchmarkCached(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "f"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(make([]byte, 1<<20)); err != nil {
		b.Fatal(err)
	}
	for _, n := range []int64{4 << 10, 64 << 10, 256 << 10} {
		for _, r := range []Residency{ByCachestat, ByNoWait} {
			b.Run(fmt.Sprintf("%v/%d", r, n), func(b *testing.B) {
				for b.Loop() {
					if !r.Cached(int(f.Fd()), 0, n) {
						b.Fatal("not cached")
					}
				}
			})
		}
	}
}
