package rpc

import (
	"sync"
	"time"
)

const (
	rateSlot  = 10 * time.Second // what is counted together
	rateSlots = 7                // the last minute in whole slots, and the one that goes on

	// maxRates bounds the pairs of group and topic whose rate is known: some 4 MiB. Where there are more, those that
	// were given nothing for a minute make room, and if there are none the newest pair counts as 0.
	maxRates = 16_384
)

// rates are how many messages per second each group was given of each topic within about the last minute, as the stock
// broker 5.5.0 reckons it. The zero value is ready; any goroutine may use it.
type rates struct {
	mu sync.Mutex // leaf; guards what follows
	by map[groupTopic]*rate
}

type groupTopic struct{ group, topic string }

// rate counts by slots of time.
type rate struct {
	since int64 // ms: when it was counted first
	slot  [rateSlots]int64
	count [rateSlots]int64
}

func slotOf(now time.Time) int64 { return now.UnixMilli() / rateSlot.Milliseconds() }

// add counts messages that a group was given.
func (r *rates) add(group, topic string, n int, now time.Time) {
	at := slotOf(now)
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.by[groupTopic{group, topic}]
	if c == nil {
		if c = r.newLocked(groupTopic{group, topic}, now); c == nil {
			return
		}
	}
	i := at % rateSlots
	if c.slot[i] != at {
		c.slot[i], c.count[i] = at, 0
	}
	c.count[i] += int64(n)
}

// newLocked makes room for a pair; nil if there is none.
func (r *rates) newLocked(k groupTopic, now time.Time) *rate {
	if r.by == nil {
		r.by = map[groupTopic]*rate{}
	}
	if len(r.by) >= maxRates {
		for old, c := range r.by {
			if c.sum(slotOf(now)) == 0 {
				delete(r.by, old)
			}
		}
		if len(r.by) >= maxRates {
			return nil
		}
	}
	c := &rate{since: now.UnixMilli()}
	r.by[k] = c
	return c
}

// sum is what was counted in the last minute and since.
func (c *rate) sum(at int64) (n int64) {
	for i, slot := range c.slot {
		if slot <= at && slot > at-rateSlots {
			n += c.count[i]
		}
	}
	return n
}

// perSecond is the rate of a group and a topic.
func (r *rates) perSecond(group, topic string, now time.Time) float64 {
	at := slotOf(now)
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.by[groupTopic{group, topic}]
	if c == nil {
		return 0
	}
	from := max(c.since, (at-rateSlots+1)*rateSlot.Milliseconds())
	return float64(c.sum(at)) * 1000 / float64(max(now.UnixMilli()-from, 1000))
}
