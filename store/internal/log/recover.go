package log

import (
	"cmp"
	"errors"
	"fmt"

	"ringmq/store/internal/filename"
	"ringmq/store/record"
	"ringmq/uring"
)

// DefaultSegmentBytes is the size of a segment where neither the directory nor the caller says.
const DefaultSegmentBytes = 1 << 30

// Open opens the files of the log in cfg.Dirs and cfg.ReadOnly, which must exist, and starts nothing. The caller then
// walks what may be new (Sync, Walk), has what follows the end looked at and cut (Inspect, Cut), and
// calls Start. cfg.SegmentBytes 0 takes the size that the directory has; another size than the
// directory's is refused.
func Open(cfg Config) (*Log, error) {
	cfg.UnflushedBytes = cmp.Or(cfg.UnflushedBytes, UnflushedBytes)
	cfg.SlowFlush = cmp.Or(cfg.SlowFlush, SlowFlush)
	cfg.ZeroStepBytes = cmp.Or(cfg.ZeroStepBytes, ZeroStepBytes)
	l := &Log{cfg: cfg, maps: uring.NewMaps(mappedWindows), done: make(chan struct{}), wakeAt: never}
	l.segments.Store(new([]*segment))
	files, size, err := listFiles(&cfg)
	if err != nil {
		return nil, err
	}
	switch want := cfg.SegmentBytes; {
	case size == 0:
		size = cmp.Or(want, DefaultSegmentBytes)
	case want != 0 && want != size:
		return nil, fmt.Errorf("store: %s: its files have %d bytes but %d are configured: set the size to %d, or use another directory", cfg.where(), size, want, size)
	}
	l.cfg.SegmentBytes = size
	if size <= 0 || size%pageBytes != 0 {
		return nil, fmt.Errorf("store: %s: segments of %d bytes: want a positive multiple of %d", cfg.where(), size, pageBytes)
	}
	err = l.openSegments(files)
	if err == nil {
		err = l.refuseFixed(l.End() - 1) // the newest file
	}
	if err != nil {
		l.closeSegments()
		return nil, err
	}
	return l, nil
}

func (l *Log) openSegments(files []place) error {
	var all []*segment
	for _, f := range files {
		g, err := l.openSegment(f)
		if err != nil {
			l.segments.Store(&all)
			return err
		}
		all = append(all, g)
	}
	l.segments.Store(&all)
	return nil
}

func (l *Log) closeSegments() {
	for _, g := range *l.segments.Load() {
		g.shared.Release()
	}
	l.segments.Store(new([]*segment))
}

// SegmentBytes is the size of each file of the log.
func (l *Log) SegmentBytes() int64 { return l.cfg.SegmentBytes }

// End is the physical offset after the last file, 0 if there is none.
func (l *Log) End() int64 {
	all := *l.segments.Load()
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1].end()
}

// cacheDropper is a file that can forget what the page cache holds of it.
type cacheDropper interface{ DropCache() error }

// Sync makes durable what a killed process may have left in the page cache: the names of the files, and
// the bytes from off on. Then it drops the cache there: after a failed flush it holds bytes that the disk does not, and a second
// flush says that all is well.
func (l *Log) Sync(off int64) error {
	for _, dir := range l.cfg.dirs() {
		if err := l.cfg.FS.SyncDir(dir); err != nil {
			return fmt.Errorf("store: sync the log's directory: %w", err)
		}
	}
	for _, g := range *l.segments.Load() {
		if g.end() <= off {
			continue
		}
		if err := g.file.Sync(); err != nil {
			return fmt.Errorf("store: sync segment %s: %w", filename.Of(g.base), err)
		}
		if d, ok := g.file.(cacheDropper); ok {
			if err := d.DropCache(); err != nil {
				return fmt.Errorf("store: drop the cache of segment %s: %w", filename.Of(g.base), err)
			}
		}
	}
	return nil
}

