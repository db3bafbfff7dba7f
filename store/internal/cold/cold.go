// Package cold reads what the page cache does not hold, without putting it there, so that who catches up takes nothing away
// from those at the end of the log.
//
//	                      |<- pieces of 256 KiB, counted from the segment's first byte ->|
//	segment  +------------+------------+------------+------------+------------+----- ... +
//	                         wanted       read ahead: 1 to 4 MiB
//
// Take waits until the pieces that hold some ranges are read, and lends them out; Lookup and Copy find what is there already
// and never wait. Pieces are read by a ring (ring.go), or by some threads where there is none (threads.go), straight from the
// disk and at idle priority, into off-heap memory with a fixed number of places. A piece stays until its place is wanted or
// nothing was wanted for a while. Who reads on from piece to piece finds the next ones read.
//
// Bytes of the log below the durable mark never change, so a piece is never wrong; it may only be of no use any more.
package cold

import (
	"container/list"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"ringmq/store/vfs"
	"ringmq/uring"
)

const (
	pieceBytes = 256 << 10
	pageBytes  = 4096

	// firstAhead pieces are read in front of somebody who seems to read on, and once he has used one of those mostAhead, but
	// no more than an eighth of the memory.
	firstAhead = 4
	mostAhead  = 16
	nearPieces = 3 // a step over fewer than these is reading on

	// fewBytes: if less is wanted of a piece, and nobody reads on, only that is read.
	fewBytes = 64 << 10

	// heldPieces may be held by one Take while it waits; takers is how many may do so at once.
	heldPieces = 8
	takers     = 4

	// MinBytes is the smallest budget: half of it may be lent out, and the rest is enough for all takers, who then never
	// wait for each other.
	MinBytes = 2 * takers * heldPieces * pieceBytes

	// idleAfter is how long pieces that nobody wants stay.
	idleAfter = 10 * time.Second
)

// ErrClosed means that Close was called.
var ErrClosed = errors.New("store: closed")

// ErrFresh means that bytes are not all durable. Such are in the page cache, and may be on their way to the disk: reading
// past the cache would wait for that.
var ErrFresh = errors.New("store: not durable yet")

// ErrGone means that the log does not hold the bytes any more.
var ErrGone = errors.New("store: removed from the log")

// Segment is a file of the log that is held open.
type Segment interface {
	// Direct is the open file to read from. It belongs to the segment.
	Direct() (vfs.Direct, error)
	Release()
}

// Options sets up a Reader. All fields but Ring must be set.
type Options struct {
	// Bytes of memory for pieces, MinBytes at least.
	Bytes int64

	// Span returns the physical offsets of the segment that holds off; not ok if none does. Any goroutine.
	Span func(off int64) (base, end int64, ok bool)

	// Acquire holds the segment that begins at base; not ok if it is gone. Any goroutine.
	Acquire func(base int64) (Segment, bool)

	// Durable is the end of what is on the disk. Any goroutine.
	Durable func() int64

	// Ring makes a ring, or says why there is none; nil where files have no descriptors, and no disk.
	Ring func(entries uint32) (*uring.Ring, error)

	Log *slog.Logger
}

// Range is a stretch of the log in one segment.
type Range struct {
	Offset int64
	Bytes  int
}

// Stats are counters since New, but Held.
type Stats struct {
	Reads    int64 // pieces read
	Bytes    int64 // of them
	Ahead    int64 // of the pieces, those that nobody had asked for yet
	Buffered int64 // of the pieces, those that went through the page cache: there is no O_DIRECT
	Failed   int64 // pieces that could not be read
	Found    int64 // ranges that were there when they were wanted
	Waits    int64 // times that somebody waited for room
	Copied   int64 // bytes that were copied, since too much was lent out already or too much wanted at once
	Held     int64 // bytes of pieces in memory now
}

type counters struct {
	reads, bytes, ahead, buffered, failed, found, waits, copied atomic.Int64
}

// Reader reads pieces and keeps some. Any goroutine may call its methods; Take waits for the disk, nothing else does.
type Reader struct {
	o     Options
	n     counters
	there atomic.Int64 // pieces; 0 spares a look

	// mu guards what follows. Leaf lock: memory only.
	mu      sync.Mutex
	room    sync.Cond // somebody may find a place now
	arena   *uring.Arena
	engine  engine
	pieces  map[int64]*piece // by the physical offset of the place's first byte
	unused  list.List        // of ready *piece without users; front: used last
	free    []int            // places
	reading int              // pieces in flight
	lent    int              // pieces that are lent out
	uses    int64            // grows with each use
	seen    int64            // uses when trim looked last
	timer   *time.Timer
	closed  bool
}

