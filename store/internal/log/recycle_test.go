package log

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	"ringmq/store/internal/filename"
	"ringmq/store/record"
	"ringmq/store/vfs"
	"ringmq/store/vfs/faultfs"
	"ringmq/store/vfs/memfs"
	"ringmq/store/vfs/osfs"
)

// retained is a disk with a log of tiny segments whose oldest are dropped and used again, and what was
// promised of it.
type retained struct {
	t             *testing.T
	disk          *memfs.FS
	rng           *rand.Rand
	lie           string
	segment, step int64 // Config.SegmentBytes and ZeroStepBytes
	size          int   // of every record, so that old and new ones begin at the same places; 0: by the dice
	dirs          []string

	serial   int
	end      int64            // what was durable at least
	tried    map[int64][]byte // the last record that was appended at an offset, and all before it
	sites    map[string]bool
	recycled int64
}

func newRetained(t *testing.T, seed uint64) *retained {
	w := &retained{t: t, disk: memfs.New(seed), rng: rand.New(rand.NewPCG(seed, 3)), segment: 16 << 10, tried: map[int64][]byte{}, sites: map[string]bool{}}
	w.disk.TearSectors(seed%2 == 1)
	w.disk.LoseFresh(true)
	if seed%3 != 0 {
		w.size = 1000
	}
	if w.dirs = []string{"/log"}; seed%5 == 0 {
		w.dirs = []string{"/log", "/more"}
	}
	return w
}

var host = netip.MustParseAddrPort("127.0.0.1:10911")

// live is one process: it recovers, appends records and drops segments until the power goes at the k-th
// disk call, or until it stops as it should. The error is a broken promise.
func (w *retained) live(k, records int) (cut bool, err error) {
	power := faultfs.Wrap(w.disk)
	power.CutAt(k)
	if w.lie != "" {
		power.Lie(w.lie)
	}
	defer func() {
		for _, site := range power.Sites() {
			w.sites[site] = true
		}
	}()
	r, err := w.open(power)
	if err == nil && r != nil {
		w.story(r, records)
		w.end = max(w.end, r.Durable())
		w.recycled += r.Stats().Recycled
		if err = r.drain(); err == nil {
			w.end = r.Durable()
		}
		if closed := r.Close(); err == nil && closed == nil && !power.IsCut() {
			return false, w.checkZeros()
		}
		if power.IsCut() {
			err = nil
		}
	}
	return power.IsCut(), err
}

// open recovers the log and checks what it finds. It returns no rig when the power went meanwhile.
func (w *retained) open(power *faultfs.FS) (*rig, error) {
	r := &rig{t: w.t, disk: w.disk}
	r.moved = sync.NewCond(&r.mu)
	r.drain = sync.OnceValue(func() error { return r.Drain() })
	unlessCut := func(err error) (*rig, error) {
		if r.Log != nil {
			_ = r.Close()
		}
		if power.IsCut() {
			return nil, nil
		}
		return nil, err
	}
	var err error
	for _, dir := range w.dirs {
		err = errors.Join(err, vfs.MakeDir(power, dir))
	}
	if err == nil {
		r.Log, err = Open(Config{
			FS: power, Dirs: w.dirs, SegmentBytes: w.segment, ZeroStepBytes: w.step, StagingBytes: 64 << 10, FlushSync: true, FlushDepth: 2,
			FlushInterval: time.Hour, FlushThorough: time.Hour, PrepareRetry: time.Millisecond, Recycle: true,
			Log: slog.New(slog.DiscardHandler), Advanced: func(int64, int64) { r.wake(nil) }, Failed: r.wake,
		})
	}
	if err != nil {
		return unlessCut(err)
	}
	end, err := w.recover(r.Log)
	if err == nil {
		err = r.Start(end)
	}
	if err != nil {
		return unlessCut(err)
	}
	return r, nil
}

