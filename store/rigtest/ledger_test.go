package rigtest

import (
	"fmt"
	"sync"
)

// place is a queue offset.
type place struct {
	queue int32
	at    int64
}

// ledger is what the stores on one directory have promised: each message that was acknowledged or shown,
// by its place. It outlives the processes that promised.
type ledger struct {
	mu       sync.Mutex
	promised map[place]promise
	broken   []string
}

type promise struct {
	hash  uint64
	acked bool
	seen  bool
}

func newLedger() *ledger { return &ledger{promised: map[place]promise{}} }

// promise notes a message; one that differs from an earlier promise breaks it.
func (l *ledger) promise(at place, p promise) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, ok := l.promised[at]
	if ok && before.hash != p.hash {
		l.broken = append(l.broken, fmt.Sprintf("%+v %+v: %+v was promised there", at, p, before))
	}
	p.acked, p.seen = p.acked || before.acked, p.seen || before.seen
	l.promised[at] = p
}

// compare holds what a store shows to what was promised: each message is there, and no queue has gaps.
// It returns what is wrong, a few words of it at least.
func (l *ledger) compare(found map[place]uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var acked, seen, changed int // of those that are gone, and those that are others now
	var example place
	for at, p := range l.promised {
		got, ok := found[at]
		if ok && got == p.hash {
			continue
		}
		example = at
		switch {
		case ok:
			changed++
		case p.acked:
			acked++
		default:
			seen++
		}
	}
	if acked+seen+changed > 0 {
		return fmt.Errorf("of %d promised messages %d that were acknowledged are gone, %d that were only shown, and %d are others now, such as %+v", len(l.promised), acked, seen, changed, example)
	}
	var ends [queues]int64
	for p := range found {
		ends[p.queue] = max(ends[p.queue], p.at+1)
	}
	if total := ends[0] + ends[1] + ends[2] + ends[3]; total != int64(len(found)) {
		return fmt.Errorf("queues end at %v but hold %d messages: offsets are missing", ends, len(found))
	}
	if len(l.broken) > 0 {
		return fmt.Errorf("%d promises were contradicted, such as %s", len(l.broken), l.broken[0])
	}
	return nil
}

var _ = [1]struct{}{}[queues-4] // the sum above
