package log

import (
	"errors"
	"fmt"
	"time"
)

// writer is the one goroutine that writes and flushes the log.
//
// With FlushSync every write is followed by a flush of its own. While a flush is in flight, what
// comes in gathers in staging and becomes the next write. A second flush starts beside it only when
// as many bytes wait as are in flight: smaller ones gain more from being joined. Where somebody waits
// for the kernel only (HurryLocked) bytes are written at once all the same, up to a staging of them,
// and the next flush covers them. So at most (2 + FlushDepth) * StagingBytes are given out and not yet
// durable: one staging that fills, one that was written in a hurry, and one of at most a staging per
// flush.
//
// When one sender comes after the other (idle), and always with a FlushDepth of 1, the write and its flush are one
// call of this goroutine: no other thread takes part.
//
// Without FlushSync whatever is staged is written at once and flushed on a timer, or as soon as an eighth
// of UnflushedBytes has come together. Beyond UnflushedBytes, or the one write of at most a staging that
// finds everything durable, nothing is written before a flush has made room: a power cut takes no more.
type writer struct {
	l         *Log
	fly       flushes
	written   int64
	durable   int64
	issued    int64 // below it, a flush was begun
	lastFlush time.Time
	told      [2]int64 // what Advanced was last told
	crowded   bool     // the last bytes came while a flush was in flight
	hurried   bool     // somebody once waited for the kernel only, and may do so again
	failed    bool
	vec       [2][]byte
}

// zeros is what pads a write: up to the next zero step, behind eight zero bytes.
var zeros [ZeroStepBytes + 2*pageBytes]byte

func (w *writer) run() {
	defer close(w.l.done)
	for {
		durable, err := w.fly.reap(w.durable, w.waitFor())
		switch {
		case w.failed: // nothing counts any more
		case err != nil:
			w.fail(fmt.Errorf("flush: %w", err))
		default:
			w.durable = durable
			w.work()
		}
		if w.finished() {
			return
		}
	}
}

// work writes and flushes what may be, then tells. In this order the answers for the last flush go
// out while the next is on its way, where that is another thread's.
func (w *writer) work() {
	for {
		if w.single() {
			w.tell() // before the next call, which may take long
		}
		idle := w.idle()
		p, flush := w.take()
		if p.n == 0 && !flush {
			break
		}
		done, err := false, error(nil)
		if idle && flush && (w.single() || !w.crowded && p.n <= quietBytes) {
			done, err = w.writeDurable(p)
		}
		w.crowded = !idle
		if p.n > 0 && !done && err == nil {
			err = w.write(p)
		}
		if err != nil {
			w.tell()
			w.fail(err)
			return
		}
		if flush && !done {
			w.flush()
		}
	}
	for !w.l.cfg.FlushSync && w.flushDue() {
		w.flush()
	}
	w.tell()
}

// take returns all staged bytes that go to one segment, if the policy lets them be written now, and
// whether a flush follows. There may be one without the other.
func (w *writer) take() (p piece, flush bool) {
	l := w.l
	l.mu.Lock()
	defer l.mu.Unlock()
	enough := l.pending >= w.missingLocked()
	flush = enough && l.cfg.FlushSync
	if len(l.pieces) == 0 || !enough && !w.hurryLocked() {
		return piece{}, flush
	}
	p = l.pieces[0]
	l.pieces = l.pieces[:copy(l.pieces, l.pieces[1:])]
	l.pending -= p.n
	w.hurried = w.hurried || l.hurry
	l.hurry = l.hurry && len(l.pieces) > 0
	return p, flush
}

// missingLocked is how many bytes must be pending before the next write, and with FlushSync a flush, may
// start. What was written in a hurry counts with them.
func (w *writer) missingLocked() int64 {
	unflushed := w.written - w.issued
	switch {
	case !w.l.cfg.FlushSync && w.exposedLocked():
		return never
	case !w.l.cfg.FlushSync:
		return 1
	case len(w.fly.flying) == 0:
		return 1 - unflushed
	case !w.fly.free():
		return never
	}
	return w.fly.bytes - unflushed
}