// piece is bytes lo to hi of the log in place: from being read until its place is given to another.
type piece struct {
	// Constant.
	r      *Reader
	at     int64 // physical offset that the place's first byte stands for
	lo, hi int64 // physical; whole pages of the file
	place  int
	ahead  bool          // made for nobody
	done   chan struct{} // closed when it is read

	// Guarded by r.mu.
	users int
	lent  int           // of them, those of uring.MemRange
	used  bool          // somebody wanted it
	stray bool          // another has taken its key
	idle  *list.Element // in r.unused

	// Written before done is closed, constant then.
	err error

	// The engine's, until done is closed.
	segment Segment
	file    vfs.Direct
	past    bool
	base    int64 // physical offset of the segment
	ruined  bool  // the kernel may still write to the place
}

// New returns a Reader. It makes nothing before it is used.
func New(o Options) *Reader {
	r := &Reader{o: o, pieces: map[int64]*piece{}}
	r.o.Bytes = max(r.o.Bytes, MinBytes) / pieceBytes * pieceBytes
	r.room.L = &r.mu
	return r
}

// places is how many pieces there may be.
func (r *Reader) places() int { return int(r.o.Bytes / pieceBytes) }

// bytes is the memory of a physical range of the piece.
func (p *piece) bytes(from, to int64) []byte {
	return p.r.arena.Bytes(p.place*pieceBytes+int(from-p.at), int(to-from))
}

func (p *piece) ready() bool {
	select {
	case <-p.done:
		return p.err == nil
	default:
		return false
	}
}

func (p *piece) holds(lo, hi int64) bool { return p.lo <= lo && hi <= p.hi }

// key returns the offset of the piece that holds off, and the end of the largest piece there.
func key(off, base, end int64) (at, to int64) {
	at = base + (off-base)/pieceBytes*pieceBytes
	return at, min(at+pieceBytes, end)
}

func floor(n int64) int64 { return n / pageBytes * pageBytes }

// Lookup adds n bytes from off to into if all of them are there and may be lent out, and reports that. Each MemRange must be
// released. It does not wait.
func (r *Reader) Lookup(into []uring.MemRange, off int64, n int) ([]uring.MemRange, bool) {
	if r.there.Load() == 0 {
		return into, false
	}
	base, end, ok := r.o.Span(off)
	if !ok || off+int64(n) > end {
		return into, false
	}
	had := len(into)
	r.mu.Lock()
	defer r.unlock()
	for to := off + int64(n); off < to; {
		at, max := key(off, base, end)
		upto := min(max, to)
		p := r.pieces[at]
		if p == nil || !p.ready() || !p.holds(off, upto) || !r.lendLocked(p) {
			for _, m := range into[had:] {
				m.Owner.(*piece).giveBackLocked()
			}
			return into[:had], false
		}
		r.useLocked(p, base)
		into = append(into, uring.MemRange{Bytes: p.bytes(off, upto), Owner: p})
		off = upto
	}
	r.n.found.Add(1)
	return into, true
}

// Copy fills b from off if all of it is there, and reports that. It does not wait.
func (r *Reader) Copy(b []byte, off int64) bool {
	if r.there.Load() == 0 {
		return false
	}
	base, end, ok := r.o.Span(off)
	if !ok || off+int64(len(b)) > end {
		return false
	}
	r.mu.Lock()
	defer r.unlock()
	for len(b) > 0 {
		at, max := key(off, base, end)
		upto := min(max, off+int64(len(b)))
		p := r.pieces[at]
		if p == nil || !p.ready() || !p.holds(off, upto) {
			return false
		}
		r.useLocked(p, base)
		n := copy(b, p.bytes(off, upto))
		b, off = b[n:], off+int64(n)
	}
	return true
}

// unlock gives what the caller's section has queued to the engine.
func (r *Reader) unlock() {
	e := r.engine
	r.mu.Unlock()
	if e != nil {
		e.kick()
	}
}

