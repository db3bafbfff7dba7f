package log

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"syscall"
	"testing"
	"time"

	"ringmq/store/internal/filename"
	"ringmq/store/vfs"
	"ringmq/store/vfs/faultfs"
	"ringmq/store/vfs/memfs"
)

// rig is a log on a disk whose flushes complete when the test says so.
type rig struct {
	*Log
	t    testing.TB
	disk *memfs.FS

	mu     sync.Mutex
	moved  *sync.Cond
	failed error

	drain func() error // once
}

func newRig(t testing.TB, fsys vfs.FS, disk *memfs.FS, change func(*Config)) *rig {
	t.Helper()
	return newRigAt(t, fsys, disk, 0, change)
}

// newRigAt starts the log at end.
func newRigAt(t testing.TB, fsys vfs.FS, disk *memfs.FS, end int64, change func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, disk: disk}
	r.moved = sync.NewCond(&r.mu)
	r.drain = sync.OnceValue(func() error { return r.Drain() })
	cfg := Config{
		FS: fsys, Dirs: []string{"/log"}, SegmentBytes: 64 << 10, StagingBytes: 64 << 10,
		FlushSync: true, FlushDepth: 2, FlushInterval: time.Hour, FlushThorough: time.Hour, PrepareRetry: time.Millisecond,
		Log:      slog.New(slog.DiscardHandler),
		Advanced: func(int64, int64) { r.wake(nil) },
		Failed:   r.wake,
	}
	if change != nil {
		change(&cfg)
	}
	for _, dir := range cfg.Dirs {
		if err := fsys.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if r.Log, err = Open(cfg); err != nil {
		t.Fatal(err)
	}
	if err := r.Start(end); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) wake(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.failed = err
	}
	r.moved.Broadcast()
}

// await waits until cond holds; it is asked again when marks move or the log fails.
func (r *rig) await(cond func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !cond() {
		r.moved.Wait()
	}
}

func (r *rig) awaitFailed() error {
	r.await(func() bool { return r.failed != nil })
	return r.failed
}

// append stages n bytes and returns the offset after them.
func (r *rig) append(n int, fill byte) int64 {
	r.t.Helper()
	if err := r.Reserve(n); err != nil {
		r.t.Fatalf("reserve %d: %v", n, err)
	}
	r.Lock()
	defer r.Unlock()
	if err := r.FitLocked(n); err != nil {
		r.t.Fatalf("fit %d: %v", n, err)
	}
	dst, off := r.StageLocked(n)
	copy(dst, bytes.Repeat([]byte{fill}, n))
	return off + int64(n)
}

// hurry is append for a sender that waits for the kernel only.
func (r *rig) hurry(n int) int64 {
	r.t.Helper()
	if err := r.Reserve(n); err != nil {
		r.t.Fatalf("reserve %d: %v", n, err)
	}
	r.Lock()
	defer r.Unlock()
	if err := r.FitLocked(n); err != nil {
		r.t.Fatalf("fit %d: %v", n, err)
	}
	_, off := r.StageLocked(n)
	r.HurryLocked()
	return off + int64(n)
}

// inFlight appends n bytes and waits until the flush of them has begun.
func (r *rig) inFlight(n int, held int) int64 {
	end := r.append(n, 'x')
	r.disk.WaitHeld(held)
	return end
}

