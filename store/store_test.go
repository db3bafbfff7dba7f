package store

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"path"
	"runtime"
	"sync"
	"testing"

	"ringmq/store/record"
	"ringmq/store/vfs"
	"ringmq/store/vfs/memfs"
	"ringmq/store/vfs/osfs"
)

var testHost = netip.MustParseAddrPort("127.0.0.1:10911")

// harness is an open store and a way to wait for its marks.
type harness struct {
	*Store
	t     testing.TB
	mu    sync.Mutex
	moved *sync.Cond
}

func openTest(t testing.TB, fsys vfs.FS, o Options) *harness {
	t.Helper()
	h := newHarness(t)
	if err := h.open(fsys, o); err != nil {
		t.Fatalf("open: %v", err)
	}
	return h
}

func newHarness(t testing.TB) *harness {
	h := &harness{t: t}
	h.moved = sync.NewCond(&h.mu)
	return h
}

func (h *harness) open(fsys vfs.FS, o Options) error {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.OnMarks = func(Marks) { h.wake() }
	o.OnFail = func(error) { h.wake() }
	s, err := Open(fsys, o)
	h.Store = s
	return err
}

func (h *harness) wake() {
	h.mu.Lock()
	h.moved.Broadcast()
	h.mu.Unlock()
}

// await waits until cond holds; it is asked again when marks move or the log fails.
func (h *harness) await(cond func() bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for !cond() {
		h.moved.Wait()
	}
}

// awaitIndex waits until all that is visible is in the index. It works on its own time.
func (h *harness) awaitIndex() {
	for h.Stats().Indexed < h.Marks().Visible {
		runtime.Gosched()
	}
}

// put makes a Put of a small message.
func (h *harness) put(topic string, id int32, body []byte) Put {
	p := Put{Queue: h.OpenQueue(topic, id), Message: record.Message{
		Topic: topic, QueueID: id, BornMs: 1, Born: testHost, Store: testHost,
		Body: body, BodyCRC: record.BodyCRC(body), Props: []byte("TAGS\x01a\x02"),
	}}
	n, err := h.RecordBytes(&p.Message)
	if err != nil {
		h.t.Fatalf("size: %v", err)
	}
	p.Bytes = n
	return p
}

// send appends and waits until all of it is visible; it returns false if the log has failed.
func (h *harness) send(puts ...Put) bool {
	total := 0
	for i := range puts {
		total += puts[i].Bytes
	}
	var err error
	h.await(func() bool {
		err = h.Reserve(total)
		return err != ErrBusy
	})
	if err != nil {
		return false
	}
	h.Append(puts)
	for i := range puts {
		if puts[i].Err != nil {
			return false
		}
	}
	end := puts[len(puts)-1].End
	h.await(func() bool { return h.Marks().Visible >= end || h.Err() != nil })
	return h.Marks().Visible >= end
}

// body reads the message at a queue offset.
func (h *harness) body(topic string, id int32, at int64) []byte {
	h.t.Helper()
	var got Got
	if err := h.Get(h.Queue(topic, id), Get{Offset: at, MaxCount: 1, MaxBytes: 1}, &got); err != nil {
		h.t.Fatalf("get %s/%d@%d: %v", topic, id, at, err)
	}
	if got.Status != Found {
		h.t.Fatalf("get %s/%d@%d: %v", topic, id, at, got.Status)
	}
	b := make([]byte, got.Runs[0].Bytes)
	if err := h.ReadAt(b, got.Runs[0].Offset); err != nil {
		h.t.Fatalf("read %s/%d@%d: %v", topic, id, at, err)
	}
	var r record.Record
	if err := record.Verify(b, got.Runs[0].Offset, &r); err != nil {
		h.t.Fatalf("record %s/%d@%d: %v", topic, id, at, err)
	}
	if r.QueueOffset != at || string(r.Topic) != topic || r.QueueID != id {
		h.t.Fatalf("record %s/%d@%d is of %s/%d@%d", topic, id, at, r.Topic, r.QueueID, r.QueueOffset)
	}
	return r.Body
}

func tinyOptions(dir string) Options {
	return Options{
		Dir: dir, SegmentBytes: 16 << 10, QueueFileBytes: 400, StagingBytes: 64 << 10,
		MaxMessageBytes: 8 << 10, FlushSync: true, FlushDepth: 2,
		IndexSlots: 1100, IndexEntries: 25, indexGather: -1,
	}
}

// TestAppendReopen writes through several segments and queue files, closes, and reads all of it again.
func TestAppendReopen(t *testing.T) {
	systems := map[string]func(*testing.T) (vfs.FS, string){
		"memfs": func(*testing.T) (vfs.FS, string) { return memfs.New(1), "/s" },
		"osfs":  func(t *testing.T) (vfs.FS, string) { return osfs.New(osfs.Options{}), path.Join(t.TempDir(), "s") },
	}
	for name, system := range systems {
		for _, flushSync := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/sync=%v", name, flushSync), func(t *testing.T) {
				fsys, dir := system(t)
				o := tinyOptions(dir)
				o.FlushSync = flushSync
				testAppendReopen(t, fsys, o)
			})
		}
	}
}

func testAppendReopen(t *testing.T, fsys vfs.FS, o Options) {
	const perQueue = 60
	body := func(q, i int) []byte { return bytes.Repeat([]byte{byte(q), byte(i)}, 300) }
	for round := range 3 {
		h := openTest(t, fsys, o)
		if q := h.Queue("T", 0); round > 0 && (q == nil || q.Max() != int64(round*perQueue)) {
			t.Fatalf("round %d: the queue is %+v", round, q)
		}
		for i := range perQueue {
			for q := range 3 {
				if !h.send(h.put("T", int32(q), body(q, round*perQueue+i))) {
					t.Fatalf("send: %v", h.Err())
				}
			}
		}
		for i := range perQueue * (round + 1) {
			for q := range 3 {
				if got := h.body("T", int32(q), int64(i)); !bytes.Equal(got, body(q, i)) {
					t.Fatalf("T/%d@%d: wrong body", q, i)
				}
			}
		}
		if err := h.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
	}
}
