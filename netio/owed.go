package netio

import (
	"time"

	"ringmq/netio/wire"
)

// failure is what FailOwed was called with.
type failure struct {
	code   wire.Code
	remark string
}

// release pays what the marks have reached, and everything after a failure.
//
// Nothing is lost between a loop and Advance: the loop raises interested before it reads the marks
// here, Advance stores the marks before it reads interested. Whichever comes second sees the other.
func (l *Loop) release() {
	reached := [marks]int64{AtWritten: l.s.written.Load(), AtVisible: l.s.visible.Load()}
	failed := l.s.failed.Load()
	var since time.Duration // when the last n of those that are paid were owed: one turn's at a time
	n := int64(0)
	count := func() {
		if n > 0 {
			l.n.owedFor.Add((l.now - since).Microseconds(), n)
		}
	}
	for m := range l.owed {
		f := &l.owed[m]
		for d := f.head(); d != nil && (d.end <= reached[m] || failed != nil); d = f.head() {
			if d.end <= reached[m] {
				if d.since != since {
					count()
					since, n = d.since, 0
				}
				n++
				l.pay(f, d, f.frame(d))
				continue
			}
			l.n.failedAnswers.Add(1)
			l.recoded = wire.Recode(l.recoded[:0], f.frame(d), failed.code, failed.remark, false)
			l.pay(f, d, l.recoded)
		}
	}
	count()
}

// payOverdue answers with "flush timed out" what was owed for too long, in order. The fields stay: the
// message has its place in the queue, and clients take the code as "sent, perhaps not yet safe".
func (l *Loop) payOverdue() {
	for m := range l.owed {
		f := &l.owed[m]
		for d := f.head(); d != nil && l.now-d.since >= l.s.o.OweWait; d = f.head() {
			l.n.overdueAnswers.Add(1)
			l.recoded = wire.Recode(l.recoded[:0], f.frame(d), wire.FlushDiskTimeout, "", true)
			l.pay(f, d, l.recoded)
		}
	}
}

// pay queues the answer of the head of f and removes it.
func (l *Loop) pay(f *fifo, d *debt, frame []byte) {
	if c := d.conn; !c.gone {
		c.account(0, -d.bytes)
		if !c.closing.Load() {
			c.queueBytes(frame)
		}
	}
	f.pop()
	l.n.owed.Add(-1)
}

// weighOwed keeps the memory of the owed answers in the server's sum.
func (l *Loop) weighOwed() {
	held := 0
	for m := range l.owed {
		held += l.owed[m].held()
	}
	if held != l.owedHeld {
		l.s.outBytes.Add(int64(held - l.owedHeld))
		l.owedHeld = held
	}
}
