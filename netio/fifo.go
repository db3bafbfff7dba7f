package netio

import (
	"slices"
	"time"
	"unsafe"
)

// debt is one owed answer: whom it is for and when it may go out.
type debt struct {
	conn  *Conn
	end   int64         // goes out once the mark reaches this position of the log
	since time.Duration // on the server's clock
	from  int64         // where its frame starts, counted from the first byte ever owed in this fifo
	bytes int
}

// fifo holds the owed answers of one loop that wait for one mark, in the order of their sends. Both
// slices are queues that are taken from at the front: the emptied part is closed up when it
// makes up half, so that each byte moves once on average and nothing is allocated at a steady depth.
// Loop only.
type fifo struct {
	debts []debt
	first int // debts[:first] are paid

	frames []byte // encoded answers, one after the other
	base   int64  // what debt.from is for frames[0]
}

const debtBytes = 40 // of memory; part of what a loop accounts for

var _ = [1]struct{}{}[debtBytes-unsafe.Sizeof(debt{})] // stops compiling when it is no longer true

// fifoKeepBytes is how much room for frames an empty fifo keeps: twice the answers of some 1,500 sends, as
// those that are paid stay until they make up half. So a batch of them does not find its room gone.
const fifoKeepBytes = 1 << 20

func (f *fifo) len() int { return len(f.debts) - f.first }

// held is the memory of both slices, paid entries included until they are closed up. What an empty
// fifo keeps for reuse does not count.
func (f *fifo) held() int {
	if f.len() == 0 {
		return 0
	}
	return cap(f.frames) + cap(f.debts)*debtBytes
}

// push encodes an answer behind the others and returns its length.
func (f *fifo) push(c *Conn, end int64, since time.Duration, answer Answer) int {
	from := len(f.frames)
	f.frames = answer.Append(f.frames)
	n := len(f.frames) - from
	f.debts = slices.Grow(f.debts, 1)[:len(f.debts)+1]
	d := &f.debts[len(f.debts)-1]
	d.conn, d.end, d.since, d.from, d.bytes = c, end, since, f.base+int64(from), n
	return n
}

// head returns the oldest debt, nil when there is none. It stays valid until the next push or pop.
func (f *fifo) head() *debt {
	if f.len() == 0 {
		return nil
	}
	return &f.debts[f.first]
}

// frame returns the encoded answer of a debt that was not popped yet.
func (f *fifo) frame(d *debt) []byte {
	at := int(d.from - f.base)
	return f.frames[at : at+d.bytes]
}

// pop removes the head.
func (f *fifo) pop() {
	paid := int(f.debts[f.first].from-f.base) + f.debts[f.first].bytes
	f.debts[f.first] = debt{} // lets go of the connection
	f.first++
	if f.first == len(f.debts) {
		f.reset()
		return
	}
	if f.first >= 64 && f.first*2 >= len(f.debts) {
		n := copy(f.debts, f.debts[f.first:])
		clear(f.debts[n:])
		f.debts, f.first = f.debts[:n], 0
	}
	if paid >= 4096 && paid*2 >= len(f.frames) {
		n := copy(f.frames, f.frames[paid:])
		f.frames, f.base = f.frames[:n], f.base+int64(paid)
	}
}

// reset is what remains when the last debt is paid.
func (f *fifo) reset() {
	f.base += int64(len(f.frames))
	f.debts, f.first, f.frames = f.debts[:0], 0, f.frames[:0]
	if cap(f.frames) > fifoKeepBytes {
		f.debts, f.frames = nil, nil
	}
}