// TestSlowFlush: a flush that takes long has a line, and all have their time.
func TestSlowFlush(t *testing.T) {
	for _, slow := range []time.Duration{1, time.Hour} {
		disk := memfs.New(1)
		var lines lineCounter
		r := newRig(t, disk, disk, func(c *Config) {
			c.SlowFlush, c.Log = slow, slog.New(slog.NewTextHandler(&lines, nil))
		})
		const appends = 10
		for range appends {
			end := r.append(4000, 'x')
			r.await(func() bool { return r.Durable() == end })
		}
		r.await(func() bool { return r.Stats().Segments == 1 }) // more than half of the first is used
		r.shut()
		s := r.Stats()
		for name, n := range map[string]int64{"staged": s.StagedTimes.Count(), "flush": s.FlushTimes.Count(), "batch": s.FlushBytes.Count()} {
			if n != appends {
				t.Errorf("%s: %d, want %d", name, n, appends)
			}
		}
		if s.FlushBytes.Sum != appends*4000 || s.PrepareTimes.Count() != 1 {
			t.Errorf("%+v", s)
		}
		if got := lines.with("a flush was slow"); (got > 0) != (slow == 1) {
			t.Errorf("slow from %v on: %d lines", slow, got)
		}
	}
}

func (r *rig) shut() {
	r.disk.ReleaseAll()
	_ = r.drain()
	if err := r.Close(); err != nil {
		r.t.Error(err)
	}
}

// TestFlushOrder lets two flushes complete in every order and with every outcome. Durable is the end of
// the prefix whose flushes were good, and nothing moves after the first bad one.
func TestFlushOrder(t *testing.T) {
	const older, younger = 0, 1
	eio := syscall.EIO
	type step struct {
		flush int
		err   error
	}
	for _, tc := range []struct {
		name  string
		steps []step
		want  int // appends that become durable
		fails bool
	}{
		{"in order", []step{{older, nil}, {younger, nil}}, 2, false},
		{"out of order", []step{{younger, nil}, {older, nil}}, 2, false},
		{"older good, younger bad", []step{{older, nil}, {younger, eio}}, 1, true},
		{"older bad, younger good", []step{{older, eio}, {younger, nil}}, 0, true},
		{"younger good, older bad", []step{{younger, nil}, {older, eio}}, 0, true},
		{"younger bad, older good", []step{{younger, eio}, {older, nil}}, 0, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			disk := memfs.New(1)
			r := newRig(t, disk, disk, nil)
			defer r.shut()
			disk.HoldFlushes()
			ends := []int64{0, r.inFlight(1000, 1), r.inFlight(2000, 2)}
			for i, s := range tc.steps {
				at := s.flush
				if i == 1 {
					at = 0 // the other one is gone
				}
				disk.Release(at, s.err)
				if i == 0 && s == (step{older, nil}) {
					r.await(func() bool { return r.Durable() == ends[1] })
				}
			}
			if tc.fails {
				if err := r.awaitFailed(); !errors.Is(err, ErrFailed) || !errors.Is(err, eio) {
					t.Errorf("failed with %v", err)
				}
				if err := r.Reserve(1); !errors.Is(err, ErrFailed) {
					t.Errorf("reserve after the failure: %v", err)
				}
			} else {
				r.await(func() bool { return r.Durable() == ends[2] })
			}
			if got := r.Durable(); got != ends[tc.want] {
				t.Errorf("durable up to %d, want %d", got, ends[tc.want])
			}
			if err := r.drain(); (err != nil) != tc.fails {
				t.Errorf("drain: %v", err)
			}
			if got := r.Durable(); got != ends[tc.want] {
				t.Errorf("after the end: durable up to %d, want %d", got, ends[tc.want])
			}
		})
	}
}

// TestFreshBlocksAreFlushedTwice: the power went while a flush wrote blocks of a segment for the first time.
// ext4 could no longer note in its journal that they are data, fdatasync said OK all the same, and after the
// next start acknowledged messages were zeros. Such a flush counts when a second one has succeeded.
func TestFreshBlocksAreFlushedTwice(t *testing.T) {
	for _, second := range []error{nil, syscall.EIO} {
		t.Run(fmt.Sprint(second), func(t *testing.T) {
			disk := memfs.New(1)
			// Appends of a step or more have no zeros written ahead of them.
			r := newRig(t, disk, disk, func(c *Config) { c.SegmentBytes, c.ZeroStepBytes = 1<<20, 32<<10 })
			defer r.shut()
			before := int64(0)
			for before+50<<10 < r.firstZeros() {
				before = r.append(50<<10, 'x')
				r.await(func() bool { return r.Durable() == before })
			}
			disk.HoldFlushes()
			end := r.inFlight(50<<10, 1)
			if end <= r.firstZeros() {
				t.Fatalf("nothing fresh below %d", end)
			}
			disk.Release(0, nil)
			disk.WaitHeld(1)
			if got := r.Durable(); got != before {
				t.Errorf("durable up to %d after one flush, want %d", got, before)
			}
			disk.Release(0, second)
			if second != nil {
				if err := r.awaitFailed(); !errors.Is(err, second) {
					t.Errorf("failed with %v", err)
				}
				end = before
			}
			r.await(func() bool { return r.Durable() == end })
		})
	}
}

