package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ringmq/store/vfs"
	"ringmq/store/vfs/memfs"
)

// retainer is a store whose messages are as old as its clock says, and which fills files of 16 KiB.
type retainer struct {
	*harness
	disk *memfs.FS
	now  *time.Time
}

func newRetainer(t *testing.T, r Retention) *retainer { return openRetainer(t, r, true) }

func openRetainer(t *testing.T, r Retention, noIndex bool) *retainer {
	return newRetainerOn(t, r, noIndex, func(disk *memfs.FS) vfs.FS { return disk })
}

// newRetainerOn has the store see its disk as through wrap.
func newRetainerOn(t *testing.T, r Retention, noIndex bool, wrap func(*memfs.FS) vfs.FS) *retainer {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.Local)
	o := tinyOptions("/s")
	o.Retention = r
	o.QueueFlushInterval, o.checkpointBytes, o.NoIndex = time.Millisecond, 1, noIndex
	o.Now = func() time.Time { return now }
	disk := memfs.New(1)
	h := openTest(t, wrap(disk), o)
	t.Cleanup(func() { h.Close() })
	return &retainer{h, disk, &now}
}

// fill sends messages to two queues until n files of the log are full and a restart needs none of them.
func (r *retainer) fill(n int) {
	r.t.Helper()
	want := r.log.Min()/r.o.SegmentBytes + r.files() - 1 + int64(n)
	for i := 0; r.Marks().Visible <= want*r.o.SegmentBytes; i++ {
		if !r.send(r.put("T", int32(i%2), bytes.Repeat([]byte("x"), 2000))) {
			r.t.Fatal(r.Err(), r.Refusing())
		}
	}
	for r.keeper.Checkpointed() <= want*r.o.SegmentBytes {
		runtime.Gosched()
	}
}

// files is how many files the log has.
func (r *retainer) files() int64 { return max(r.Stats().LogBytes/r.o.SegmentBytes, 1) }

func (r *retainer) round() { r.retainRound(context.Background()) }

// until waits for what follows a removal: the space is given back a little later.
func (r *retainer) until(holds func(disk space) bool) {
	for !holds(r.lookAtDisk()) {
		runtime.Gosched()
	}
}

func (r *retainer) keeps(what string, files int64) {
	r.t.Helper()
	if got := r.files(); got != files {
		r.t.Fatalf("%s: the log has %d files, want %d", what, got, files)
	}
}

// TestRetainByAge: a file goes once the first message behind it is old enough, in the hours for that, or
// at any hour when the disk fills up.
func TestRetainByAge(t *testing.T) {
	r := newRetainer(t, Retention{Keep: 48 * time.Hour, Hours: []int{4}, UsedPercent: 75})
	r.fill(2)
	*r.now = r.now.Add(time.Hour)
	r.fill(2)
	*r.now = r.now.Add(47*time.Hour - time.Millisecond)
	r.round()
	r.keeps("too young, wrong hour", 5)
	*r.now = time.Date(2026, 5, 6, 4, 59, 0, 0, time.Local)
	r.round()
	r.keeps("too young", 5)
	*r.now = time.Date(2026, 5, 7, 3, 59, 0, 0, time.Local)
	r.round()
	r.keeps("wrong hour", 5)
	*r.now = time.Date(2026, 5, 6, 12, 30, 0, 0, time.Local)
	r.disk.SetSpace(200 << 10)
	if r.round(); r.Stats().DiskUsedPercent >= 75 {
		t.Fatalf("the disk is used to %d %%", r.Stats().DiskUsedPercent)
	}
	r.keeps("wrong hour, room on the disk", 5)
	r.disk.SetSpace(r.Stats().DiskUsedBytes + 4096)
	r.round()
	r.keeps("two files are old and the disk fills up", 3) // the first message of the fourth is young
	*r.now = time.Date(2026, 5, 7, 4, 0, 0, 0, time.Local)
	r.disk.SetSpace(0)
	r.round()
	r.keeps("all are old, it is four o'clock", 1)
	if s := r.Stats(); s.SegmentsRemoved != 4 || s.SegmentsForced != 0 {
		t.Errorf("%+v", s)
	}
}

