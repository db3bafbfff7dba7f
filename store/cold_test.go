package store

import (
	"bytes"
	"errors"
	"log/slog"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"ringmq/store/internal/filename"
	"ringmq/store/record"
	"ringmq/store/vfs/faultfs"
	"ringmq/store/vfs/memfs"
	"ringmq/store/vfs/osfs"
	"ringmq/uring"
)

// pull reads what Get and Fetch, or the page cache, give for a pull: the bytes of all its messages.
func (h *harness) pull(q *Queue, g Get, got *Got) (body []byte, err error) {
	if err := h.Get(q, g, got); err != nil {
		return nil, err
	}
	if g.Access == Through {
		for _, r := range got.Runs {
			b := make([]byte, r.Bytes)
			if err := h.ReadAt(b, r.Offset); err != nil {
				return nil, err
			}
			body = append(body, b...)
		}
		return body, nil
	}
	lent, body, err := h.Fetch(got)
	for _, m := range lent {
		body = append(body, m.Bytes...)
		m.Release()
	}
	return body, err
}

// coldOptions are those of a store with segments of several pieces.
func coldOptions(dir string) Options {
	o := tinyOptions(dir)
	o.SegmentBytes, o.StagingBytes, o.MaxMessageBytes, o.QueueFileBytes = 768<<10, 1<<20, 64<<10, 40_000
	return o
}

// TestColdAsHot: what is read past the page cache is what would be read through it, message by message and status by status, with
// every filter, for entries of this process and of the one before.
func TestColdAsHot(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	disk := faultfs.Wrap(memfs.New(1))
	o := coldOptions("/s")
	h := openTest(t, disk, o)
	n := 0
	fill := func() {
		for range 300 {
			var puts []Put
			for range 4 {
				n++
				puts = append(puts, h.numbered(rng, "T", int32(n%3), n))
			}
			if !h.send(puts...) {
				t.Fatal(h.Err())
			}
		}
	}
	fill()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h = openTest(t, disk, o)
	defer h.Close()
	fill()
	disk.SetCold(true)
	gets := map[string]Get{
		"all":        {MaxCount: 8, MaxBytes: 64 << 10},
		"many":       {MaxCount: 100, MaxBytes: 4 << 20},
		"tags":       {MaxCount: 8, MaxBytes: 64 << 10, Match: func(code int64) bool { return code == record.TagsCode([]byte("a")) }},
		"properties": {MaxCount: 8, MaxBytes: 64 << 10, MatchProps: everyThird},
	}
	for name, g := range gets {
		var hot, past, not Got
		for id := range int32(3) {
			q := h.Queue("T", id)
			for g.Offset = 0; g.Offset <= q.Max(); g.Offset = hot.Next {
				g.Access = Through
				want, err := h.pull(q, g, &hot)
				if err != nil {
					t.Fatal(err)
				}
				g.Access = Past
				got, err := h.pull(q, g, &past)
				if err != nil {
					t.Fatal(err)
				}
				if past.Status != hot.Status || past.Next != hot.Next || past.Count != hot.Count || !bytes.Equal(got, want) {
					t.Fatalf("%s at %d of queue %d: %v, %d messages, next %d; through the cache %v, %d, %d", name, g.Offset, id,
						past.Status, past.Count, past.Next, hot.Status, hot.Count, hot.Next)
				}
				g.Access = NoWait // what was just read is still there
				if err := h.Get(q, g, &not); err != nil && !errors.Is(err, ErrCold) {
					t.Fatal(err)
				} else if err == nil {
					if lent, ok := h.Lookup(nil, &not); ok {
						h.compare(lent, want)
					}
				}
				if hot.Next == g.Offset {
					break
				}
			}
		}
	}
	if s := h.Stats(); s.ColdReads == 0 || s.ColdFound == 0 {
		t.Errorf("%+v", s)
	}
}

// compare checks lent bytes and releases them.
func (h *harness) compare(lent []uring.MemRange, want []byte) {
	h.t.Helper()
	var got []byte
	for _, m := range lent {
		got = append(got, m.Bytes...)
		m.Release()
	}
	if !bytes.Equal(got, want) {
		h.t.Fatalf("%d bytes are not those of %d", len(got), len(want))
	}
}