// TestSecondFlushWantsAsMuch: beside a flush in flight another one begins only for as many bytes; with
// the slots in use bytes gather for the next.
func TestSecondFlushWantsAsMuch(t *testing.T) {
	disk := memfs.New(1)
	r := newRig(t, disk, disk, nil)
	defer r.shut()
	disk.HoldFlushes()
	first := r.inFlight(1000, 1)
	r.append(400, 'x')
	r.append(400, 'x')
	if got := r.Written(); got != first {
		t.Errorf("800 bytes were written beside 1000 in flight: written up to %d", got)
	}
	r.inFlight(200, 2)
	last := r.append(5000, 'x')
	if got := r.Written(); got != first+1000 {
		t.Errorf("written up to %d with both slots in use", got)
	}
	disk.ReleaseAll()
	r.await(func() bool { return r.Durable() == last })
	if got := r.Stats().Flushes; got != 3 {
		t.Errorf("%d flushes, want 3", got)
	}
}

// TestHurryPassesFlushes: a message whose sender waits for the kernel only was held up for five seconds by
// a flush of others that took as long. It is written beside all flushes in flight, begins none, and the
// next one covers it.
func TestHurryPassesFlushes(t *testing.T) {
	disk := memfs.New(1)
	r := newRig(t, disk, disk, func(c *Config) { c.FlushDepth = 1 })
	defer r.shut()
	disk.HoldFlushes()
	first := r.inFlight(1000, 1)
	r.append(500, 'x')
	hurried := r.hurry(500)
	r.await(func() bool { return r.Written() == hurried })
	last := r.append(500, 'x')
	if w, d, n := r.Written(), r.Durable(), r.Stats().Flushes; w != hurried || d != 0 || n != 1 {
		t.Errorf("written %d, durable %d, %d flushes: want %d, 0, 1", w, d, n, hurried)
	}
	disk.Release(0, nil)
	disk.WaitHeld(1)
	r.await(func() bool { return r.Durable() == first && r.Written() == last })
	disk.ReleaseAll()
	r.await(func() bool { return r.Durable() == last })
	if got := r.Stats().Flushes; got != 2 {
		t.Errorf("%d flushes, want 2", got)
	}
}

// TestHurryIsBounded: what is written beside a flush that does not end is at most a staging and what was
// taken with it; then appends wait as they do without a hurry.
func TestHurryIsBounded(t *testing.T) {
	disk := memfs.New(1)
	r := newRig(t, disk, disk, func(c *Config) { c.FlushDepth, c.SegmentBytes = 1, 1<<20 })
	defer r.shut()
	disk.HoldFlushes()
	end := r.inFlight(1000, 1)
	for end <= 64<<10 {
		end = r.hurry(8 << 10)
		r.await(func() bool { return r.Written() == end })
	}
	for r.Reserve(8<<10) == nil { // more than staging holds, if it were emptied
		r.Release(8 << 10)
		r.hurry(8 << 10)
	}
	if w := r.Written(); w != end {
		t.Errorf("written up to %d, want %d", w, end)
	}
	disk.ReleaseAll()
	r.await(func() bool { return r.Durable() > end })
}