// TestRetainBySize: as many files stay as fit the size; the newest always.
func TestRetainBySize(t *testing.T) {
	r := newRetainer(t, Retention{MaxBytes: 3*16<<10 + 1, BatchMax: 2})
	r.fill(6)
	r.keeps("before", 7)
	r.round()
	r.keeps("two files a round", 5)
	r.round()
	r.keeps("two files a round", 3)
	r.round()
	r.keeps("all in the size", 3)
}

// TestRetainDropsIndexFiles: index files that have only messages which are gone stayed until the next message came,
// minutes at least, and on a quiet node with a full disk for as long as it was quiet.
func TestRetainDropsIndexFiles(t *testing.T) {
	r := openRetainer(t, Retention{MaxBytes: 2 * 16 << 10}, false)
	for i := range 200 {
		p := r.put("T", 0, bytes.Repeat([]byte("x"), 500))
		p.Props = fmt.Appendf(nil, "KEYS\x01k%d\x02", i)
		var err error
		if p.Bytes, err = r.RecordBytes(&p.Message); err != nil || !r.send(p) {
			t.Fatal(err, r.Err())
		}
	}
	r.fill(1) // without keys
	r.awaitIndex()
	files := func() int {
		names, err := r.disk.List("/s/index")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	before := files()
	if before < 8 {
		t.Fatalf("%d files before", before)
	}
	r.round()
	r.keeps("after", 2)
	for end := time.Now().Add(time.Minute); files() > 2; runtime.Gosched() { // with messages of the last two files of the log
		if time.Now().After(end) {
			t.Fatalf("%d files of the index are still there", files())
		}
	}
}

// TestRetainMovesMinima: what is gone is answered as too small an offset, whole files of the queues go with it,
// and a restart finds the same.
func TestRetainMovesMinima(t *testing.T) {
	r := newRetainer(t, Retention{MaxBytes: 2 * 16 << 10})
	r.fill(40)
	last := r.body("T", 0, r.Queue("T", 0).Max()-1)
	for range 5 {
		r.round()
	}
	check := func() {
		t.Helper()
		r.keeps("after", 2)
		for id := range int32(2) {
			q := r.Queue("T", id)
			if q.Min() == 0 || q.Min() >= q.Max() {
				t.Fatalf("queue %d from %d to %d", id, q.Min(), q.Max())
			}
			var got Got
			if err := r.Get(q, Get{Offset: q.Min() - 1, MaxCount: 1}, &got); err != nil || got.Status != OffsetTooSmall || got.Next != q.Min() {
				t.Errorf("queue %d: %v, next %d, %v", id, got.Status, got.Next, err)
			}
			for at := q.Min(); at < q.Max(); at++ {
				r.body("T", id, at)
			}
			names, err := r.disk.List(fmt.Sprintf("/s/consumequeue/T/%d", id))
			if err != nil {
				t.Fatal(err)
			}
			if kept := q.Max()/20 - (q.Min()-1)/20 + 1; int64(len(names)) > kept {
				t.Errorf("queue %d from %d to %d has files %v", id, q.Min(), q.Max(), names)
			}
		}
		if got := r.body("T", 0, r.Queue("T", 0).Max()-1); !bytes.Equal(got, last) {
			t.Error("the last message has changed")
		}
	}
	check()
	if s := r.Stats(); s.QueueFilesRemoved == 0 || s.MinOffset != r.log.Min() {
		t.Errorf("%+v", s)
	}
	min := [2]int64{r.Queue("T", 0).Min(), r.Queue("T", 1).Min()}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	checkStockView(t, r.disk, "/s")
	o := r.o
	r.harness = openTest(t, r.disk, o)
	defer r.harness.Close()
	check()
	if got := [2]int64{r.Queue("T", 0).Min(), r.Queue("T", 1).Min()}; got != min {
		t.Errorf("queues begin at %v after a restart, before at %v", got, min)
	}
	if found := r.Stats().Recovered; found.From != found.End {
		t.Errorf("recovery read from %d to %d after a clean stop", found.From, found.End)
	}
}

// stuckFS is a disk on which the names of the log's files cannot be changed.
type stuckFS struct {
	*memfs.FS
	stuck *atomic.Bool
}

func (f stuckFS) Rename(from, to string) error {
	if f.stuck.Load() && strings.HasPrefix(from, "/s/commitlog/0") {
		return syscall.EIO
	}
	return f.FS.Rename(from, to)
}

// TestRetainThatCannotRemove: the oldest file cannot be removed. The first offsets of queues moved all the same, and
// its messages were lost to consumers though the disk had them.
func TestRetainThatCannotRemove(t *testing.T) {
	stuck := new(atomic.Bool)
	r := newRetainerOn(t, Retention{MaxBytes: 2 * 16 << 10}, true, func(disk *memfs.FS) vfs.FS { return stuckFS{disk, stuck} })
	r.fill(4)
	stuck.Store(true)
	r.round()
	r.keeps("while it cannot go", 5)
	for id := range int32(2) {
		if q := r.Queue("T", id); q.Min() != 0 {
			t.Errorf("queue %d begins at %d", id, q.Min())
		}
		if got := r.body("T", id, 0); len(got) != 2000 {
			t.Errorf("the first message of queue %d has %d bytes", id, len(got))
		}
	}
	stuck.Store(false)
	for range 5 {
		r.round()
	}
	r.keeps("afterwards", 2)
	if r.Queue("T", 0).Min() == 0 {
		t.Error("messages that are gone are offered")
	}
}

// TestRetainForced: the disk's levels. From the second on files go whatever their age, at most as many as make
// room; from the third on messages are refused, and taken again by themselves.
func TestRetainForced(t *testing.T) {
	r := newRetainer(t, Retention{Keep: 48 * time.Hour, UsedPercent: 75, ForcePercent: 85, WarnPercent: 90})
	r.fill(5)
	r.round()
	used := r.Stats().DiskUsedBytes
	r.disk.SetSpace(used * 100 / 82)
	r.round()
	r.keeps("below the level", 6)
	r.disk.SetSpace(used * 100 / 86)
	r.round()
	r.keeps("one file makes room", 5)
	if s := r.Stats(); s.SegmentsForced != 1 || s.Refusing != 0 {
		t.Errorf("%+v", s)
	}
	r.until(func(d space) bool { return d.percent < 85 })
	r.disk.SetSpace(r.Stats().DiskUsedBytes)
	r.lookAtDisk()
	err := r.Reserve(100)
	if !errors.Is(err, ErrNoSpace) || !strings.Contains(fmt.Sprint(err), "100 %") || r.Stats().Refusing != 1 {
		t.Errorf("on a full disk: %v", err)
	}
	if got := r.body("T", 0, r.Queue("T", 0).Min()); len(got) != 2000 {
		t.Errorf("read %d bytes", len(got))
	}
	r.round()
	r.until(func(d space) bool { return d.percent < 90 })
	if !r.send(r.put("T", 0, []byte("again"))) {
		t.Errorf("after a round: %v", r.Refusing())
	}
}

// TestRetainKeepsYoung: without forced removal a full disk refuses messages and removes nothing young.
func TestRetainKeepsYoung(t *testing.T) {
	r := newRetainer(t, Retention{Keep: 48 * time.Hour, ForcePercent: 85, WarnPercent: 90, KeepYoung: true})
	r.fill(3)
	r.disk.SetSpace(1)
	r.round()
	r.keeps("full", 4)
	if err := r.Reserve(100); !errors.Is(err, ErrNoSpace) {
		t.Errorf("reserve: %v", err)
	}
	r.disk.SetSpace(0)
	r.round()
	if !r.send(r.put("T", 0, []byte("x"))) {
		t.Error(r.Refusing())
	}
}

// TestRetainMinFree: the same by free bytes, whatever the percentage is.
func TestRetainMinFree(t *testing.T) {
	const floor = 100 << 10
	r := newRetainer(t, Retention{MinFreeBytes: floor})
	r.fill(5)
	r.round()
	used := r.Stats().DiskUsedBytes
	r.disk.SetSpace(used + floor + 2*r.o.SegmentBytes)
	r.round()
	r.keeps("just enough", 6)
	r.disk.SetSpace(used + floor + r.o.SegmentBytes)
	r.round()
	r.keeps("one too few", 5)
	r.until(func(d space) bool { return d.used < used })
	r.disk.SetSpace(r.Stats().DiskUsedBytes + floor - 4096)
	if r.lookAtDisk(); !errors.Is(r.Reserve(100), ErrNoSpace) {
		t.Error("messages are taken below the least free bytes")
	}
	r.round()
	r.until(func(d space) bool { return d.free >= floor })
	if err := r.Refusing(); err != nil {
		t.Errorf("after a round: %v", err)
	}
}

// TestRetainLeavesWhatARestartReads: on a disk that is too small for two files nothing goes but what lies before
// the last checkpoint.
func TestRetainLeavesWhatARestartReads(t *testing.T) {
	r := newRetainer(t, Retention{MinFreeBytes: 1})
	r.fill(3)
	r.disk.SetSpace(1)
	for range 3 {
		r.round()
	}
	if at := r.keeper.Checkpointed(); r.log.Min() >= at {
		t.Errorf("the log begins at %d, the checkpoint is at %d", r.log.Min(), at)
	}
	r.keeps("full", 1)
}

// TestRetainRunsOnTicks: a round for each tick, until the context ends.
func TestRetainRunsOnTicks(t *testing.T) {
	r := newRetainer(t, Retention{MaxBytes: 2 * 16 << 10})
	r.fill(4)
	ctx, cancel := context.WithCancel(context.Background())
	tick, done := make(chan time.Time), make(chan struct{})
	go func() {
		defer close(done)
		r.Retain(ctx, tick)
	}()
	tick <- time.Time{}
	tick <- time.Time{} // the first round is over
	r.keeps("after a tick", 2)
	cancel()
	<-done
}

// TestRetainMakesRoom: a disk can be too small for the next file although its level is far from full.
func TestRetainMakesRoom(t *testing.T) {
	r := newRetainer(t, Retention{ForcePercent: 99, WarnPercent: 100})
	r.fill(8)
	free, total, err := r.disk.Space("/s")
	if err != nil {
		t.Fatal(err)
	}
	r.disk.SetSpace(total - free + r.o.SegmentBytes/2)
	p := r.put("T", 0, bytes.Repeat([]byte("x"), 2000))
	r.await(func() bool { // a few fit yet
		if err = r.Reserve(p.Bytes); err == nil {
			puts := []Put{p}
			r.Append(puts)
			err = puts[0].Err
		}
		return errors.Is(err, ErrNoSpace)
	})
	if r.Refusing() == nil {
		t.Error("nothing is said of the file that cannot be made")
	}
	before := r.log.Min()
	r.round()
	if got := r.log.Min() - before; got != r.o.SegmentBytes {
		t.Errorf("%d bytes were removed, want one file of %d", got, r.o.SegmentBytes)
	}
	for !r.send(p) { // queues and index want some of that room, too
		r.round()
		runtime.Gosched()
	}
}

// TestRetainHurriesTheCheckpoint: where only the files behind the last checkpoint could make room, a checkpoint is taken
// before its time.
func TestRetainHurriesTheCheckpoint(t *testing.T) {
	o := tinyOptions("/s")
	o.Retention, o.QueueFlushInterval, o.checkpointBytes = Retention{MaxBytes: 2 * o.SegmentBytes}, time.Millisecond, 1<<40
	h := openTest(t, memfs.New(1), o)
	defer h.Close()
	for h.Marks().Visible < 5*o.SegmentBytes {
		if !h.send(h.put("T", 0, bytes.Repeat([]byte("x"), 2000))) {
			t.Fatal(h.Err())
		}
	}
	for h.Stats().LogBytes > 2*o.SegmentBytes {
		h.retainRound(t.Context())
		runtime.Gosched()
	}
}