// lendLocked counts a user that may keep p for long, unless half of the memory is lent out.
func (r *Reader) lendLocked(p *piece) bool {
	if p.lent == 0 {
		if r.lent >= r.places()/2 {
			return false
		}
		r.lent++
	}
	p.lent++
	r.pinLocked(p)
	return true
}

func (r *Reader) pinLocked(p *piece) {
	p.users++
	r.unlinkLocked(p)
}

// unlinkLocked takes a piece out of the list of those that nobody uses.
func (r *Reader) unlinkLocked(p *piece) {
	if p.idle == nil {
		return
	}
	r.unused.Remove(p.idle)
	p.idle = nil
}

// Release ends the use of a piece that was lent out.
func (p *piece) Release() {
	p.r.mu.Lock()
	p.giveBackLocked()
	p.r.mu.Unlock()
}

func (p *piece) giveBackLocked() {
	if p.lent--; p.lent == 0 {
		p.r.lent--
	}
	p.r.unpinLocked(p)
}

// unpinLocked ends a use of any kind.
func (r *Reader) unpinLocked(p *piece) {
	if p.users--; p.users > 0 {
		return
	}
	r.settleLocked(p)
}

// settleLocked puts a piece that is read and has no user where it belongs.
func (r *Reader) settleLocked(p *piece) {
	switch {
	case p.segment != nil: // being read
		return
	case p.stray || p.err != nil || r.closed:
		r.dropLocked(p)
	default:
		p.idle = r.unused.PushFront(p)
	}
	r.room.Broadcast()
	r.endLocked()
}

// dropLocked gives the place of an unused piece back.
func (r *Reader) dropLocked(p *piece) {
	r.unlinkLocked(p)
	if r.pieces[p.at] == p {
		delete(r.pieces, p.at)
	}
	r.there.Add(-1)
	if !p.ruined {
		r.free = append(r.free, p.place)
	}
}

// useLocked notes that a piece was wanted, and has what follows it read if somebody reads on.
func (r *Reader) useLocked(p *piece, base int64) {
	r.uses++
	if p.idle != nil {
		r.unused.MoveToFront(p.idle)
	}
	if p.used {
		return
	}
	p.used = true
	if p.ahead || r.nearLocked(p.at, base) {
		r.aheadLocked(p)
	}
}

// nearLocked reports whether a piece just before the one at at was wanted lately.
func (r *Reader) nearLocked(at, base int64) bool {
	for before := at - pieceBytes; before >= max(base, at-nearPieces*pieceBytes); before -= pieceBytes {
		if p := r.pieces[before]; p != nil && p.used {
			return true
		}
	}
	return false
}

// aheadLocked has the pieces behind p read, as far as there are places that nobody uses.
func (r *Reader) aheadLocked(p *piece) {
	if r.closed {
		return
	}
	durable := floor(r.o.Durable())
	next := p.at
	base, end, ok := r.o.Span(next)
	far := firstAhead
	if p.ahead {
		far = min(mostAhead, r.places()/8)
	}
	for range far {
		if !ok {
			return
		}
		if _, next = key(next, base, end); next == end {
			if base, end, ok = r.o.Span(next); !ok {
				return
			}
		}
		_, to := key(next, base, end)
		hi := min(to, durable)
		if hi <= next {
			return
		}
		if r.pieces[next] != nil {
			continue
		}
		place, ok := r.placeLocked(false)
		if !ok {
			return
		}
		if !r.beginLocked(&piece{at: next, lo: next, hi: hi, base: base, place: place, ahead: true}) {
			return
		}
	}
}

// placeLocked returns a place: a free one, or that of a piece which nobody uses, first of those that were wanted already.
// Reading ahead takes of those only, so that what was read ahead for one is not lost to another. Not ok if there is none.
func (r *Reader) placeLocked(waits bool) (place int, ok bool) {
	const looks = 4 * mostAhead
	e := r.unused.Back()
	for range looks {
		if len(r.free) > 0 || e == nil {
			break
		}
		before := e.Prev()
		if p := e.Value.(*piece); p.used {
			r.dropLocked(p) // a ruined place is not free then
		}
		e = before
	}
	if e = r.unused.Back(); len(r.free) == 0 && waits && e != nil {
		r.dropLocked(e.Value.(*piece))
	}
	if len(r.free) == 0 {
		return 0, false
	}
	place = r.free[len(r.free)-1]
	r.free = r.free[:len(r.free)-1]
	return place, true
}