// exposedLocked reports whether the next write would leave more in danger of a power cut than may be.
func (w *writer) exposedLocked() bool {
	l := w.l
	return len(l.pieces) > 0 && w.written > w.durable && l.pieces[0].end()-w.durable > l.cfg.UnflushedBytes
}

// hurryLocked reports whether pending bytes are to be written before the flush that will cover them
// may start.
func (w *writer) hurryLocked() bool {
	return w.l.hurry && w.written-w.issued < int64(w.l.cfg.StagingBytes)
}

// write puts p and zeros behind it into the file.
func (w *writer) write(p piece) error {
	g := p.seg
	pad := w.fill(p)
	if pad > g.zeroed && w.l.cfg.FlushSync {
		w.l.zeros.pass(g, pad)
	}
	began := time.Now()
	w.l.times.staged.AddTime(began.Sub(p.since))
	if _, err := g.file.WriteVec(w.vec[:], p.off-g.base); err != nil {
		return fmt.Errorf("write %d bytes at %d: %w", p.n, p.off, err)
	}
	w.l.times.write.AddTime(time.Since(began))
	if pad > g.zeroed {
		g.fresh, g.zeroed = true, pad
	}
	w.wrote(p)
	return nil
}

// fill points vec to p and the zeros behind it, and returns where these end in the segment. At least
// eight zero bytes follow the last record, so that whoever walks the log stops there; zeros to the
// page's end spare the kernel reading the page. Where few bytes come to blocks that were never written, more
// zeros save the next writes that; many bytes with two flushes are quicker than zeros first.
func (w *writer) fill(p piece) (pad int64) {
	g := p.seg
	end := p.off + p.n - g.base
	pad = roundUp(end+blankBytes, pageBytes)
	g.zeroed = max(g.zeroed, g.safe.Load())
	if pad > g.zeroed && w.wantsZeros(p) {
		pad = roundUp(pad, w.l.cfg.ZeroStepBytes)
	}
	pad = min(pad, g.size)
	w.vec[0], w.vec[1] = w.l.staging.mem.At(p.pos, int(p.n)), zeros[:max(pad-end, 0)]
	return pad
}

func (w *writer) wrote(p piece) {
	w.l.staging.written(p.n, p.blanks)
	w.written = p.end()
	w.l.writtenTo.Store(w.written)
	w.l.counters.writes.Add(1)
	if p.blanks == 0 && w.wantsZeros(p) {
		w.askZeros(p)
	}
}

// wantsZeros reports whether p is so small that its flush gains from blocks that were written before. Large
// ones fill the disk's bandwidth, and zeros would take half of it.
func (w *writer) wantsZeros(p piece) bool {
	return w.l.cfg.FlushSync && p.n < w.l.cfg.ZeroStepBytes
}

// askZeros has zeros go on in front of p, each time that another unit of them was used: each sync of zeros
// makes a flush of the log wait for the file system's journal.
func (w *writer) askZeros(p piece) {
	g, step := p.seg, w.l.cfg.ZeroStepBytes
	goal := min(roundUp(w.written-g.base, zeroUnitSteps*step)+zeroAheadSteps*step, g.size)
	if goal > max(g.wanted, g.zeroed) {
		g.wanted = goal
		w.l.zeros.want(g, g.zeroed, goal)
	}
}

// quietBytes are few enough to be written and flushed in one call.
const quietBytes = 64 << 10

// idle reports whether nothing is in flight or waits for a flush, and all marks are told. If bytes come
// then, as they did the time before, there is one sender after the other, and nobody loses by the writer
// waiting for the flush in the call that writes: it spares the hand-over to another thread and back.
func (w *writer) idle() bool {
	return len(w.fly.flying) == 0 && w.written == w.issued && w.told == [2]int64{w.written, w.durable}
}

// single reports whether one flush at a time is made. Then nothing is gained by giving it to another thread: the
// writer could only wait for it.
func (w *writer) single() bool { return w.l.cfg.FlushSync && w.l.cfg.FlushDepth == 1 }

