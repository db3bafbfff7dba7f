package node

import (
	"time"

	"ringmq/node/pull"
)

// Clock is the time that a node lives by.
type Clock interface {
	pull.Clock
	// Tick sends the time on c every d until stop is called. A tick that nobody takes is dropped.
	Tick(d time.Duration) (c <-chan time.Time, stop func())
}

// machineClock is the clock of the machine.
type machineClock struct{}

func (machineClock) Now() time.Time { return time.Now() }

func (machineClock) AfterFunc(d time.Duration, f func()) (stop func()) {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}

func (machineClock) Tick(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTicker(d)
	return t.C, t.Stop
}
