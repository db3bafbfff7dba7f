package store

import (
	"errors"
	"testing"

	"ringmq/store/record"
	"ringmq/store/vfs/memfs"
)

// FuzzRecover writes bytes over files of a store and opens it: it may refuse, but never panics, and
// serves no bytes that are no record.
func FuzzRecover(f *testing.F) {
	f.Add(uint8(0), uint32(12000), []byte{0, 1, 2})
	f.Add(uint8(0), uint32(20), []byte{0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}) // a queue offset
	f.Add(uint8(0), uint32(12034), []byte{0, 0, 0, 91, 0xda, 0xa3, 0x20, 0xa7})
	f.Add(uint8(1), uint32(0), []byte{0xff, 0, 0, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff})
	f.Add(uint8(2), uint32(40), []byte{0, 0, 0, 0, 0, 0, 0x20})
	files := []string{"/commitlog/00000000000000000000", "/consumequeue/TopicPlain/0/00000000000000000000", "/checkpoint", "/abort"}
	f.Fuzz(func(t *testing.T, file uint8, at uint32, data []byte) {
		fsys := memfs.New(1)
		unpack(t, fsys, "plain")
		name := files[int(file)%len(files)]
		h, err := fsys.Open(name)
		if err != nil {
			if h, err = fsys.Create(name); err != nil {
				t.Fatal(err)
			}
		}
		size, err := h.Size()
		if err != nil {
			t.Fatal(err)
		}
		if size > 0 && int64(at)%size+int64(len(data)) > size {
			t.Skip("changes the length of the file: not what is tried here")
		}
		if _, err := h.WriteAt(data, int64(at)%max(size, 1)); err != nil {
			t.Fatal(err)
		}
		s := newHarness(t)
		if err := s.open(fsys, Options{Dir: "/"}); err != nil {
			return
		}
		defer s.Close()
		s.Queues(func(q *Queue) { readAll(t, s, q) })
	})
}

// readAll reads a queue from end to end; all of it must be records.
func readAll(t *testing.T, h *harness, q *Queue) {
	t.Helper()
	var got Got
	var r record.Record
	for at := q.Min(); at < q.Max(); {
		if err := h.Get(q, Get{Offset: at, MaxCount: 32, MaxBytes: 1 << 20}, &got); err != nil {
			t.Fatal(err)
		}
		if got.Next <= at {
			t.Fatalf("%s/%d@%d: next is %d", q.Topic(), q.ID(), at, got.Next)
		}
		at = got.Next
		for _, run := range got.Runs {
			b := make([]byte, run.Bytes)
			if err := h.ReadAt(b, run.Offset); err != nil {
				t.Fatal(err)
			}
			if err := record.Parse(b, &r); errors.Is(err, record.ErrTorn) || errors.Is(err, record.ErrBlank) || errors.Is(err, record.ErrEmpty) {
				t.Fatalf("%s/%d: at %d: %v", q.Topic(), q.ID(), run.Offset, err)
			}
		}
	}
}
