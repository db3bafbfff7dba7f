package log

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ringmq/store/vfs"
	"ringmq/store/vfs/memfs"
)

// newFresh is a disk with a log whose segments are longer than the zeros that it writes ahead, so that most
// records come to blocks that were never written, and to zeros on their way.
func newFresh(t *testing.T, seed uint64) *retained {
	w := newRetained(t, seed)
	w.segment, w.step = 96<<10, pageBytes
	return w
}

// TestFreshCrash cuts the power at every disk call of a log that fills new segments, on a disk that forgets
// blocks which were written for the first time and flushed once.
func TestFreshCrash(t *testing.T) {
	t.Parallel()
	k := 0
	for cut := true; cut; k++ {
		keep := k % 2 * 50
		w := newFresh(t, uint64(k))
		var err error
		if cut, err = w.lives(k, keep); err != nil {
			t.Fatalf("k=%d keep=%d: %v", k, keep, err)
		}
	}
	t.Logf("cut at %d disk calls", k)
}

// TestFreshSyncs: the syncs of zeros are needed. Without them records come to blocks that count as written
// before, and one flush does not hold those.
func TestFreshSyncs(t *testing.T) {
	const site = "log.(*zeroAhead).unit:sync"
	reached := map[string]bool{}
	for seed := range uint64(3000) {
		w := newFresh(t, seed)
		w.lie = site
		_, err := w.lives(w.rng.IntN(250), []int{0, 50}[w.rng.IntN(2)])
		if maps.Copy(reached, w.sites); err != nil {
			t.Logf("seed %d: %v", seed, err)
			return
		}
	}
	t.Errorf("nobody noticed that this sync was a lie; reached: %v", slices.Sorted(maps.Keys(reached)))
}

// awaitSafe waits until zeros are safe up to at least to in the first segment.
func (r *rig) awaitSafe(to int64) *segment {
	g := (*r.segments.Load())[0]
	r.zeros.mu.Lock()
	defer r.zeros.mu.Unlock()
	for g.safe.Load() < to {
		r.zeros.calm.Wait()
	}
	return g
}

// smallStep lets few bytes be many.
func smallStep(c *Config) { c.SegmentBytes, c.ZeroStepBytes = 1<<20, pageBytes }

// TestZerosGoAhead: zeros go a bounded way in front of small messages, and no further when nothing comes: a log
// that is mostly idle fills no gigabyte for nothing. What comes to them is flushed once.
func TestZerosGoAhead(t *testing.T) {
	disk := memfs.New(1)
	r := newRig(t, disk, disk, smallStep)
	defer r.shut()
	end := int64(0)
	for end < 2*zeroUnitSteps*pageBytes {
		end = r.append(1000, 'x')
		r.await(func() bool { return r.Durable() == end })
		r.awaitSafe(roundUp(end, zeroUnitSteps*pageBytes) + zeroAheadSteps*pageBytes)
	}
	ahead := roundUp(end, zeroUnitSteps*pageBytes) + zeroAheadSteps*pageBytes
	if got := r.awaitSafe(ahead).safe.Load(); got != ahead {
		t.Errorf("zeros up to %d for messages up to %d, want %d", got, end, ahead)
	}
	for _, tc := range []struct{ bytes, flushes int64 }{{50 << 10, 1}, {60 << 10, 1}, {50 << 10, 2}} { // the last is faster than the zeros
		before := r.Stats().Completed
		disk.HoldFlushes()
		end = r.inFlight(int(tc.bytes), 1)
		disk.ReleaseAll()
		r.await(func() bool { return r.Durable() == end })
		if got := r.Stats().Completed - before; got != tc.flushes {
			t.Errorf("%d bytes up to %d, zeros up to %d: %d flushes, want %d", tc.bytes, end, ahead, got, tc.flushes)
		}
	}
}

// TestLargeWritesTakeNoZeros: writes that fill the disk's bandwidth have no zeros before them, which would
// take half of it.
func TestLargeWritesTakeNoZeros(t *testing.T) {
	disk := memfs.New(1)
	r := newRig(t, disk, disk, smallStep)
	defer r.shut()
	for range 10 {
		end := r.append(pageBytes, 'x')
		r.await(func() bool { return r.Durable() == end })
	}
	if r.zeros.g != nil { // the writer is idle, and nobody else sets it
		t.Errorf("zeros are wanted up to %d", r.zeros.goal)
	}
}

// noZeros is a file system that refuses zeros ahead: the one use of WriteAt on a file of the log.
type noZeros struct{ vfs.FS }

type noZerosFile struct{ vfs.File }

func (f noZeros) Open(name string) (vfs.File, error) {
	file, err := f.FS.Open(name)
	return noZerosFile{file}, err
}

func (noZerosFile) WriteAt([]byte, int64) (int, error) { return 0, syscall.EIO }

// TestZerosFail: where zeros cannot be written, the log goes on without them and says so once.
func TestZerosFail(t *testing.T) {
	disk := memfs.New(1)
	var lines lineCounter
	r := newRig(t, noZeros{disk}, disk, func(c *Config) {
		smallStep(c)
		c.Log = slog.New(slog.NewTextHandler(&lines, nil))
	})
	end := int64(0)
	for end < 3*r.firstZeros() {
		end = r.append(1000, 'x')
		r.await(func() bool { return r.Durable() == end })
	}
	r.zeros.mu.Lock()
	for r.zeros.bad == nil {
		r.zeros.calm.Wait()
	}
	r.zeros.mu.Unlock()
	end = r.append(2*pageBytes, 'x')
	r.await(func() bool { return r.Durable() == end })
	r.shut()
	if got := lines.with("zeros"); got != 1 {
		t.Errorf("%d lines about zeros:\n%s", got, lines.b.String())
	}
	if err := r.Err(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// lineCounter keeps what a logger writes.
type lineCounter struct{ b strings.Builder }

func (c *lineCounter) Write(p []byte) (int, error) { return c.b.Write(p) } // slog's handler has a lock

func (c *lineCounter) with(text string) int { return strings.Count(c.b.String(), text) }
