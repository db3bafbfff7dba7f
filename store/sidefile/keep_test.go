package sidefile

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestKeep: a disk that fails for an hour fills no log; each change of heart is one line.
func TestKeep(t *testing.T) {
	var log strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	tick, done, calls := make(chan time.Time), make(chan struct{}), 0
	go func() {
		defer close(done)
		Keep(ctx, tick, slog.New(slog.NewTextHandler(&log, nil)), "topics", func() error {
			if calls++; calls >= 2 && calls <= 4 {
				return errors.New("no disk")
			}
			return nil
		})
	}()
	for range 6 {
		tick <- time.Time{}
	}
	cancel()
	<-done
	if calls != 6 || strings.Count(log.String(), "no disk") != 1 || strings.Count(log.String(), "works again") != 1 {
		t.Errorf("%d calls, log:\n%s", calls, log.String())
	}
	if strings.Count(log.String(), "what=topics") != 2 {
		t.Errorf("the lines do not say what: %s", log.String())
	}
}
