package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ringmq/store/record"
	"ringmq/store/vfs"
	"ringmq/store/vfs/faultfs"
	"ringmq/store/vfs/memfs"
)

// TestStoreTimeNeverGoesBack: a clock that is set back does not make store times go back, also over a
// restart.
func TestStoreTimeNeverGoesBack(t *testing.T) {
	var now atomic.Int64 // the index asks for the time too
	now.Store(1000)
	fsys, o := memfs.New(1), tinyOptions("/s")
	o.Now = func() time.Time { return time.UnixMilli(now.Load()) }
	h := openTest(t, fsys, o)
	var times []int64
	send := func() {
		puts := []Put{h.put("T", 0, []byte("x"))}
		if !h.send(puts...) {
			t.Fatal(h.Err())
		}
		times = append(times, puts[0].StoreMs)
	}
	send()
	now.Store(400)
	send()
	if got := h.Stats().ClockBackMs; got != 600 {
		t.Errorf("clock back by %d", got)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h = openTest(t, fsys, o)
	defer h.Close()
	send()
	now.Store(2000)
	send()
	if want := []int64{1000, 1000, 1000, 2000}; fmt.Sprint(times) != fmt.Sprint(want) {
		t.Errorf("store times %v, want %v", times, want)
	}
}

// TestWatch: a watched queue is reported once, after its messages are shown and before the marks are.
func TestWatch(t *testing.T) {
	var events []string
	var h *harness
	o := tinyOptions("/s")
	o.OnArrive = func(q *Queue) {
		events = append(events, fmt.Sprintf("%s/%d max=%d visible=%v", q.Topic(), q.ID(), q.Max(), h.Marks().Visible > 0))
	}
	h = openTest(t, memfs.New(1), o)
	h.OpenQueue("T", 1).Watch()
	for range 2 {
		if !h.send(h.put("T", 0, []byte("x")), h.put("T", 1, []byte("y"))) {
			t.Fatal(h.Err())
		}
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(events) != "[T/1 max=1 visible=true]" {
		t.Errorf("events %v", events)
	}
}

// TestFailureIsFinal: after a flush that failed nothing is acknowledged or taken, and what was visible is
// still read; the next process finds it too.
func TestFailureIsFinal(t *testing.T) {
	disk := memfs.New(1)
	power := faultfs.Wrap(disk)
	o := tinyOptions("/s")
	var failed error
	o.FlushDepth = 1
	h := openTest(t, power, o)
	if !h.send(h.put("T", 0, []byte("good"))) {
		t.Fatal(h.Err())
	}
	power.FailIn("/commitlog/", 1, 1, syscall.EIO) // after the write: the flush
	if h.send(h.put("T", 0, []byte("bad"))) {
		t.Error("acknowledged after a failed flush")
	}
	if failed = h.Err(); !errors.Is(failed, ErrFailed) || !errors.Is(failed, syscall.EIO) {
		t.Errorf("failed with %v", failed)
	}
	if err := h.Reserve(100); !errors.Is(err, ErrFailed) {
		t.Errorf("reserve: %v", err)
	}
	if got := h.body("T", 0, 0); string(got) != "good" {
		t.Errorf("read %q", got)
	}
	if q := h.Queue("T", 0); q.Max() != 1 {
		t.Errorf("queue shows %d messages", q.Max())
	}
	if err := h.Close(); !errors.Is(err, ErrFailed) {
		t.Errorf("close: %v", err)
	}
	h = openTest(t, disk, o)
	defer h.Close()
	if got := h.body("T", 0, 0); string(got) != "good" {
		t.Errorf("after a restart: %q", got)
	}
}

// TestQueueWriteFails: entries that cannot be written stay readable; sends are refused until they can.
func TestQueueWriteFails(t *testing.T) {
	power := faultfs.Wrap(memfs.New(1))
	o := tinyOptions("/s")
	o.QueueFlushInterval, o.checkpointBytes, o.SegmentBytes = time.Millisecond, 4<<10, 1<<20
	h := openTest(t, power, o)
	defer h.Close()
	power.FailIn("/consumequeue/", 0, 3, syscall.ENOSPC)
	if !h.send(h.put("T", 0, bytes.Repeat([]byte("x"), 5<<10))) {
		t.Fatal(h.Err())
	}
	for h.keeper.Err() == nil {
		runtime.Gosched()
	}
	if err := h.Reserve(100); err != nil && !errors.Is(err, ErrNoSpace) { // it may have been repaired since
		t.Errorf("reserve: %v", err)
	}
	if got := h.body("T", 0, 0); len(got) != 5<<10 {
		t.Errorf("read %d bytes", len(got))
	}
	for h.Stats().Checkpoint == 0 {
		runtime.Gosched()
	}
	for h.keeper.Err() != nil {
		runtime.Gosched()
	}
	if !h.send(h.put("T", 0, []byte("y"))) {
		t.Fatal(h.Err())
	}
}

// lossy is a file system that, once told, loses what queue files have, and says so once to each who asks.
type lossy struct {
	vfs.FS
	on atomic.Bool
}

func (l *lossy) Open(name string) (vfs.File, error)   { return l.wrap(l.FS.Open(name)) }
func (l *lossy) Create(name string) (vfs.File, error) { return l.wrap(l.FS.Create(name)) }

func (l *lossy) wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil || !strings.Contains(f.Name(), "/consumequeue/") {
		return f, err
	}
	return &lossyFile{File: f, fs: l}, nil
}

func (l *lossy) Volume(dir string) (vfs.Volume, error) {
	v, err := l.FS.Volume(dir)
	return &lossyVolume{Volume: v, fs: l}, err
}

type lossyFile struct {
	vfs.File
	fs   *lossy
	told bool
}

func (f *lossyFile) Sync() error { return f.fs.sync(&f.told, f.File.Sync) }

type lossyVolume struct {
	vfs.Volume
	fs   *lossy
	told bool
}

func (v *lossyVolume) Sync() error { return v.fs.sync(&v.told, v.Volume.Sync) }

func (l *lossy) sync(told *bool, real func() error) error {
	switch {
	case !l.on.Load():
		return real()
	case !*told:
		*told = true
		return syscall.EIO
	}
	return nil
}

// TestQueueSyncFails: a sync of queue files that failed is not tried again, because the second would say that
// all is well. No checkpoint follows; the next process makes the entries again.
func TestQueueSyncFails(t *testing.T) {
	for _, few := range []int{1, 64} { // by a syncfs, and one by one
		disk := memfs.New(1)
		bad := &lossy{FS: disk}
		o := tinyOptions("/s")
		o.QueueFlushInterval, o.checkpointBytes, o.SegmentBytes, o.fewQueues = time.Millisecond, 8<<10, 1<<20, few
		h := openTest(t, bad, o)
		for i := range 2 {
			if !h.send(h.put("T", int32(i), []byte("x"))) {
				t.Fatal(h.Err())
			}
		}
		before := h.Stats().Checkpoint
		bad.on.Store(true)
		if !h.send(h.put("T", 0, bytes.Repeat([]byte("y"), 5<<10)), h.put("T", 1, bytes.Repeat([]byte("z"), 5<<10))) {
			t.Fatal(h.Err())
		}
		for h.keeper.Err() == nil && h.Stats().Checkpoint == before {
			runtime.Gosched()
		}
		if !errors.Is(h.keeper.Err(), syscall.EIO) || h.Stats().Checkpoint != before {
			t.Errorf("few=%d: %v, checkpoint at %d, was at %d", few, h.keeper.Err(), h.Stats().Checkpoint, before)
		}
		if err := h.Reserve(100); !errors.Is(err, ErrNoSpace) {
			t.Errorf("reserve: %v", err)
		}
		if err := h.Close(); !errors.Is(err, syscall.EIO) {
			t.Errorf("close: %v", err)
		}
		h = openTest(t, disk.Crash(rand.New(rand.NewPCG(1, 1)), 0), o)
		if got := len(h.body("T", 0, 1)); got != 5<<10 {
			t.Errorf("few=%d: after a power cut: %d bytes", few, got)
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGetStopsWhereAsked: counts, bytes and filters.
func TestGetStopsWhereAsked(t *testing.T) {
	o := tinyOptions("/s")
	o.QueueFileBytes = 60_000
	h := openTest(t, memfs.New(1), o)
	defer h.Close()
	const n = 1000
	for i := 0; i < n; i += 20 {
		var puts []Put
		for j := range 20 {
			p := h.put("T", 0, []byte("x"))
			p.Props = fmt.Appendf(nil, "TAGS\x01%d\x02", (i+j)%2)
			p.Bytes, _ = h.RecordBytes(&p.Message)
			puts = append(puts, p)
		}
		if !h.send(puts...) {
			t.Fatal(h.Err())
		}
	}
	odd := func(code int64) bool { return code == record.TagsCode([]byte("1")) }
	one := h.put("T", 0, []byte("x")).Bytes
	for _, tc := range []struct {
		get         Get
		status      Status
		count, runs int
		next        int64
	}{
		{Get{Offset: 0, MaxCount: 10, MaxBytes: 1 << 20}, Found, 10, 1, 10},
		{Get{Offset: 5, MaxCount: 10, MaxBytes: 3*one + 1}, Found, 3, 1, 8},
		{Get{Offset: 5, MaxCount: 10, MaxBytes: 1}, Found, 1, 1, 6},
		{Get{Offset: 0, MaxCount: 3, MaxBytes: 1 << 20, Match: odd}, Found, 3, 3, 6},
		{Get{Offset: 0, MaxCount: 10, MaxBytes: 1 << 20, Match: func(int64) bool { return false }}, NoMatchedMessage, 0, 0, 800},
		{Get{Offset: n - 1, MaxCount: 10, MaxBytes: 1 << 20}, Found, 1, 1, n},
		{Get{Offset: n, MaxCount: 1}, OffsetOverflowOne, 0, 0, n},
		{Get{Offset: n + 1, MaxCount: 1}, OffsetOverflowBadly, 0, 0, n},
		{Get{Offset: -1, MaxCount: 1}, OffsetTooSmall, 0, 0, 0},
	} {
		var got Got
		if err := h.Get(h.Queue("T", 0), tc.get, &got); err != nil {
			t.Fatal(err)
		}
		if got.Status != tc.status || got.Count != tc.count || len(got.Runs) != tc.runs || got.Next != tc.next {
			t.Errorf("%+v: %v, %d messages in %d runs, next %d; want %v, %d, %d, %d", tc.get, got.Status, got.Count, len(got.Runs), got.Next, tc.status, tc.count, tc.runs, tc.next)
		}
	}
	var got Got
	if err := h.Get(nil, Get{}, &got); err != nil || got.Status != NoMatchedLogicQueue {
		t.Errorf("no queue: %v %v", got.Status, err)
	}
	if err := h.Get(h.OpenQueue("T", 9), Get{}, &got); err != nil || got.Status != NoMessageInQueue {
		t.Errorf("new queue: %v %v", got.Status, err)
	}
}

// TestEntriesThatPointNowhere: entries of a damaged queue file are not served, whatever they say.
func TestEntriesThatPointNowhere(t *testing.T) {
	fsys := memfs.New(1)
	unpack(t, fsys, "roll")
	f, err := fsys.Open("/consumequeue/RollA/0/00000000000000000000")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0, 0, 0, 0, 0, 0, 2, 1}, 3*20); err != nil { // entry 3 points to 513
		t.Fatal(err)
	}
	h := openTest(t, fsys, Options{Dir: "/"})
	defer h.Close()
	var got Got
	for _, tc := range []struct {
		from   int64
		max    int
		status Status
		count  int
	}{{3, 1, Found, 1}, {2, 3, Found, 3}} {
		if err := h.Get(h.Queue("RollA", 0), Get{Offset: tc.from, MaxCount: tc.max, MaxBytes: 1 << 20}, &got); err != nil {
			t.Fatal(err)
		}
		for _, at := range runRecords(t, h, &got) {
			if at == 513 {
				t.Errorf("served bytes at %d, where no record begins", at)
			}
		}
		if got.Status != tc.status || got.Count != tc.count {
			t.Errorf("from %d: %v, %d messages", tc.from, got.Status, got.Count)
		}
	}
}

// TestDamageKeepsACopy: whole records behind a damaged one are cut with it, as a stock broker does, but
// they are counted and kept.
func TestDamageKeepsACopy(t *testing.T) {
	fsys := memfs.New(1)
	unpack(t, fsys, "tornmid")
	h := openTest(t, fsys, Options{Dir: "/", OnDamage: CutOnDamage})
	defer h.Close()
	found := h.Stats().Recovered
	if found.CutValid != 7 || found.CutFile == "" {
		t.Fatalf("%+v, want 7 whole records and a copy", found)
	}
	b := readFile(t, fsys, found.CutFile)
	if int64(len(b)) != found.CutBytes {
		t.Errorf("the copy has %d bytes, %d were cut", len(b), found.CutBytes)
	}
	last := b[len(b)-266:] // as the archive's description says of the last record
	var r record.Record
	if err := record.Verify(last, found.End+found.CutBytes-266, &r); err != nil {
		t.Errorf("the last record of the copy: %v", err)
	}
}