// beginLocked has p read into its place; false, with the place given back, if its segment is gone.
func (r *Reader) beginLocked(p *piece) bool {
	segment, ok := r.o.Acquire(p.base)
	if !ok {
		r.free = append(r.free, p.place)
		return false
	}
	p.r, p.segment, p.done = r, segment, make(chan struct{})
	if old := r.pieces[p.at]; old != nil {
		old.stray = true
		if old.idle != nil {
			r.dropLocked(old)
		}
	}
	r.pieces[p.at] = p
	r.there.Add(1)
	r.reading++
	r.engine.add(p)
	return true
}

// finish takes a piece back from the engine. err tells whether all of it was read.
func (r *Reader) finish(p *piece, err error) {
	if p.file != nil && !p.past {
		p.file.Forget(p.lo-p.base, p.hi-p.lo)
		r.n.buffered.Add(1)
	}
	r.n.reads.Add(1)
	r.n.bytes.Add(p.hi - p.lo)
	if p.ahead {
		r.n.ahead.Add(1)
	}
	segment := p.segment
	r.mu.Lock()
	if err != nil {
		r.n.failed.Add(1)
		p.err = fmt.Errorf("store: read %d bytes at %d: %w", p.hi-p.lo, p.lo, err)
		if r.pieces[p.at] == p { // who comes next tries again
			delete(r.pieces, p.at)
		}
	}
	p.segment, p.file = nil, nil
	r.reading--
	close(p.done)
	if p.users == 0 {
		r.settleLocked(p)
	}
	r.mu.Unlock()
	segment.Release()
}

// retry tells whether a read is to be done again.
func (p *piece) retry(err error) bool { return p.past && p.file.Again(err) }

// open finds the file to read a piece from. The engine calls it.
func (p *piece) open() (err error) {
	if p.file, err = p.segment.Direct(); err == nil {
		p.past = p.file.Past()
	}
	return err
}

// short is the error of a read that ended early.
var short = io.ErrUnexpectedEOF

// trim runs every idleAfter while there are pieces. If nothing was wanted meanwhile, all that nobody uses goes.
func (r *Reader) trim() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if r.seen == r.uses {
		for e := r.unused.Back(); e != nil; e = r.unused.Back() {
			r.dropLocked(e.Value.(*piece))
		}
		for _, place := range r.free {
			_ = r.arena.Forget(place*pieceBytes, pieceBytes) // it cannot fail for memory that is ours
		}
	}
	r.seen = r.uses
	if r.there.Load() > 0 {
		r.timer.Reset(idleAfter)
		return
	}
	r.timer = nil
}

// startLocked makes memory and engine for a first read.
func (r *Reader) startLocked() error {
	if r.closed {
		return ErrClosed
	}
	if r.timer == nil {
		r.timer = time.AfterFunc(idleAfter, r.trim)
	}
	if r.engine != nil {
		return nil
	}
	arena, err := uring.NewArena(int(r.o.Bytes))
	if err != nil {
		return err
	}
	r.arena = arena
	for place := range r.places() {
		r.free = append(r.free, r.places()-1-place)
	}
	r.engine = newEngine(r)
	return nil
}

// Close ends all reads. Who waits in Take gets ErrClosed; what is lent out stays until it is released.
func (r *Reader) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	if r.timer != nil {
		r.timer.Stop()
	}
	for e := r.unused.Back(); e != nil; e = r.unused.Back() {
		r.dropLocked(e.Value.(*piece))
	}
	r.room.Broadcast()
	e := r.engine
	r.mu.Unlock()
	if e != nil {
		e.close() // waits for what is in flight
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endLocked()
	return nil
}

// endLocked gives the memory back once the reader is closed and nobody has any of it.
func (r *Reader) endLocked() {
	if r.closed && r.there.Load() == 0 && r.reading == 0 && r.arena != nil {
		_ = r.arena.Close()
		r.arena = nil
	}
}

// Stats returns the counters. Any goroutine may call it.
func (r *Reader) Stats() Stats {
	c := &r.n
	return Stats{
		Reads: c.reads.Load(), Bytes: c.bytes.Load(), Ahead: c.ahead.Load(), Buffered: c.buffered.Load(), Failed: c.failed.Load(),
		Found: c.found.Load(), Waits: c.waits.Load(), Copied: c.copied.Load(), Held: r.there.Load() * pieceBytes,
	}
}