// TestQuietWritesAndFlushesInOneCall: one sender after the other costs one call each, until somebody waits
// for the kernel only: the call would hold up the next such message.
func TestQuietWritesAndFlushesInOneCall(t *testing.T) {
	disk := memfs.New(1)
	r := newRig(t, disk, disk, func(c *Config) { c.SegmentBytes, c.StagingBytes = 1<<20, 256<<10 })
	defer r.shut()
	for i, step := range []struct {
		bytes  int
		hurry  bool
		inline int64 // so far
	}{
		{1000, false, 1},
		{quietBytes, false, 2},
		{quietBytes + 1, false, 2},
		{1000, false, 3},
		{200 << 10, false, 3}, // into blocks that were never written
		{1000, false, 4},
		{1000, true, 4},
		{1000, false, 4},
	} {
		add := func(n int) int64 { return r.append(n, 'x') }
		if step.hurry {
			add = r.hurry
		}
		end := add(step.bytes)
		r.await(func() bool { return r.Durable() == end })
		if s := r.Stats(); s.Inline != step.inline || s.Flushes != int64(i+1) {
			t.Errorf("step %d: %d of %d flushes in the call that wrote, want %d of %d", i, s.Inline, s.Flushes, step.inline, i+1)
		}
	}
}

// TestSingleFlushIsMadeByTheWriter: with one flush at a time the writer makes each by itself, however much there is and
// although bytes came while the one before was under way.
func TestSingleFlushIsMadeByTheWriter(t *testing.T) {
	disk := memfs.New(1)
	r := newRig(t, disk, disk, func(c *Config) { c.SegmentBytes, c.StagingBytes, c.FlushDepth = 1<<20, 256<<10, 1 })
	defer r.shut()
	for i, bytes := range []int{1000, quietBytes + 1, 100} {
		end := r.append(bytes, 'x')
		r.await(func() bool { return r.Durable() == end })
		if s := r.Stats(); s.Inline != int64(i+1) || s.Flushes != s.Inline {
			t.Errorf("append %d: %d of %d flushes in the call that wrote", i, s.Inline, s.Flushes)
		}
	}
	before := r.Stats()
	var end int64
	for range 200 {
		end = r.append(100, 'y')
	}
	r.await(func() bool { return r.Durable() == end })
	if s := r.Stats(); s.Inline-before.Inline != s.Flushes-before.Flushes || s.Inline == before.Inline {
		t.Errorf("many small appends: %d of %d flushes in the call that wrote", s.Inline-before.Inline, s.Flushes-before.Flushes)
	}
}

// TestFailedDurableWrite: where the write was done and its flush fails, the bytes count as neither.
func TestFailedDurableWrite(t *testing.T) {
	for name, call := range map[string]int{"write": 0, "flush": 1} {
		t.Run(name, func(t *testing.T) {
			disk := memfs.New(1)
			power := faultfs.Wrap(disk)
			r := newRig(t, power, disk, nil)
			defer r.shut()
			good := r.append(1000, 'a')
			r.await(func() bool { return r.Durable() == good })
			power.FailAt(power.Calls()+call, syscall.EIO)
			r.append(1000, 'b')
			if err := r.awaitFailed(); !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.EIO) {
				t.Errorf("failed with %v", err)
			}
			if w, d := r.Written(), r.Durable(); w != good || d != good {
				t.Errorf("written %d, durable %d, want %d", w, d, good)
			}
		})
	}
}

