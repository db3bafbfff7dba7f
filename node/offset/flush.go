package offset

import (
	"context"
	"time"
)

// Run persists the table at each tick until ctx ends, and once more then. Errors are logged, one line for
// each change of heart, and the next tick tries again: offsets in memory are not touched by them.
func (t *Table) Run(ctx context.Context, tick <-chan time.Time) {
	failing := false
	for running := true; running; {
		select {
		case <-tick:
		case <-ctx.Done():
			running = false
		}
		err := t.Persist()
		switch {
		case err != nil && (!failing || !running):
			t.opts.Log.Error("consumer offsets are not being persisted", "error", err)
		case err == nil && failing:
			t.opts.Log.Info("consumer offsets are being persisted again", "path", t.path)
		}
		failing = err != nil
	}
}
