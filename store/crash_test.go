package store

import (
	"fmt"
	"os"
	"testing"
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
	if err := w.checkDisk(); err != nil {
		return err
	}
	if _, err := w.live(neverCut, func(l *life) error {
		if err := l.sendSome(5); err != nil {
			return err
		}
		return l.Close()
	}); err != nil {
		return err
	}
	w.powerCut(0)
	if err := w.checkDisk(); err != nil {
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
	if k < 100 {
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
	for seed := range seeds {
		for _, keep := range []int{0, 100, 50} {
			t.Run(fmt.Sprintf("seed=%d/keep=%d", seed, keep), func(t *testing.T) {
				t.Parallel()
				eachCut(t, func(k int) bool {
					w := newWorld(t, seed<<32+uint64(k))
					w.disk.TearSectors(k%2 == 1)
					cut, err := w.live(k, run)
					w.powerCut(keep)
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