// TestAsyncLossIsBounded: without FlushSync, and with a disk that takes its time, no more than UnflushedBytes
// are written and not durable; what comes then waits in staging. Reads of time play no part: only bytes
// make these flushes due.
func TestAsyncLossIsBounded(t *testing.T) {
	const bound = 256 << 10
	for _, chunk := range []int{1000, 10 << 10, 50 << 10} {
		t.Run(fmt.Sprint(chunk), func(t *testing.T) {
			disk := memfs.New(1)
			r := newRig(t, disk, disk, func(c *Config) {
				c.FlushSync, c.UnflushedBytes, c.SegmentBytes = false, bound, 128<<10
				c.FlushInterval, c.FlushThorough = time.Hour, time.Hour
			})
			defer r.shut()
			disk.HoldFlushes()
			end := int64(0)
			for round := range 3 {
				most := r.Durable() + bound
				for end <= most { // what is given out exceeds what may be written
					r.await(func() bool { return r.Reserve(chunk) == nil })
					r.Release(chunk)
					end = r.append(chunk, 'x')
				}
				r.await(func() bool { return r.Written()+r.SegmentBytes() > most }) // all but one write, with a blank
				written := r.Written()                                              // first: durable may have grown since
				if durable := r.Durable(); written > durable+bound {
					t.Errorf("round %d: written %d, durable %d: %d in danger, want %d at most", round, written, durable, written-durable, bound)
				}
				for r.Durable() <= most-bound { // fresh blocks take two flushes
					disk.WaitHeld(1)
					disk.ReleaseAll()
					disk.HoldFlushes()
				}
			}
		})
	}
}

// TestAsyncFailureIsFinal: without FlushSync the first flush that fails ends the log as well.
func TestAsyncFailureIsFinal(t *testing.T) {
	disk := memfs.New(1)
	r := newRig(t, disk, disk, func(c *Config) {
		c.FlushSync, c.FlushInterval, c.FlushThorough = false, time.Nanosecond, time.Nanosecond
	})
	defer r.shut()
	disk.HoldFlushes()
	end := r.inFlight(1000, 1)
	disk.Release(0, syscall.EIO)
	if err := r.awaitFailed(); !errors.Is(err, syscall.EIO) {
		t.Errorf("failed with %v", err)
	}
	if err := r.Reserve(1); !errors.Is(err, ErrFailed) {
		t.Errorf("reserve after the failure: %v", err)
	}
	b := make([]byte, 1000)
	if err := r.ReadAt(b, end-1000); err != nil || b[0] != 'x' {
		t.Errorf("what was written before reads %q, %v", b[0], err)
	}
}

// TestFailedWrite: a write that fails ends the log, and nothing of it counts as written.
func TestFailedWrite(t *testing.T) {
	disk := memfs.New(1)
	power := faultfs.Wrap(disk)
	r := newRig(t, power, disk, nil)
	defer r.shut()
	good := r.append(1000, 'a')
	r.await(func() bool { return r.Durable() == good })
	power.ShortWriteAt(power.Calls(), 10)
	r.append(1000, 'b')
	if err := r.awaitFailed(); !errors.Is(err, ErrFailed) || !errors.Is(err, vfs.ErrNoSpace) {
		t.Errorf("failed with %v", err)
	}
	if w, d := r.Written(), r.Durable(); w != good || d != good {
		t.Errorf("written %d, durable %d, want %d", w, d, good)
	}
}

// TestFullDisk: without room for the next segment nothing is given out beyond the current one, and
// appends go on by themselves once there is room.
func TestFullDisk(t *testing.T) {
	disk := memfs.New(1)
	r := newRig(t, disk, disk, nil)
	defer r.shut()
	disk.SetSpace(100 << 10)
	tail := int64(0)
	for range 10 {
		tail = r.append(6000, 'x')
	}
	r.await(func() bool { return !errors.Is(r.Reserve(6000), ErrBusy) })
	if err := r.Reserve(6000); !errors.Is(err, ErrNoSpace) || !errors.Is(err, vfs.ErrNoSpace) {
		t.Fatalf("reserve: %v", err)
	}
	r.Lock()
	err := r.FitLocked(6000)
	if !errors.Is(err, ErrNoSpace) || r.TailLocked() != tail {
		t.Errorf("fit: %v, tail %d, want %d", err, r.TailLocked(), tail)
	}
	r.Unlock()
	r.await(func() bool { return r.Durable() == tail })

	disk.SetSpace(0)
	r.await(func() bool { return r.Reserve(6000) == nil })
	r.Release(6000)
	end := r.append(6000, 'y')
	r.await(func() bool { return r.Durable() == end })
	if end != 64<<10+6000 {
		t.Errorf("the append ends at %d, not in the second segment", end)
	}
}

