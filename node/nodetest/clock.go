package nodetest

import (
	"slices"
	"sync"
	"time"

	"ringmq/node"
)

// Clock is a node.Clock that stands still until a test moves it. Any goroutine may use it.
type Clock struct {
	mu     sync.Mutex
	now    time.Time
	timers []*timer
}

var _ node.Clock = (*Clock)(nil)

// timer is one AfterFunc, or one Tick, which comes again every period.
type timer struct {
	at     time.Time
	period time.Duration
	ring   func(now time.Time)
}

// NewClock returns a clock that shows a fixed moment.
func NewClock() *Clock { return &Clock{now: time.UnixMilli(1_800_000_000_000)} }

// Now returns the moment that the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc calls f from the Advance that reaches d. What is due already is called at once, from a goroutine of its own,
// as the machine's clock does.
func (c *Clock) AfterFunc(d time.Duration, f func()) (stop func()) {
	if d <= 0 {
		go f()
		return func() {}
	}
	return c.add(&timer{ring: func(time.Time) { f() }}, d)
}

// Tick sends from each Advance that reaches the next d.
func (c *Clock) Tick(d time.Duration) (<-chan time.Time, func()) {
	ticks := make(chan time.Time, 1)
	return ticks, c.add(&timer{period: d, ring: func(now time.Time) {
		select {
		case ticks <- now:
		default:
		}
	}}, d)
}

func (c *Clock) add(t *timer, d time.Duration) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.at = c.now.Add(d)
	c.timers = append(c.timers, t)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.timers = slices.DeleteFunc(c.timers, func(x *timer) bool { return x == t })
	}
}

// Advance moves the clock on and rings what is due on the way, in its order.
func (c *Clock) Advance(d time.Duration) {
	end := c.Now().Add(d)
	for {
		t := c.next(end)
		if t == nil {
			return
		}
		t.ring(c.Now())
	}
}

// Step sets the clock to another time, forward or back. Timers count the time that goes by, so that they ring no
// sooner and no later for it, as those of a machine whose clock is set.
func (c *Clock) Step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for _, t := range c.timers {
		t.at = t.at.Add(d)
	}
}

// next moves the clock to the first timer that is due by end, or to end.
func (c *Clock) next(end time.Time) *timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := -1
	for i, t := range c.timers {
		if !t.at.After(end) && (first < 0 || t.at.Before(c.timers[first].at)) {
			first = i
		}
	}
	if first < 0 {
		c.now = end
		return nil
	}
	t := c.timers[first]
	if t.at.After(c.now) {
		c.now = t.at
	}
	if t.period > 0 {
		t.at = t.at.Add(t.period)
	} else {
		c.timers = slices.Delete(c.timers, first, first+1)
	}
	return t
}
