package queue

import (
	"errors"
	"math/rand/v2"
	"testing"

	"ringmq/store/vfs/memfs"
)

const testFileBytes = 10 * EntryBytes

func testEntry(at int64) Entry { return Entry{Offset: at * 100, Size: 100, Tags: -at} }

func fill(t *testing.T, q *Queue, from, to int64) {
	t.Helper()
	for at := from; at < to; at++ {
		if _, err := q.Put(at, testEntry(at)); err != nil {
			t.Fatal(err)
		}
	}
}

func check(t *testing.T, q *Queue, from, to int64) {
	t.Helper()
	if q.Max() != to {
		t.Errorf("ends at %d, want %d", q.Max(), to)
	}
	for at := from; at < to; at++ {
		if e, ok, err := q.Entry(at); err != nil || !ok || e != testEntry(at) {
			t.Errorf("entry %d: %+v %v %v", at, e, ok, err)
		}
	}
}

// TestModel puts, writes, reads and opens again at random; a queue is an array, and says so.
func TestModel(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		fsys := memfs.New(seed)
		files := NewFiles(fsys, testFileBytes, 2)
		q, end := New(files, "/q", "T", 3), int64(0)
		for range 60 {
			switch rng.IntN(4) {
			case 0, 1:
				n := rng.Int64N(15)
				fill(t, q, end, end+n)
				end += n
			case 2:
				if _, err := q.Write(); err != nil {
					t.Fatal(err)
				}
			case 3: // the log confirms a part of it, and gives the rest again
				if _, err := q.Write(); err != nil {
					t.Fatal(err)
				}
				end = rng.Int64N(end + 1)
				q = reopen(t, files, end)
				check(t, q, 0, end)
			}
			buf := make([]byte, 12*EntryBytes)
			if end > 0 {
				from := rng.Int64N(end)
				n, err := q.Read(buf, from)
				if want := min(12, int(end-from)); err != nil || n != want { // wherever files and the tail end
					t.Fatalf("seed %d: read at %d of %d: %d entries, want %d; %v", seed, from, end, n, want, err)
				}
				for i := range n {
					if e := Parse(buf[i*EntryBytes:]); e != testEntry(from+int64(i)) {
						t.Fatalf("seed %d: entry %d is %+v", seed, from+int64(i), e)
					}
				}
			}
		}
		check(t, q, 0, end)
	}
}

// reopen opens the queue with the entries below confirmed, and the files behind them gone.
func reopen(t *testing.T, files *Files, confirmed int64) *Queue {
	t.Helper()
	found, err := List(files.FS, "/q")
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		return New(files, "/q", "T", 3)
	}
	if len(found) > 1 || found[0].Topic != "T" || found[0].ID != 3 {
		t.Fatalf("found %+v", found)
	}
	q, err := Attach(files, "/q", found[0], confirmed*100, true)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// TestBeginsLate: a queue whose first message is not the first of a file has fillers before it, which are
// never within its bounds, also after it was opened again.
func TestBeginsLate(t *testing.T) {
	files := NewFiles(memfs.New(1), testFileBytes, 10)
	q := New(files, "/q", "T", 3)
	fill(t, q, 23, 27)
	if _, err := q.Write(); err != nil {
		t.Fatal(err)
	}
	check(t, q, 23, 27)
	if q.Min() != 23 {
		t.Errorf("begins at %d", q.Min())
	}
	q = reopen(t, files, 100)
	if err := q.FixMin(0); err != nil {
		t.Fatal(err)
	}
	check(t, q, 23, 27)
	if q.Min() != 23 {
		t.Errorf("opened again: begins at %d", q.Min())
	}
	if err := q.FixMin(2500); err != nil || q.Min() != 25 {
		t.Errorf("log begins at 2500: queue begins at %d, %v", q.Min(), err)
	}
	if err := q.FixMin(1 << 40); err != nil || q.Min() != 27 {
		t.Errorf("log begins behind: queue begins at %d, %v", q.Min(), err)
	}
}

// TestGap: an offset beyond the end is told, one below it is a duplicate.
func TestGap(t *testing.T) {
	q := New(NewFiles(memfs.New(1), testFileBytes, 10), "/q", "T", 3)
	fill(t, q, 0, 5)
	if _, err := q.Put(7, testEntry(7)); !errors.Is(err, ErrGap) {
		t.Errorf("put 7 behind 4: %v", err)
	}
	if _, err := q.Put(2, testEntry(99)); err != nil {
		t.Errorf("put 2 again: %v", err)
	}
	check(t, q, 0, 5)
	if _, err := q.PutBeyond(7, testEntry(7)); err != nil {
		t.Fatal(err)
	}
	if e, _, _ := q.Entry(6); !e.Filler() || q.Max() != 8 {
		t.Errorf("hole is %+v, end %d", e, q.Max())
	}
}
