package interop

import (
	"testing"
	"time"
)

// pollEvery is how often a condition is looked at while a test waits for it.
const pollEvery = 20 * time.Millisecond

// patience is how long a test waits for what must come: long, because a machine with two cores may be busy with other
// work. It is no measure of speed.
const patience = 3 * time.Minute

// eventually waits until check returns nil. Past the deadline it fails the test with what check said last; the
// deadline is no measure of speed, only the end of patience.
func eventually(t testing.TB, within time.Duration, what string, check func() error) {
	t.Helper()
	if err := poll(within, check); err != nil {
		t.Fatalf("waited %v for %s: %v", within, what, err)
	}
}

// poll is eventually for code that runs outside of a test.
func poll(within time.Duration, check func() error) error {
	deadline := time.Now().Add(within)
	for {
		err := check()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(pollEvery)
	}
}
