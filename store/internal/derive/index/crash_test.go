package index

import (
	"errors"

	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ringmq/store/vfs"
	"ringmq/store/vfs/faultfs"
	"ringmq/store/vfs/memfs"
)

const neverCut = 1 << 30

// seeds is how many random runs there are.
func seeds() uint64 {
	if os.Getenv("RINGMQ_PROVE") != "" {
		return 5000
	}
	return 200
}

// TestCrashAtEveryCall cuts the power at every disk call of a run that begins with an index of a few
// files.
func TestCrashAtEveryCall(t *testing.T) {
	for seed := range 2 + seeds()/100 {
		k := 0
		for ; ; k++ {
			w := newWorld(t, seed)
			w.must(w.live(neverCut, w.more))
			cut, err := w.live(k, w.much)
			w.must(cut, err)
			for range 2 {
				w.crash()
				w.must(w.live(neverCut, w.more))
			}
			if !cut {
				break
			}
		}
		if k < 10 {
			t.Errorf("seed %d: the run made only %d calls", seed, k)
		}
	}
}

func (w *world) must(_ bool, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// manyLives is a chain of lives, most of which end somewhere.
func manyLives(w *world) error {
	for range 8 {
		k := w.rng.IntN(60)
		if w.rng.IntN(4) == 0 {
			k = neverCut
		}
		if _, err := w.live(k, w.more); err != nil {
			return err
		}
		w.crash()
	}
	_, err := w.live(neverCut, w.more)
	return err
}

// TestCrashes cuts the power in one life after the other, each of which works on what the one before
// left.
func TestCrashes(t *testing.T) {
	for seed := range seeds() {
		if err := manyLives(newWorld(t, seed)); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// TestEverySyncIsNeeded: with any one sync that only says it did something, a crash breaks a promise.
func TestEverySyncIsNeeded(t *testing.T) {
	sites := map[string]bool{}
	for seed := range uint64(20) {
		w := newWorld(t, seed)
		if err := manyLives(w); err != nil {
			t.Fatal(err)
		}
		for site := range w.sites {
			sites[site] = true
		}
	}
	want := []string{
		"index.(*Index).flushEntries:sync", "index.(*Index).flushHead:sync", "index.(*Index).flushSlots:sync",
		"index.(*Index).prepare:sync", "index.(*Index).syncDir:syncdir", "vfs.MakeDir:syncdir",
	}
	for _, site := range want {
		if !sites[site] {
			t.Errorf("no sync at %s", site)
		}
		delete(sites, site)
		if seed, err := findLie(t, site); err == nil {
			t.Errorf("a lie at %s goes unnoticed", site)
		} else {
			t.Logf("%s: seed %d: %v", site, seed, err)
		}
	}
	if len(sites) > 0 {
		t.Errorf("more syncs: %v", sites)
	}
}

func findLie(t *testing.T, site string) (uint64, error) {
	for seed := range uint64(4000) {
		w := newWorld(t, seed)
		w.lie = site
		if err := manyLives(w); err != nil {
			return seed, err
		}
	}
	return 0, nil
}

// TestEveryCallFails: after a call that failed, the same Put or Flush can be called again, or the index
// has to be opened again; nothing is lost or doubled. A write may also have stopped half way.
func TestEveryCallFails(t *testing.T) {
	for _, short := range []bool{false, true} {
		reopened, k, calls := 0, 0, 1
		for ; k < calls; k++ {
			w := newWorld(t, 1)
			w.must(w.live(neverCut, w.more))
			faulty := faultfs.Wrap(w.disk)
			if short {
				faulty.ShortWriteAt(k, 30)
			} else {
				faulty.FailAt(k, syscall.EIO)
			}
			w.grow(200)
			reopened += w.putStubbornly(faulty)
			calls = faulty.Calls()
			w.disk = w.disk.Crash(w.rng, 0)
			w.promised = w.keyedBefore(w.end)
			w.must(w.live(neverCut, w.check))
		}
		t.Logf("short=%v: %d calls failed, opened again %d times", short, k, reopened)
		if k < 20 || reopened == 0 || reopened > k*2/3 {
			t.Errorf("short=%v: %d calls, opened again %d times", short, k, reopened)
		}
	}
}

// putStubbornly puts the whole log in and flushes, whatever happens once.
func (w *world) putStubbornly(fsys vfs.FS) (reopened int) {
	for {
		x, err := tryOpen(fsys, w.o)
		if err == nil {
			for _, r := range w.log {
				if err = x.Put(r); err != nil && x.failed == nil {
					err = x.Put(r)
				}
				if err != nil {
					break
				}
			}
			if err == nil {
				if err = x.Flush(); err != nil && x.failed == nil {
					err = x.Flush()
				}
			}
			if err == nil {
				w.must(false, errors.Join(w.check(x), x.Close()))
				return reopened
			}
			w.must(false, x.Close())
		}
		if reopened++; reopened > 1 || !strings.Contains(err.Error(), "store: ") {
			w.t.Fatalf("opened again %d times: %v", reopened, err)
		}
	}
}

// TestLostPages: a sync that fails leaves pages in the cache that the disk does not have, and the next
// sync says that all is well. Nothing is built on those.
func TestLostPages(t *testing.T) {
	for seed := range uint64(20) {
		for n := 0; ; n++ {
			w := newWorld(t, seed)
			w.must(w.live(neverCut, w.more))
			w.disk.FailSync(n, syscall.EIO)
			_, err := w.live(neverCut, func(x *Index) error {
				err := w.much(x)
				if err != nil && (x.Flush() == nil || x.Put(w.log[len(w.log)-1]) == nil) {
					t.Errorf("seed %d: goes on after %v", seed, err)
				}
				return err
			})
			if err != nil && !errors.Is(err, syscall.EIO) {
				t.Fatal(err)
			}
			if err == nil {
				if n < 3 {
					t.Errorf("seed %d: only %d syncs", seed, n)
				}
				break
			}
			w.must(w.live(neverCut, w.check)) // what it says to be complete to is a promise
			w.disk = w.disk.Crash(w.rng, 0)
			w.must(w.live(neverCut, w.more))
		}
	}
}

// TestDiskFull: a full disk stops the index, and it goes on when there is space again, without having been
// opened again.
func TestDiskFull(t *testing.T) {
	w := newWorld(t, 1)
	x := openTest(t, w.disk, w.o)
	w.grow(100)
	putAll(t, x, w.log)
	w.must(false, x.Flush())
	free := w.disk
	free.SetSpace(4096)
	w.grow(400)
	var full error
	i := 100
	for ; i < len(w.log) && full == nil; i++ {
		full = x.Put(w.log[i])
	}
	if !errors.Is(full, syscall.ENOSPC) {
		t.Fatalf("%d records, then %v", i, full)
	}
	if err := x.Put(w.log[i-1]); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("again: %v", err)
	}
	if got, err := x.Find(Query{Topic: "T", Key: "A", Tags: true, Max: 1000, EndMs: 1 << 60}); err != nil || len(got) == 0 {
		t.Errorf("found %d, %v", len(got), err)
	}
	free.SetSpace(0)
	putAll(t, x, w.log[i-1:])
	w.must(false, w.check(x))
}

// TestHalfARecord: a record whose keys are only partly there, at the end of one file or across two, is
// completed and nothing is doubled.
func TestHalfARecord(t *testing.T) {
	w := newWorld(t, 2)
	w.grow(150)
	x := openTest(t, w.disk, w.o)
	putAll(t, x, w.log)
	w.must(false, errors.Join(x.Flush(), w.check(x)))
	files := readFiles(t, w.disk)
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		last := x.files[i].head.count
		for count := max(last-15, 2); count <= last; count++ {
			disk := memfs.New(1)
			some := map[string][]byte{}
			for _, before := range names[:i] {
				some[before] = files[before]
			}
			some[name] = shorten(x.g, files[name], count)
			writeFiles(t, disk, some)
			again := openTest(t, disk, w.o)
			from := again.CompleteTo().Offset
			for _, r := range w.log {
				if r.PhysOffset >= from {
					putAll(t, again, w.log[slices.Index(w.log, r):])
					break
				}
			}
			if err := w.check(again); err != nil {
				t.Fatalf("file %d with %d entries: %v", i, count, err)
			}
			w.must(false, again.Close())
		}
	}
}

// shorten gives a file's head another count, with what belongs to it.
func shorten(g geometry, b []byte, count int32) []byte {
	b = slices.Clone(b)
	h := parseHead(b)
	h.count, h.endPhys = count, parseEntry(b[g.entryAt(count-1):]).phys
	h.append(b[:0])
	return b
}