// Walk calls visit for each record from off on, which must be where a record begins or the log ends.
// It returns where the first thing begins that is no valid record, or from mustFrom on one that lacks
// the check must; a blank record that ends the last file is where the log ends. The record is valid during the call
// only. Walk ends with visit's error.
func (l *Log) Walk(off int64, must record.Check, mustFrom int64, visit func(at int64, r *record.Record) error) (end int64, err error) {
	w := walker{l: l}
	var r record.Record
	for {
		b, err := w.at(off)
		if err != nil {
			return off, err
		}
		err = record.Verify(b, off, &r)
		if g := l.find(off); errors.Is(err, record.ErrBlank) && int64(r.Size) == g.end()-off && l.find(g.end()) != nil {
			off = g.end()
			continue
		}
		if err != nil || (off >= mustFrom && r.Lacks(must)) {
			return off, nil
		}
		if err := visit(off, &r); err != nil {
			return off, err
		}
		off += int64(r.Size)
	}
}

// Resume returns the next place from off on where a whole record stands that carries the check must;
// false if there is none.
func (l *Log) Resume(off int64, must record.Check) (at int64, ok bool, err error) {
	w := walker{l: l}
	err = w.eachRecord(off, l.End(), func(found int64, r *record.Record) bool {
		at, ok = found, !r.Lacks(must)
		return !ok
	})
	return at, ok, err
}

// Hold makes the log readable up to end and refuses every append with why. It takes Start's place, and
// Drain must not be called.
func (l *Log) Hold(end int64, why error) {
	l.writtenTo.Store(end)
	l.durableTo.Store(end)
	l.refusal.Store(&why)
}

// walker reads the log in large pieces.
type walker struct {
	l     *Log
	buf   []byte
	from  int64 // physical offset of buf[0]
	piece int64 // bytes to read at once, 0 for walkBytes
}

const walkBytes = 1 << 20

// at returns the bytes from off up to the end of the record that begins there, or more, as far as
// its segment goes.
func (w *walker) at(off int64) ([]byte, error) {
	g := w.l.find(off)
	if g == nil {
		return nil, nil
	}
	b, err := w.have(g, off, blankBytes)
	if err != nil || len(b) < blankBytes {
		return b, err
	}
	return w.have(g, off, recordBytes(b))
}

// recordBytes is the size that a record says it has; 0 if there can be none.
func recordBytes(b []byte) int64 {
	n := int64(int32(uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])))
	return max(n, 0)
}

// have returns at least n bytes from off, fewer only if the segment ends before.
func (w *walker) have(g *segment, off, n int64) ([]byte, error) {
	n = min(n, g.end()-off)
	if at := off - w.from; at >= 0 && at+n <= int64(len(w.buf)) && w.buf != nil {
		return w.buf[at:], nil
	}
	size := min(max(n, cmp.Or(w.piece, walkBytes)), g.end()-off)
	if int64(cap(w.buf)) < size {
		w.buf = make([]byte, size)
	}
	w.buf, w.from = w.buf[:size], off
	if _, err := g.file.ReadAt(w.buf, off-g.base); err != nil {
		return nil, fmt.Errorf("store: read segment %s at %d: %w", filename.Of(g.base), off-g.base, err)
	}
	return w.buf, nil
}

// RecordAt reads and verifies the record at off. Its slices stay valid. Before Start only.
func (l *Log) RecordAt(off int64, r *record.Record) error {
	w := walker{l: l, piece: pageBytes} // one of each queue is asked for at a start
	b, err := w.at(off)
	if err != nil {
		return err
	}
	return record.Verify(b, off, r)
}

// Follows reports whether a whole record stands at off and to is the place after it: its end, or the
// next file's start when a blank record comes between.
func (l *Log) Follows(off, to int64) bool {
	var r record.Record
	if l.RecordAt(off, &r) != nil {
		return false
	}
	end := off + int64(r.Size)
	if end == to {
		return true
	}
	g := l.find(off)
	return g.end() == to && errors.Is(l.RecordAt(end, &r), record.ErrBlank)
}