// TestPadding: zeros follow what is written, up to the page's end and at least eight of them, also over
// bytes that were there.
func TestPadding(t *testing.T) {
	for _, n := range []int{1, 100, 4088, 4089, 4096, 5000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			disk := memfs.New(1)
			r := newRig(t, disk, disk, func(c *Config) { c.FlushSync = false })
			defer r.shut()
			g := r.find(0)
			if g == nil {
				g = r.next
			}
			if _, err := g.file.WriteAt(bytes.Repeat([]byte{'!'}, 12<<10), 0); err != nil {
				t.Fatal(err)
			}
			end := r.append(n, 'x')
			r.await(func() bool { return r.Written() == end })
			b := make([]byte, 12<<10)
			if _, err := g.file.ReadAt(b, 0); err != nil && err != io.EOF {
				t.Fatal(err)
			}
			want := (n + 8 + 4095) / 4096 * 4096
			if i := bytes.IndexByte(b[n:], '!') + n; i != want {
				t.Errorf("zeros up to %d, want %d", i, want)
			}
		})
	}
}

// TestRoll: what does not fit with a blank behind it goes to the next segment; a joined batch moves as a
// whole.
func TestRoll(t *testing.T) {
	disk := memfs.New(1)
	r := newRig(t, disk, disk, nil)
	defer r.shut()
	half := r.append(40<<10, 'x')
	r.await(func() bool { return r.Durable() == half })
	at := r.append(24<<10-8-8, 'x')
	if at != 64<<10-16 {
		t.Fatalf("at %d", at)
	}
	r.await(func() bool { return r.Reserve(8) == nil }) // 8 and a blank fit
	r.Release(8)
	r.await(func() bool { return r.Durable() == at && r.Reserve(9) == nil })
	r.Release(9)
	end := r.append(9, 'y')
	if end != 64<<10+9 {
		t.Errorf("nine bytes end at %d, want them in the next segment", end)
	}
	r.await(func() bool { return r.Durable() == end })
	blank := make([]byte, 16)
	if err := r.ReadAt(blank, at); err != nil {
		t.Fatal(err)
	}
	if want := []byte{0, 0, 0, 16, 0xCB, 0xD4, 0x31, 0x94, 0, 0, 0, 0, 0, 0, 0, 0}; !bytes.Equal(blank, want) {
		t.Errorf("the segment ends in %x", blank)
	}
}

// TestStagingIsBounded: reservations end at the staging's size, and what is too large for a segment is
// told apart from what has to wait.
func TestStagingIsBounded(t *testing.T) {
	disk := memfs.New(1)
	r := newRig(t, disk, disk, func(c *Config) { c.SegmentBytes = 1 << 20 })
	defer r.shut()
	limit := 64<<10 - stagingSlack
	if err := r.Reserve(limit); err != nil {
		t.Fatal(err)
	}
	if err := r.Reserve(1); !errors.Is(err, ErrBusy) {
		t.Errorf("one byte more: %v", err)
	}
	r.Release(limit)
	if err := r.Reserve(limit + 1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("more than there is: %v", err)
	}
}

// TestCloseRemovesUnused: a segment that was prepared and not used is gone after a close.
func TestCloseRemovesUnused(t *testing.T) {
	disk := memfs.New(1)
	r := newRig(t, disk, disk, nil)
	end := r.append(40<<10, 'x') // over half: the next one is prepared
	r.await(func() bool { return r.Durable() == end && r.Stats().Segments == 1 })
	r.shut()
	names, err := disk.List("/log")
	if err != nil || len(names) != 1 || names[0] != filename.Of(0) {
		t.Errorf("left over: %v %v", names, err)
	}
}
