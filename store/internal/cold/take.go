package cold

import (
	"fmt"

	"ringmq/uring"
)

// want is what a Take wants of one piece: bytes lo to hi, whole pages.
type want struct {
	at, to int64 // of the largest piece there
	base   int64 // of its segment
	lo, hi int64
	piece  *piece // pinned
}

// part is n bytes at off, which are in the want of that number.
type part struct {
	want int
	off  int64
	n    int
}

// Take returns the bytes of some ranges, read from the disk where they are not there, as memory that is lent out, each
// MemRange to be released. If too much is lent out already, or it would be too much at once, they are copied. It waits for
// the disk; at most takers may call it at once. ErrFresh if not all are durable, ErrGone if they are not in
// one segment of the log each, ErrClosed; any other error tells where reading failed.
func (r *Reader) Take(ranges []Range) (lent []uring.MemRange, copied []byte, err error) {
	wants, parts, err := r.plan(ranges)
	if err != nil {
		return nil, nil, err
	}
	if len(wants) <= heldPieces {
		if err := r.pinAll(wants); err != nil {
			return nil, nil, err
		}
		defer r.unpinAll(wants)
		if lent := r.lend(wants, parts); lent != nil {
			return lent, nil, nil
		}
		return nil, r.copyOut(nil, wants, parts, 0), nil
	}
	for first := 0; first < len(wants); first += heldPieces {
		some := wants[first:min(first+heldPieces, len(wants))]
		if err := r.pinAll(some); err != nil {
			return nil, nil, err
		}
		copied = r.copyOut(copied, some, parts, first)
		r.unpinAll(some)
	}
	return nil, copied, nil
}

// ReadAt fills b from off, as Take.
func (r *Reader) ReadAt(b []byte, off int64) error {
	if r.Copy(b, off) {
		return nil
	}
	lent, copied, err := r.Take([]Range{{off, len(b)}})
	if err != nil {
		return err
	}
	copy(b, copied)
	for _, m := range lent {
		b = b[copy(b, m.Bytes):]
		m.Release()
	}
	return nil
}

// Expect begins to read what some ranges need, as far as there is room right now, and does not wait for it. Ranges that cannot be
// read are for Take to tell of.
func (r *Reader) Expect(ranges []Range) {
	wants, _, err := r.plan(ranges)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.unlock()
	if r.startLocked() != nil {
		return
	}
	for i := range wants[:min(len(wants), heldPieces)] {
		w := &wants[i]
		if p := r.pieces[w.at]; p != nil && p.holds(w.lo, w.hi) {
			continue
		}
		place, ok := r.placeLocked(true)
		if !ok || r.makeLocked(w, place) != nil {
			return
		}
		r.unpinLocked(w.piece)
	}
}

// plan finds which pieces the ranges are in. Ranges that follow each other in one piece make one want.
func (r *Reader) plan(ranges []Range) (wants []want, parts []part, err error) {
	durable := r.o.Durable()
	for _, g := range ranges {
		base, end, ok := r.o.Span(g.Offset)
		to := g.Offset + int64(g.Bytes)
		if !ok || g.Bytes < 0 || to > end {
			return nil, nil, fmt.Errorf("%w: %d bytes at %d", ErrGone, g.Bytes, g.Offset)
		}
		for off := g.Offset; off < to; {
			w := want{base: base}
			w.at, w.to = key(off, base, end)
			upto := min(w.to, to)
			w.lo, w.hi = base+floor(off-base), min(base+floor(upto-base+pageBytes-1), w.to)
			if w.hi > durable {
				return nil, nil, fmt.Errorf("%w: %d bytes at %d, durable up to %d", ErrFresh, g.Bytes, g.Offset, durable)
			}
			if n := len(wants); n > 0 && wants[n-1].at == w.at {
				last := &wants[n-1]
				last.lo, last.hi = min(last.lo, w.lo), max(last.hi, w.hi)
			} else {
				wants = append(wants, w)
			}
			parts = append(parts, part{len(wants) - 1, off, int(upto - off)})
			off = upto
		}
	}
	return wants, parts, nil
}

// pinAll pins the pieces and returns when they are read. With an error none is pinned.
func (r *Reader) pinAll(wants []want) (err error) {
	r.mu.Lock()
	for i := range wants {
		if err = r.pinWantLocked(&wants[i]); err != nil {
			break
		}
	}
	r.unlock()
	for i := range wants {
		if p := wants[i].piece; p != nil && err == nil {
			<-p.done
			err = p.err
		}
	}
	if err != nil {
		r.unpinAll(wants)
	}
	return err
}

func (r *Reader) unpinAll(wants []want) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range wants {
		if p := wants[i].piece; p != nil {
			r.unpinLocked(p)
			wants[i].piece = nil
		}
	}
}

// pinWantLocked pins the piece of w, begun to be read if it is not there. It gives up the lock while it waits for a place.
func (r *Reader) pinWantLocked(w *want) error {
	for waited := false; ; waited = true {
		if err := r.startLocked(); err != nil {
			return err
		}
		if p := r.pieces[w.at]; p != nil && p.holds(w.lo, w.hi) {
			r.pinLocked(p)
			w.piece = p
			r.useLocked(p, w.base)
			return nil
		}
		if place, ok := r.placeLocked(true); ok {
			return r.makeLocked(w, place)
		}
		if !waited {
			r.n.waits.Add(1)
		}
		r.engine.kick() // what was begun so far
		r.room.Wait()
	}
}

// makeLocked begins to read the piece of w into a place: as a whole, unless little of it is wanted and nobody was near it.
func (r *Reader) makeLocked(w *want, place int) error {
	p := &piece{at: w.at, lo: w.lo, hi: w.hi, base: w.base, place: place, users: 1}
	if w.hi-w.lo >= fewBytes || r.pieces[w.at] != nil || r.nearLocked(w.at, w.base) {
		p.lo, p.hi = w.at, max(w.hi, min(w.to, floor(r.o.Durable())))
	}
	if !r.beginLocked(p) {
		return fmt.Errorf("store: cold read at %d: %w", w.lo, ErrGone)
	}
	w.piece = p
	r.useLocked(p, w.base)
	return nil
}

// lend returns the parts as memory that is lent out; nil if that would be too much.
func (r *Reader) lend(wants []want, parts []part) []uring.MemRange {
	r.mu.Lock()
	defer r.mu.Unlock()
	lent := make([]uring.MemRange, 0, len(parts))
	for _, t := range parts {
		p := wants[t.want].piece
		if !r.lendLocked(p) {
			for _, m := range lent {
				m.Owner.(*piece).giveBackLocked()
			}
			return nil
		}
		lent = append(lent, uring.MemRange{Bytes: p.bytes(t.off, t.off+int64(t.n)), Owner: p})
	}
	return lent
}

// copyOut adds to dst the parts that are in wants, the first of which has the number first.
func (r *Reader) copyOut(dst []byte, wants []want, parts []part, first int) []byte {
	had := len(dst)
	for _, t := range parts {
		if i := t.want - first; i >= 0 && i < len(wants) {
			dst = append(dst, wants[i].piece.bytes(t.off, t.off+int64(t.n))...)
		}
	}
	r.n.copied.Add(int64(len(dst) - had))
	return dst
}