// recover is what a store does with the log, with a look at every record.
func (w *retained) recover(l *Log) (end int64, err error) {
	if err := l.Sync(l.Min()); err != nil {
		return 0, err
	}
	b := make([]byte, w.segment)
	end, err = l.Walk(l.Min(), record.CheckTrailer, l.Min(), func(at int64, r *record.Record) error {
		g := l.find(at)
		if _, err := g.file.ReadAt(b[:r.Size], at-g.base); err != nil {
			return err
		}
		if !bytes.Contains(w.tried[at], b[:r.Size]) {
			return fmt.Errorf("a record stands at %d that was never sent there", at)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if end < w.end {
		return 0, fmt.Errorf("the log ends at %d, it was durable up to %d", end, w.end)
	}
	if err := w.checkNext(l, end); err != nil {
		return 0, err
	}
	tail, err := l.Inspect(end, record.CheckTrailer)
	if err == nil {
		_, err = l.Cut(tail, "/cut")
	}
	w.end = end
	return end, err
}

// checkNext looks at the files behind the end: a stock broker that finds a record where one begins takes
// it for the log's.
func (w *retained) checkNext(l *Log, end int64) error {
	for _, g := range *l.segments.Load() {
		var page [pageBytes]byte
		if _, err := g.file.ReadAt(page[:], 0); err != nil {
			return err
		}
		var r record.Record
		if g.base > end && record.Parse(page[:], &r) == nil && len(w.tried[g.base]) == 0 {
			return fmt.Errorf("segment %d begins with a record of %d", g.base, r.PhysOffset)
		}
	}
	return nil
}

func (w *retained) story(r *rig, records int) {
	for range records {
		body := w.body()
		m := record.Message{Topic: "T", Born: host, Store: host, Body: body, BodyCRC: record.BodyCRC(body)}
		n, err := m.Size(record.CheckTrailer)
		if err != nil {
			w.t.Fatal(err)
		}
		r.await(func() bool {
			err = r.Reserve(n)
			return !errors.Is(err, ErrBusy)
		})
		if err != nil { // the power is out
			return
		}
		r.Lock()
		if err := r.FitLocked(n); err != nil {
			r.Unlock()
			r.Release(n)
			continue
		}
		dst, off := r.StageLocked(n)
		b := m.Append(dst[:0], record.CheckTrailer, 0, off, 1)
		w.tried[off] = append(w.tried[off], b...)
		r.Unlock()
		if w.rng.IntN(3) > 0 {
			end := off + int64(n)
			r.await(func() bool { return r.Durable() >= end || r.Err() != nil })
		}
		if all := *r.segments.Load(); len(all) > 2 && all[0].end() <= r.Durable() && r.Err() == nil {
			if err := r.Drop(all[0].base, true, nil); err != nil {
				return
			}
		}
	}
}

// body returns the text of the next message; its record has the size that was asked for.
func (w *retained) body() []byte {
	w.serial++
	size := w.size
	if size == 0 {
		size = 300 + w.rng.IntN(3000)
	}
	return bytes.Repeat(fmt.Appendf(nil, "%08d", w.serial), size/8)
}

// checkZeros is the promise of a clean stop: nothing but zeros follow the log in the file where it ends, and
// in one behind it, which may come back in a power cut.
func (w *retained) checkZeros() error {
	disk := w.disk.AfterCrash(w.rng, 0)
	base := w.end / w.segment * w.segment
	f, err := disk.OpenRead(path.Join(w.dirs[base/w.segment%int64(len(w.dirs))], filename.Of(base)))
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, w.segment)
	if _, err := f.ReadAt(b, 0); err != nil {
		return err
	}
	at := 0
	for r := (record.Record{}); record.Verify(b[at:], base+int64(at), &r) == nil; {
		at += r.Size
	}
	if r := (record.Record{}); errors.Is(record.Verify(b[at:], base+int64(at), &r), record.ErrBlank) {
		at = len(b)
	}
	if n := lastNonZero(b[at:]); n > 0 {
		return fmt.Errorf("segment %d: %d bytes follow its end at %d after a clean stop", base, n, at)
	}
	return w.checkBehind(disk, base+w.segment)
}

// checkBehind looks at the file that was prepared behind the one where the log ends.
func (w *retained) checkBehind(disk *memfs.FS, base int64) error {
	for _, dir := range w.dirs {
		f, err := disk.OpenRead(path.Join(dir, filename.Of(base)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		defer f.Close()
		b := make([]byte, w.segment)
		if _, err := f.ReadAt(b, 0); err != nil {
			return err
		}
		if n := lastNonZero(b); n > 0 {
			return fmt.Errorf("segment %d, which nothing was written to, comes back after a clean stop with %d bytes", base, n)
		}
	}
	return nil
}

// lives are three processes with a power cut after each but the last; the first may end at any call.
func (w *retained) lives(k, keepPercent int) (cut bool, err error) {
	if cut, err = w.live(k, 80); err != nil {
		return cut, err
	}
	for range 2 {
		w.disk = w.disk.Crash(w.rng, keepPercent)
		if _, err := w.live(1<<30, 20); err != nil {
			return cut, err
		}
	}
	return cut, nil
}

// TestRecycleCrash cuts the power at every disk call of a log whose segments are used again and again. What
// was durable is there, and what a file held in its former lives is never taken for the log's.
func TestRecycleCrash(t *testing.T) {
	for _, keep := range []int{0, 50, 100} {
		t.Run(fmt.Sprintf("keep=%d", keep), func(t *testing.T) {
			t.Parallel()
			recycled, k := int64(0), 0
			for cut := true; cut; k++ {
				w := newRetained(t, uint64(k))
				var err error
				if cut, err = w.lives(k, keep); err != nil {
					t.Fatalf("k=%d: %v", k, err)
				}
				recycled += w.recycled
			}
			t.Logf("cut at %d disk calls, %d segments were used again", k, recycled)
			if recycled < int64(k) {
				t.Errorf("only %d segments were used again in %d runs", recycled, k)
			}
		})
	}
}

// TestRecycleSyncs makes the syncs of dropping and recycling lie, one call site at a time: each must be
// missed by somebody.
func TestRecycleSyncs(t *testing.T) {
	story := func(seed uint64, lie string) (*retained, error) {
		w := newRetained(t, seed)
		w.lie = lie
		_, err := w.lives(w.rng.IntN(250), []int{0, 0, 50, 100}[w.rng.IntN(4)])
		return w, err
	}
	sites := map[string]bool{}
	for seed := range uint64(50) {
		w, err := story(seed, "")
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		maps.Copy(sites, w.sites)
	}
	for _, site := range []string{"log.(*remover).shrink:syncdir", "log.(*Log).takeRecycled:sync", "log.(*Log).zeroRest:sync", "log.(*Log).removeUnused:syncdir"} {
		t.Run(site, func(t *testing.T) {
			t.Parallel()
			if !sites[site] {
				t.Fatalf("never reached; reached: %v", slices.Sorted(maps.Keys(sites)))
			}
			for seed := range uint64(3000) {
				if _, err := story(seed, site); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("nobody noticed that this sync was a lie")
		})
	}
}

// TestRecycleOnDisk: the same on the machine's file system, with the cache's word for it that nobody reads.
func TestRecycleOnDisk(t *testing.T) {
	r := newRig(t, osfs.New(osfs.Options{}), nil, func(c *Config) {
		c.Dirs, c.SegmentBytes, c.StagingBytes, c.Recycle = []string{path.Join(t.TempDir(), "log")}, 256<<10, 256<<10, true
	})
	defer func() {
		if err := errors.Join(r.drain(), r.Close()); err != nil {
			t.Error(err)
		}
	}()
	const n, rounds = 20 << 10, 100
	b := make([]byte, n)
	for i := range rounds {
		r.await(func() bool { return r.Reserve(n) == nil })
		r.Release(n)
		end := r.append(n, byte('a'+i%26))
		r.await(func() bool { return r.Durable() == end })
		if err := r.ReadAt(b, end-n); err != nil || bytes.Count(b, []byte{byte('a' + i%26)}) != n {
			t.Fatalf("round %d: read back %.20q, %v", i, b, err)
		}
		if all := *r.segments.Load(); len(all) > 2 {
			if err := r.Drop(all[0].base, true, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if s := r.Stats(); s.Recycled == 0 || s.Dropped == 0 {
		f := (*r.segments.Load())[0].file
		if held, err := f.(pinned).Pinned(); held || err != nil {
			t.Skip("this kernel or file system cannot tell who reads a file: ", held, err)
		}
		t.Errorf("%d of %d dropped segments were used again", s.Recycled, s.Dropped)
	}
}
