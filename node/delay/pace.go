package delay

import (
	"time"

	"ringmq/store"
)

// A flood of due messages is spread while others write to the log: every message that is delivered takes its time, by
// number and by bytes, and what is due waits until there is time for a small batch. Ten thousand due in a second, of
// 1 KiB, are well below that; more are late by what they exceed it. With the log to itself a flood goes as quickly as
// the disk takes it.
const (
	paceCount = time.Second / 20_000            // of one message
	paceBytes = time.Second * 1024 / (32 << 20) // of each KiB
	paceLeast = time.Millisecond                // as much time as a batch wants
	paceMost  = 20 * time.Millisecond           // as much may be had at once

	// othersFor is how long others count as writing after they wrote.
	othersFor = 100 * time.Millisecond
)

// pacer knows whether others write, and how much may be delivered beside them. Run's goroutine only.
type pacer struct {
	own    int64     // messages that were delivered
	others int64     // that others had stored when it was last looked
	looked time.Time // when that was
	wrote  time.Time // others wrote then, or later
	spent  time.Time // the time up to here is taken
}

// look is told how many messages the log has taken.
func (p *pacer) look(appended int64, now time.Time) {
	if n := appended - p.own; n > p.others {
		p.others, p.wrote = n, p.looked
	}
	p.looked = now
}

// beside reports whether others write at present.
func (p *pacer) beside(now time.Time) bool {
	since := now.Sub(p.wrote)
	return since >= 0 && since < othersFor // the clock may be set
}

// have is the time that there is for messages.
func (p *pacer) have(now time.Time) time.Duration {
	if from := now.Add(-paceMost); p.spent.Before(from) || p.spent.After(now.Add(time.Second)) {
		p.spent = from
	}
	return now.Sub(p.spent)
}

// most is how many messages there may be time for, one at least.
func (p *pacer) most(now time.Time) int { return int(max(p.have(now), 0)/paceCount) + 1 }

// take is how many of the entries there is time for, one at least, and takes that time.
func (p *pacer) take(due []store.Entry, now time.Time) int {
	have, spent, n := p.have(now), time.Duration(0), 0
	for n < len(due) && (n == 0 || spent < have) {
		spent += max(paceCount, paceBytes*time.Duration(due[n].Bytes)/1024)
		n++
	}
	p.spent = p.spent.Add(spent)
	return n
}
