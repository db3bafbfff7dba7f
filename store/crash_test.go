package store

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
)

// run is the life that the crash tests cut: opens, fills three segments and several queue files, takes
// checkpoints, and closes.
func run(l *life) error {
	for range 3 {
		if err := l.sendSome(10); err != nil {
			return err
		}
		l.awaitCheckpoint()
	}
	return l.Close()
}

// after is what follows a crash: the promises hold, messages are taken again, and a close leaves what a
// stock broker opens.
func (w *world) after() error {
	if _, err := w.live(neverCut, func(l *life) error {
		if err := l.sendSome(5); err != nil {
			return err
		}
		return l.Close()
	}); err != nil {
		return err
	}
	if err := w.powerCut(0); err != nil {
		return err
	}
	_, err := w.live(neverCut, func(*life) error { return nil })
	return err
}

// eachCut calls f with 0, 1, 2, … until f reports that its run ended before the power went.
func eachCut(t *testing.T, f func(k int) (cut bool)) {
	t.Helper()
	k := 0
	for f(k) {
		k++
	}
	t.Logf("cut at %d disk calls", k)
	if k < 80 {
		t.Errorf("the run made only %d disk calls", k)
	}
}

// TestCrash cuts the power at every disk call of a run. Nothing, everything, or a random part of what
// was not synced is on the disk afterwards.
func TestCrash(t *testing.T) {
	seeds := uint64(1)
	if os.Getenv("RINGMQ_PROVE") != "" {
		seeds = 20
	}
	for seed := range 3 * seeds {
		for _, keep := range eachKeep {
			flushSync, depth := seed%3 > 0, 2-int(seed%3%2) // with a depth of 1 flushes are made in another way
			t.Run(fmt.Sprintf("sync=%v/depth=%d/seed=%d/keep=%d", flushSync, depth, seed, keep), func(t *testing.T) {
				t.Parallel()
				eachCut(t, func(k int) bool {
					w := newWorld(t, seed<<32+uint64(k))
					w.o.FlushDepth = depth
					w.o.FlushSync, w.o.FlushInterval, w.o.FlushThorough = flushSync, time.Millisecond, time.Millisecond
					w.disk.TearSectors(k%2 == 1)
					cut, err := w.live(k, run)
					if err == nil {
						err = w.powerCut(keep)
					}
					if err == nil {
						err = w.after()
					}
					if err != nil {
						t.Fatalf("k=%d: %v\n%s", k, err, &w.log)
					}
					return cut
				})
			})
		}
	}
}

// eachKeep are the fates of what was not synced: nothing, everything, or a random half of it is there.
var eachKeep = []int{0, 100, 50}

// TestCrashInRecovery cuts the power at every disk call of a recovery, after cuts all over a run.
func TestCrashInRecovery(t *testing.T) {
	for _, keep := range eachKeep {
		t.Run(fmt.Sprintf("keep=%d", keep), func(t *testing.T) {
			t.Parallel()
			places := 0
			for k, more := 5, true; more; k += 7 {
				for j, recovering := 0, true; recovering && more; j++ {
					w := newWorld(t, uint64(keep)<<32+uint64(k)<<16+uint64(j))
					var err error
					more, err = w.live(k, run)
					if err == nil {
						err = w.powerCut(50)
					}
					if err == nil {
						recovering, err = w.live(j, func(*life) error { return nil })
					}
					if err == nil {
						err = w.powerCut(keep)
					}
					if err == nil {
						err = w.after()
					}
					if err != nil {
						t.Fatalf("k=%d j=%d: %v\n%s", k, j, err, &w.log)
					}
					places++
				}
			}
			t.Logf("cut at %d places", places)
		})
	}
}

// TestCrashInRetention cuts the power at every disk call of a life whose log is kept short. No message behind
// its new beginning is lost, no queue offset comes again, and the directory opens.
func TestCrashInRetention(t *testing.T) {
	for _, keep := range eachKeep {
		t.Run(fmt.Sprintf("keep=%d", keep), func(t *testing.T) {
			t.Parallel()
			removed := int64(0)
			eachCut(t, func(k int) bool {
				w := newWorld(t, uint64(keep)<<32+uint64(k))
				w.o.Retention = Retention{MaxBytes: 2 * w.o.SegmentBytes}
				cut, err := w.live(k, runShort)
				if err == nil {
					err = w.powerCut(keep)
				}
				if err == nil {
					_, err = w.live(neverCut, runShort)
				}
				if err == nil {
					err = w.after()
				}
				if err != nil {
					t.Fatalf("k=%d: %v\n%s", k, err, &w.log)
				}
				removed = max(removed, w.gone)
				return cut
			})
			if removed == 0 {
				t.Error("nothing was ever removed")
			}
		})
	}
}

// runShort is run with a round of removal after each part.
func runShort(l *life) error {
	for range 4 {
		if err := l.sendSome(10); err != nil {
			return err
		}
		l.awaitCheckpoint()
		l.retainRound(context.Background())
		if min := l.log.Min(); min > l.w.gone {
			l.w.gone, l.w.tails = min, nil // what stood behind an earlier end may have been in those files
		}
	}
	return l.Close()
}

// TestKillThenCrash kills the process at every disk call of a run: what it wrote is in the page cache.
// The next one shows it, and then the power goes, at once or at a call of its own.
func TestKillThenCrash(t *testing.T) {
	for _, keep := range eachKeep {
		t.Run(fmt.Sprintf("keep=%d", keep), func(t *testing.T) {
			t.Parallel()
			eachCut(t, func(k int) bool {
				w := newWorld(t, uint64(keep)<<32+uint64(k))
				cut, err := w.live(k, run)
				if err == nil {
					_, err = w.live(w.rng.IntN(120), func(l *life) error { return l.sendSome(5) })
				}
				if err == nil {
					err = w.powerCut(keep)
				}
				if err == nil {
					err = w.after()
				}
				if err != nil {
					t.Fatalf("k=%d: %v\n%s", k, err, &w.log)
				}
				return cut
			})
		})
	}
}
