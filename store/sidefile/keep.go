package sidefile

import (
	"context"
	"log/slog"
	"time"
)

// Keep calls persist at each tick until ctx ends. Errors are logged, one line for each change of heart, and the
// next tick tries again; what says in these lines what is persisted.
func Keep(ctx context.Context, tick <-chan time.Time, log *slog.Logger, what string, persist func() error) {
	failing := false
	for {
		select {
		case <-tick:
		case <-ctx.Done():
			return
		}
		err := persist()
		switch {
		case err != nil && !failing:
			log.Error("persisting fails, and is tried again", "what", what, "error", err)
		case err == nil && failing:
			log.Info("persisting works again", "what", what)
		}
		failing = err != nil
	}
}