// writeDurable writes and flushes p in one call, unless it touches blocks that were never written, somebody
// may come who waits for the kernel only, or the file has no such call.
func (w *writer) writeDurable(p piece) (done bool, err error) {
	g := p.seg
	if pad := w.fill(p); pad > g.zeroed || w.hurried {
		return false, nil
	}
	began := time.Now()
	if _, err := g.slots[0].WriteDurable(w.vec[:], p.off-g.base); errors.Is(err, errors.ErrUnsupported) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("write and flush %d bytes at %d: %w", p.n, p.off, err)
	}
	w.wrote(p)
	w.issued, w.durable = w.written, w.written
	w.l.times.staged.AddTime(began.Sub(p.since))
	w.l.slowFlush(p.n, w.l.times.flush.AddTime(time.Since(began)))
	w.l.times.batch.Add(p.n, 1)
	w.l.counters.flushes.Add(1)
	w.l.counters.inline.Add(1)
	return true, nil
}

// flush begins a flush of the first segment that has bytes which none covers yet.
func (w *writer) flush() {
	g := w.l.find(w.issued)
	end := min(w.written, g.end())
	w.fly.begin(g, end, end-w.issued)
	w.issued = end
	w.lastFlush = time.Now()
	w.l.counters.flushes.Add(1)
}

// flushDue decides without FlushSync: a full segment at once, much at once, then by pages and time.
func (w *writer) flushDue() bool {
	dirty := w.written - w.issued
	if dirty == 0 || !w.fly.free() {
		return false
	}
	if dirty >= w.l.cfg.UnflushedBytes/8 || w.written >= w.l.find(w.issued).end() {
		return true
	}
	return w.pressed() || time.Since(w.lastFlush) >= w.flushEvery()
}

// flushEvery is the time between two flushes without FlushSync: longer while few pages are dirty.
func (w *writer) flushEvery() time.Duration {
	if w.written-w.issued < int64(w.l.cfg.FlushLeastPages)*pageBytes {
		return w.l.cfg.FlushThorough
	}
	return w.l.cfg.FlushInterval
}

// slowFlush writes a line about a flush that took long. There are few of them a second by their nature.
func (l *Log) slowFlush(n int64, took time.Duration) {
	if took > l.cfg.SlowFlush {
		l.cfg.Log.Warn("store: a flush was slow", "took", took, "bytes", n)
	}
}

// tell reports the marks if they moved, or if refused appends may fare otherwise now.
func (w *writer) tell() {
	now := [2]int64{w.written, w.durable}
	moved := now != w.told
	if moved {
		w.told = now
		w.l.durableTo.Store(w.durable)
	}
	if w.l.spare.news.Swap(false) || moved {
		w.l.cfg.Advanced(w.written, w.durable)
	}
}

// fail ends the log: nothing staged or in flight is acknowledged any more.
func (w *writer) fail(err error) {
	w.failed = true
	err = fmt.Errorf("%w: %w", ErrFailed, err)
	w.l.refuse(err)
	w.l.cfg.Failed(err)
}

// waitFor arms the appenders' wake-up and returns how long to wait for a completion or a kick.
func (w *writer) waitFor() time.Duration {
	l := w.l
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case w.failed:
		l.wakeAt = never
		return w.orLook(-1)
	case l.pending >= w.missingLocked(), w.hurryLocked():
		return 0
	}
	l.wakeAt = w.missingLocked()
	if l.cfg.FlushSync || w.written == w.issued || !w.fly.free() {
		return w.orLook(-1)
	}
	return w.orLook(max(w.flushEvery()-time.Since(w.lastFlush), 0))
}

// orLook waits, unless closing has left nothing to wait for.
func (w *writer) orLook(wait time.Duration) time.Duration {
	if w.l.closing && len(w.fly.flying) == 0 {
		return 0
	}
	return wait
}

// pressed reports whether closing or a write waits for the next flush.
func (w *writer) pressed() bool {
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	return w.l.closing || w.exposedLocked()
}

// finished reports whether closing is asked for and nothing is left to do.
func (w *writer) finished() bool {
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	if !w.l.closing {
		return false
	}
	return w.failed || (w.l.pending == 0 && w.durable == w.written)
}

func roundUp(n, step int64) int64 { return (n + step - 1) / step * step }
