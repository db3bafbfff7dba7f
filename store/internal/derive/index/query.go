package index

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"ringmq/store/record"
)

// Query asks for the records with a key.
type Query struct {
	Topic string // as stored
	Key   string
	Tags  bool // Key is what the records have for tags, not one of their keys

	Max            int   // at most so many: the newest
	BeginMs, EndMs int64 // store times, both included; the index knows them in whole seconds only

	// Effort bounds what Find looks at, 0: no bound. An entry counts 1, and ReadEffort what is read of a file
	// for it: entries that lie apart, and each record that Accept looks at.
	Effort int

	// Accept says whether a record is one of those: the index knows hashes, and other keys may have the
	// same. It reads the record at offset and asks Matches. A record that is not accepted does not count.
	// nil accepts all, as the stock broker does.
	Accept func(offset int64) bool
}

// ReadEffort is what a read counts of Query.Effort.
const ReadEffort = 64

// ErrEffort means that Query.Effort was spent before anything was found.
var ErrEffort = errors.New("index: too many younger entries with that hash stand before what is looked for")

// Matches reports whether a record has the key.
func (q *Query) Matches(r *record.Record) bool {
	if string(r.Topic) != q.Topic {
		return false
	}
	for k := range keysOf(r.Props) {
		if k.tags == q.Tags && string(k.text) == q.Key {
			return true
		}
	}
	return false
}

func (q *Query) hash() int32 {
	k := key{tags: q.Tags, text: []byte(q.Key)}
	return hashOf(k.append(nil, []byte(q.Topic)))
}

// overlaps is the stock broker's rule (5.5.0) whether a file is worth a look.
func (q *Query) overlaps(h head) bool {
	return q.BeginMs < h.beginMs && q.EndMs > h.endMs ||
		q.BeginMs >= h.beginMs && q.BeginMs <= h.endMs ||
		q.EndMs >= h.beginMs && q.EndMs <= h.endMs
}

// Find returns the physical offsets of the records that q asks for, in ascending order. Files are looked at
// from the newest to the oldest, each along one chain, which takes as many steps as its slot has entries
// until there are enough; a damaged chain ends where it does not lead to an older entry. A record that
// has the key twice is returned twice. Where q.Effort is spent the older ones are left out; if nothing was found by
// then it is ErrEffort. Any goroutine may call it. Records that the log no longer has may
// be among them.
func (x *Index) Find(q Query) ([]int64, error) {
	files := x.acquire()
	defer func() {
		for _, f := range files {
			f.users.Release()
		}
	}()
	found := []int64{}
	hash := q.hash()
	w := walk{q: &q, hash: hash, left: q.Effort}
	if w.left == 0 {
		w.left = math.MaxInt
	}
	for _, f := range slices.Backward(files) {
		if len(found) >= q.Max || w.left <= 0 {
			break
		}
		w.left -= ReadEffort
		slot, err := x.lookUp(f, x.g.slotOf(hash))
		if err == nil && slot.number > 0 && q.overlaps(slot.head) {
			found, err = x.walk(&w, f, slot, found)
		}
		if err != nil {
			return nil, fmt.Errorf("store: read index %s: %w", f.name, err)
		}
		if slot.head.beginMs < q.BeginMs {
			break
		}
	}
	if len(found) == 0 && w.left <= 0 {
		return nil, fmt.Errorf("store: look for key %q of %s: %w", q.Key, q.Topic, ErrEffort)
	}
	slices.Sort(found)
	return found, nil
}

// acquire returns the files, held open.
func (x *Index) acquire() []*file {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var files []*file
	for _, f := range x.files {
		if f.users.Acquire() {
			files = append(files, f)
		}
	}
	return files
}

// slot is where a chain begins, and the head of its file at that moment.
type slot struct {
	number int32 // of the newest entry, 0 if there is none
	head   head
}

// lookUp reads a slot: from memory in the newest file, in which entries come to be while queries run.
func (x *Index) lookUp(f *file, s int32) (slot, error) {
	x.mu.RLock()
	at := slot{head: f.head}
	if f == x.newest() {
		at.number = x.front.slot(s)
		x.mu.RUnlock()
		return at, nil
	}
	x.mu.RUnlock()
	var b [slotBytes]byte
	if _, err := f.ReadAt(b[:], x.g.slotAt(s)); err != nil {
		return at, err
	}
	if at.number = parseSlot(b[:]); at.number < 0 || at.number >= at.head.count {
		at.number = 0
	}
	return at, nil
}

// walk is one query on its way through the files.
type walk struct {
	q    *Query
	hash int32
	left int // of the effort
}

// accepts asks whether a record is one of those.
func (w *walk) accepts(phys int64) bool {
	if w.q.Accept == nil {
		return true
	}
	w.left -= ReadEffort
	return w.q.Accept(phys)
}

// walk follows a chain by the stock broker's rules (5.5.0), but for timeOf, and adds to found.
func (x *Index) walk(w *walk, f *file, from slot, found []int64) ([]int64, error) {
	q, window := w.q, newWindow(x.g, f)
	for number := from.number; number > 0 && len(found) < q.Max && w.left > 0; {
		w.left--
		e, ok := x.entryInMemory(f, number)
		if !ok {
			if !window.has(number) {
				w.left -= ReadEffort
			}
			var err error
			if e, err = window.entry(number); err != nil {
				return found, err
			}
		}
		at := from.head.timeOf(number, e)
		if e.seconds < 0 {
			break
		}
		if e.hash == w.hash && at >= q.BeginMs && at <= q.EndMs && w.accepts(e.phys) {
			found = append(found, e.phys)
		}
		if e.before >= number || at < q.BeginMs {
			break
		}
		number = e.before
	}
	return found, nil
}

// entryInMemory returns an entry that is not in the file yet. Once it is not found here it is there.
func (x *Index) entryInMemory(f *file, number int32) (entry, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if f != x.newest() || number < x.tailFrom {
		return entry{}, false
	}
	at := entryBytes * int(number-x.tailFrom)
	if at+entryBytes > len(x.tail) {
		return entry{}, false
	}
	return parseEntry(x.tail[at:]), true
}

// window reads entries of a file, and with each some older ones: those of a busy chain are close to
// each other.
type window struct {
	g    geometry
	r    io.ReaderAt
	buf  []byte
	from int32 // number of the first in buf
}

const windowEntries = 4096 / entryBytes

func newWindow(g geometry, r io.ReaderAt) *window { return &window{g: g, r: r, from: math.MaxInt32} }

// has tells whether an entry is in memory.
func (w *window) has(number int32) bool {
	return number >= w.from && int(number-w.from) < len(w.buf)/entryBytes
}

// entry returns the entry with a number from 1 to the last that a file has room for.
func (w *window) entry(number int32) (entry, error) {
	if !w.has(number) {
		if err := w.move(number); err != nil {
			return entry{}, err
		}
	}
	return parseEntry(w.buf[entryBytes*int(number-w.from):]), nil
}

func (w *window) move(number int32) error {
	if w.buf == nil {
		w.buf = make([]byte, 0, windowEntries*entryBytes)
	}
	w.from = max(1, number-windowEntries+1)
	w.buf = w.buf[:entryBytes*int(number-w.from+1)]
	if _, err := w.r.ReadAt(w.buf, w.g.entryAt(w.from)); err != nil {
		w.buf = w.buf[:0]
		return err
	}
	return nil
}