// TestNoWait: a Get that must not wait reads no byte of the log, nor of a queue's file, that is not in memory.
func TestNoWait(t *testing.T) {
	disk := faultfs.Wrap(memfs.New(1))
	o := coldOptions("/s")
	h := openTest(t, disk, o)
	for range 20 {
		h.send(h.put("T", 0, make([]byte, 5000)))
	}
	q := h.Queue("T", 0)
	g := Get{MaxCount: 8, MaxBytes: 64 << 10, Access: NoWait}
	var got Got
	disk.SetCold(true)
	// The entries are in memory, and known to be right: no byte of the log is needed to find the messages.
	if err := h.Get(q, g, &got); err != nil || got.Count != 8 {
		t.Fatalf("%v, %d messages", err, got.Count)
	}
	if h.Cached(&got) {
		t.Error("the messages count as cached")
	}
	if _, ok := h.Lookup(nil, &got); ok {
		t.Error("the messages are there although nobody has read them")
	}
	byProps := g
	byProps.MatchProps = func([]byte) bool { return true }
	if err := h.Get(q, byProps, &got); !errors.Is(err, ErrCold) {
		t.Errorf("a look at properties: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	disk.SetCold(false)
	h = openTest(t, disk, o)
	defer h.Close()
	q = h.Queue("T", 0)
	disk.SetCold(true)
	if err := h.Get(q, g, &got); !errors.Is(err, ErrCold) {
		t.Errorf("entries from a file: %v", err)
	}
	disk.SetCold(false)
	through := g
	through.Access = Through
	if err := h.Get(q, through, &got); err != nil { // opens the file
		t.Fatal(err)
	}
	if err := h.Get(q, g, &got); err != nil || got.Count != 8 || !h.Cached(&got) {
		t.Errorf("all is cached: %v, %d messages, cached %v", err, got.Count, h.Cached(&got))
	}
	disk.SetCold(true)
	if _, err := h.pull(q, Get{MaxCount: 8, MaxBytes: 64 << 10, Access: Past}, &got); err != nil {
		t.Fatal(err)
	}
	if lent, ok := h.Lookup(nil, &got); !ok {
		t.Error("what was just read is not there")
	} else {
		for _, m := range lent {
			m.Release()
		}
	}
}

// TestColdReadFails: a pull whose bytes cannot be read fails and says where; others go on, and so does the log.
func TestColdReadFails(t *testing.T) {
	disk := faultfs.Wrap(memfs.New(1))
	h := openTest(t, disk, coldOptions("/s"))
	defer h.Close()
	h.sendFiles(3)
	disk.SetCold(true)
	bad := filename.Of(h.o.SegmentBytes)
	disk.SetReads(func(name string, _ int64, _ int) error {
		if strings.HasSuffix(name, bad) {
			return unix.EIO
		}
		return nil
	})
	var got Got
	failed, served := 0, 0
	q := h.Queue("T", 0)
	for at := int64(0); at < q.Max(); at++ {
		_, err := h.pull(q, Get{Offset: at, MaxCount: 1, MaxBytes: 1, Access: Past}, &got)
		switch inBad := got.Runs[0].Offset/h.o.SegmentBytes == 1; {
		case err == nil && !inBad:
			served++
		case errors.Is(err, unix.EIO) && strings.Contains(err.Error(), "store: read") && inBad:
			failed++
		default:
			t.Fatalf("message %d at %d: %v", at, got.Runs[0].Offset, err)
		}
	}
	if failed == 0 || served == 0 || h.Err() != nil {
		t.Errorf("%d failed, %d served; the log: %v", failed, served, h.Err())
	}
	if n := h.Stats().ColdFailed; n == 0 {
		t.Error("no failure was counted")
	}
}

// TestRetentionDuringColdRead: a file goes while it is read. The read ends well, the file is closed after it and not used again
// before, and who comes later is told where the queue begins.
func TestRetentionDuringColdRead(t *testing.T) {
	disk := faultfs.Wrap(memfs.New(1))
	o := coldOptions("/s")
	o.Retention = Retention{MaxBytes: 2 * o.SegmentBytes}
	o.checkpointBytes, o.QueueFlushInterval = 1, 1
	h := openTest(t, disk, o)
	defer h.Close()
	h.sendFiles(4)
	h.awaitCheckpoint()
	q := h.Queue("T", 0)
	var want, got Got
	body, err := h.pull(q, Get{MaxCount: 8, MaxBytes: 64 << 10}, &want)
	if err != nil {
		t.Fatal(err)
	}
	disk.SetCold(true)
	begun, gate := make(chan struct{}), make(chan struct{})
	var once sync.Once
	disk.SetReads(func(string, int64, int) error {
		once.Do(func() { close(begun) })
		<-gate
		return nil
	})
	type answer struct {
		body []byte
		err  error
	}
	answered := make(chan answer)
	go func() {
		b, err := h.pull(q, Get{MaxCount: 8, MaxBytes: 64 << 10, Access: Past}, &got)
		answered <- answer{b, err}
	}()
	<-begun
	h.retainRound(t.Context())
	if h.MinOffset() == 0 {
		t.Fatal("nothing was removed")
	}
	if n := h.Stats().Recycled; n != 0 {
		t.Errorf("%d files were used again", n)
	}
	close(gate)
	if a := <-answered; a.err != nil || !bytes.Equal(a.body, body) {
		t.Errorf("%d bytes, want %d: %v", len(a.body), len(body), a.err)
	}
	if _, _, err := h.Fetch(&want); !errors.Is(err, ErrOffset) {
		t.Errorf("a pull that found its entries before: %v", err)
	}
	if _, err := h.pull(q, Get{MaxCount: 8, MaxBytes: 64 << 10, Access: Past}, &got); err != nil || got.Status != OffsetTooSmall || got.Next != q.Min() {
		t.Errorf("%v, next %d: %v; want where the queue begins, %d", got.Status, got.Next, err, q.Min())
	}
}

// TestColdOnDisk reads a log of the machine's own file system past the page cache, which is as it was before, and leaves no
// descriptor behind.
func TestColdOnDisk(t *testing.T) {
	o := coldOptions(path.Join(t.TempDir(), "s"))
	o.Log, o.NoIndex = slog.New(slog.DiscardHandler), true // the index reads new messages, on its own time and through the page cache
	fsys := osfs.New(osfs.Options{Log: o.Log})
	h := openTest(t, fsys, o)
	h.sendFiles(4)
	want := h.bodies()
	var dropped []int64
	for base := int64(0); base < 3*o.SegmentBytes; base += o.SegmentBytes {
		f, err := fsys.OpenRead(path.Join(o.Dir, "commitlog", filename.Of(base)))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.(interface{ DropCache() error }).DropCache(); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if !h.cached(base, int(o.SegmentBytes)) {
			dropped = append(dropped, base)
		}
	}
	if len(dropped) == 0 {
		t.Skip("this file system's pages stay in memory")
	}
	i := 0
	var got Got
	for id := range int32(2) {
		q := h.Queue("T", id)
		for at := int64(0); at < q.Max(); at = got.Next {
			body, err := h.pull(q, Get{Offset: at, MaxCount: 8, MaxBytes: 64 << 10, Access: Past}, &got)
			if err != nil {
				t.Fatal(err)
			}
			for len(body) > 0 {
				var r record.Record
				n := int(be32(body))
				if err := record.Parse(body[:n], &r); err != nil || string(r.Body) != want[i] {
					t.Fatalf("message %d of queue %d is another: %v", at, id, err)
				}
				body, i = body[n:], i+1
			}
		}
	}
	if i != len(want) {
		t.Errorf("%d messages, want %d", i, len(want))
	}
	for _, base := range dropped {
		if h.cached(base, 256<<10) {
			t.Errorf("the page cache has the segment at %d now", base)
		}
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if n := openFilesBelow(t, path.Join(o.Dir, "commitlog")); n != 0 {
		t.Errorf("%d descriptors of the log are open after Close", n)
	}
}
