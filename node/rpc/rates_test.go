package rpc

import (
	"fmt"
	"testing"
	"time"
)

// TestRates: what a group was given counts for about a minute, each topic for itself, and the table has a bound.
func TestRates(t *testing.T) {
	var r rates
	now := time.UnixMilli(1_800_000_000_000)
	want := func(when, topic string, least, most float64) {
		t.Helper()
		if got := r.perSecond("G", topic, now); got < least || got > most {
			t.Errorf("%s: %v per second of %s, want %v to %v", when, got, topic, least, most)
		}
	}
	want("nothing yet", "T", 0, 0)
	for range 300 { // s
		r.add("G", "T", 20, now)
		r.add("G", "U", 1, now)
		r.add("H", "T", 1000, now)
		now = now.Add(time.Second)
	}
	want("after five minutes", "T", 19.5, 20.5)
	want("after five minutes", "U", 0.9, 1.1)
	now = now.Add(30 * time.Second)
	want("half a minute of rest", "T", 5, 15)
	now = now.Add(45 * time.Second)
	want("more than a minute of rest", "T", 0, 0)
	r.add("G", "T", 60, now)
	now = now.Add(time.Minute)
	want("one pull a minute ago", "T", 0.8, 1)

	for i := range maxRates + 10 {
		r.add("G", fmt.Sprint(i), 1, now)
	}
	if len(r.by) > maxRates {
		t.Errorf("%d pairs", len(r.by))
	}
	now = now.Add(2 * time.Minute)
	r.add("G", "new", 60, now)
	now = now.Add(10 * time.Second)
	want("the others were idle", "new", 3, 7)
}
