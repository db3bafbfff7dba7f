package offset

import (
	"context"
	"time"

	"ringmq/store/sidefile"
)

// Run persists the table at each tick until ctx ends, and once more then. Errors are logged, and the next tick
// tries again: offsets in memory are not touched by them.
func (t *Table) Run(ctx context.Context, tick <-chan time.Time) {
	sidefile.Keep(ctx, tick, t.opts.Log, "consumer offsets", t.Persist)
	if err := t.Persist(); err != nil {
		t.opts.Log.Error("consumer offsets are not persisted at the end", "error", err)
	}
}
