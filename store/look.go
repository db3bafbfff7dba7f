package store

import (
	"errors"

	"ringmq/store/internal/derive/queue"
	"ringmq/store/record"
)

// How much of the log a Get reads to look at properties.
const (
	windowBytes = 68 << 10 // at once at most; also the longest topic and properties fit
	firstBytes  = 16 << 10 // the first time at once: it may find enough
	wholeBytes  = 8 << 10  // larger records are read without their body
	gapBytes    = 4 << 10  // between two records of a queue: what is cheaper to read than to skip

	// maxLookedBytes bounds one Get: a thousand messages of 1 KiB in one piece, or two hundred that lie apart.
	maxLookedBytes = 2 << 20
	callBytes      = 8 << 10 // what a call takes, as bytes
)

// window is the piece of the log that was read last. Visible bytes of the log never change, so that it stays right from
// one Get to the next: many that wait for one message read it once.
type window struct {
	buf []byte // windowBytes, made when it is needed
	at  int64  // physical offset of its first byte
	n   int    // bytes that are valid
}

// bytes returns the record of e if the window holds it.
func (w *window) bytes(e queue.Entry) ([]byte, bool) {
	if e.Offset < w.at || e.End() > w.at+int64(w.n) {
		return nil, false
	}
	return w.buf[e.Offset-w.at:][:e.Size], true
}

// look returns the properties of the message to which the first of some entries points; not ok if it points to none. They
// are valid until the next look.
func (s *Store) look(out *Got, entries []byte) (props []byte, ok bool, err error) {
	e, w := queue.Parse(entries), &out.window
	if e.Size < headBytes {
		return nil, false, nil
	}
	if w.buf == nil {
		w.buf = make([]byte, windowBytes)
	}
	if e.Size > wholeBytes {
		return s.lookAtLarge(out, e)
	}
	r, ok := w.bytes(e)
	if !ok {
		if err := s.fill(out, entries); err != nil {
			return nil, false, ignoreOffset(err)
		}
		r, _ = w.bytes(e)
	}
	if !isHeadOf(r, e) {
		return nil, false, nil
	}
	at, ok := record.TopicAt(r)
	if !ok {
		return nil, false, nil
	}
	props, ok = record.TailProps(be32(r[4:]), r[at:])
	return props, ok, nil
}

// fill reads the record of the first entry, and those of the next entries as far as they lie close together.
func (s *Store) fill(out *Got, entries []byte) error {
	e := queue.Parse(entries)
	limit := e.Offset + windowBytes
	if out.looked == 0 {
		limit = e.Offset + firstBytes
	}
	end := e.End()
	for entries = entries[queue.EntryBytes:]; len(entries) > 0; entries = entries[queue.EntryBytes:] {
		next := queue.Parse(entries)
		if !next.Valid() || next.Offset < end || next.Offset-end > gapBytes || next.End() > limit {
			break
		}
		end = next.End()
	}
	err := s.readWindow(out, e.Offset, int(end-e.Offset))
	if err != nil && end > e.End() { // the others may be in another segment, or not be there
		err = s.readWindow(out, e.Offset, int(e.Size))
	}
	return err
}

// readWindow makes n bytes from at the window.
func (s *Store) readWindow(out *Got, at int64, n int) error {
	w := &out.window
	w.n = 0
	out.looked += n + callBytes
	if err := s.readBy(&out.reach, w.buf[:n], at); err != nil {
		return err
	}
	w.at, w.n = at, n
	return nil
}

// lookAtLarge reads the beginning and the end of a record, and not its body.
func (s *Store) lookAtLarge(out *Got, e queue.Entry) (props []byte, ok bool, err error) {
	if err := s.readWindow(out, e.Offset, record.HeadBytes); err != nil || !isHeadOf(out.window.buf, e) {
		return nil, false, ignoreOffset(err)
	}
	magic := be32(out.window.buf[4:])
	at, ok := record.TopicAt(out.window.buf[:record.HeadBytes])
	if n := int(e.Size) - at; !ok || n < 0 || n > windowBytes {
		return nil, false, nil
	}
	if err := s.readWindow(out, e.Offset+int64(at), int(e.Size)-at); err != nil {
		return nil, false, ignoreOffset(err)
	}
	props, ok = record.TailProps(magic, out.window.buf[:out.window.n])
	return props, ok, nil
}

// ignoreOffset is for entries that may be damaged: that there is nothing to read is no error.
func ignoreOffset(err error) error {
	if errors.Is(err, ErrOffset) {
		return nil
	}
	return err
}
