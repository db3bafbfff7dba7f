package queue

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"testing"

	"ringmq/store/vfs"
	"ringmq/store/vfs/memfs"
)

// seeds are the first entries of queues of a stock broker 5.5.0: with tags, delayed, with places in
// consumequeue_ext, and fillers before a first one.
var seeds = []string{
	"0000000000000000000000ff0000000000000000" + "00000000000001fd000000ff0000000004cd5847",
	"000000000000000000000100000001975d1b3c40",
	"0000000000000000000000fe8000000000000000" + "00000000000001fd000000ff8000000000000022",
	"00000000000000007fffffff0000000000000000" + "00000000000000000000012c0000000000000000",
}

// FuzzAttach opens a queue of two files that hold any bytes. Whatever they are, it opens or tells a gap, no
// entry at or beyond the confirmed end is left, what is kept is what was there, and it goes on.
func FuzzAttach(f *testing.F) {
	for _, seed := range seeds {
		b, err := hex.DecodeString(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, int64(400), true)
		f.Add(bytes.Repeat(b, testFileBytes/len(b)+1), int64(1<<40), false)
	}
	f.Fuzz(func(t *testing.T, b []byte, confirmed int64, trim bool) {
		if confirmed < 0 {
			return
		}
		fsys := memfs.New(1)
		whole := make([]byte, 2*testFileBytes)
		copy(whole, b)
		writeQueue(t, fsys, whole)
		found, err := List(fsys, "/q")
		if err != nil || len(found) != 1 {
			t.Fatalf("%+v %v", found, err)
		}
		q, err := Attach(NewFiles(fsys, testFileBytes, 10), "/q", found[0], confirmed, trim)
		if errors.Is(err, ErrGap) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		all := entries(t, q)
		if !bytes.Equal(all, whole[:len(all)]) {
			t.Fatalf("kept %x of %x", all, whole)
		}
		if n := q.Max(); n > 0 {
			if e, ok, err := q.Entry(n - 1); err != nil || !ok || !e.Valid() || !e.PreBlank() && e.Offset >= confirmed {
				t.Fatalf("last entry %+v %v %v, confirmed up to %d", e, ok, err, confirmed)
			}
		}
		if err := q.FixMin(0); err != nil {
			t.Fatal(err)
		}
		goOn(t, q, all)
	})
}

// writeQueue makes the files of queue T/3, the second only if it holds something.
func writeQueue(t *testing.T, fsys vfs.FS, whole []byte) {
	t.Helper()
	if err := fsys.MkdirAll("/q/T/3"); err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(whole); at += testFileBytes {
		part := whole[at : at+testFileBytes]
		if at > 0 && !slices.ContainsFunc(part, func(c byte) bool { return c != 0 }) {
			return
		}
		file, err := fsys.Create(fmt.Sprintf("/q/T/3/%020d", at))
		if err == nil {
			_, err = file.WriteAt(part, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// entries reads all of a queue.
func entries(t *testing.T, q *Queue) (all []byte) {
	t.Helper()
	buf := make([]byte, 7*EntryBytes)
	for at := int64(0); at < q.Max(); {
		n, err := q.Read(buf, at)
		if err != nil || n == 0 {
			t.Fatalf("read at %d of %d: %d %v", at, q.Max(), n, err)
		}
		all = append(all, buf[:n*EntryBytes]...)
		at += int64(n)
	}
	return all
}

// goOn puts entries behind what is there and wants all of it.
func goOn(t *testing.T, q *Queue, before []byte) {
	t.Helper()
	want := before
	for range 2 * testFileBytes / EntryBytes {
		e := testEntry(q.Max())
		want = e.Append(want)
		if _, err := q.Put(q.Max(), e); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := q.Write(); err != nil {
		t.Fatal(err)
	}
	if got := entries(t, q); !bytes.Equal(got, want) {
		t.Fatalf("went on to %x, want %x", got, want)
	}
}
