package log

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"ringmq/store/record"
	"ringmq/store/vfs"
)

// DefaultSegmentBytes is the size of a segment where neither the directory nor the caller says.
const DefaultSegmentBytes = 1 << 30

// Open opens the files of the log in cfg.Dir, which must exist, and starts nothing. The caller then
// walks what may be new (Sync, Walk), has what follows the end looked at and cut (Inspect, Cut), and
// calls Start. cfg.SegmentBytes 0 takes the size that the directory has; another size than the
// directory's is refused.
func Open(cfg Config) (*Log, error) {
	l := &Log{cfg: cfg, done: make(chan struct{}), wakeAt: never}
	l.segments.Store(new([]*segment))
	bases, size, err := listSegments(cfg.FS, cfg.Dir)
	if err != nil {
		return nil, err
	}
	switch want := cfg.SegmentBytes; {
	case size == 0:
		size = cmp.Or(want, DefaultSegmentBytes)
	case want != 0 && want != size:
		return nil, fmt.Errorf("store: %s: its files have %d bytes but %d are configured: set the size to %d, or use another directory", cfg.Dir, size, want, size)
	}
	l.cfg.SegmentBytes = size
	if size <= 0 || size%pageBytes != 0 {
		return nil, fmt.Errorf("store: %s: segments of %d bytes: want a positive multiple of %d", cfg.Dir, size, pageBytes)
	}
	if err := l.openSegments(bases); err != nil {
		l.closeSegments()
		return nil, err
	}
	return l, nil
}

// listSegments returns the bases of the log's files in order, and their size, 0 if there is none.
func listSegments(fsys vfs.FS, dir string) (bases []int64, size int64, err error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, 0, fmt.Errorf("store: list the log: %w", err)
	}
	for i, name := range names {
		info, err := fsys.Stat(path.Join(dir, name))
		if err != nil {
			return nil, 0, fmt.Errorf("store: list the log: %w", err)
		}
		if info.Dir {
			continue
		}
		if info.Size == 0 && i == len(names)-1 { // a stock broker was killed while it made the file
			if err := fsys.Remove(path.Join(dir, name)); err != nil {
				return nil, 0, fmt.Errorf("store: remove an empty file: %w", err)
			}
			continue
		}
		base, err := parseName(name)
		if err != nil {
			return nil, 0, fmt.Errorf("%w: %s is no directory of a log, or the file does not belong there: move it away", err, dir)
		}
		size = cmp.Or(size, info.Size)
		if info.Size != size {
			return nil, 0, fmt.Errorf("store: %s: %d bytes, but the files before it have %d: restore it from a copy", path.Join(dir, name), info.Size, size)
		}
		bases = append(bases, base)
	}
	return bases, size, checkAdjacent(dir, bases, size)
}

func checkAdjacent(dir string, bases []int64, size int64) error {
	for i, base := range bases {
		if want := bases[0] + int64(i)*size; base != want || base%size != 0 {
			return fmt.Errorf("store: %s: file %s is missing before %s: restore it from a copy", dir, segmentName(want), segmentName(base))
		}
	}
	return nil
}

func (l *Log) openSegments(bases []int64) error {
	var all []*segment
	for _, base := range bases {
		g, err := openSegment(l.cfg.FS, l.cfg.Dir, base, l.cfg.SegmentBytes, l.cfg.FlushDepth)
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
	if err := l.cfg.FS.SyncDir(l.cfg.Dir); err != nil {
		return fmt.Errorf("store: sync the log's directory: %w", err)
	}
	for _, g := range *l.segments.Load() {
		if g.end() <= off {
			continue
		}
		if err := g.file.Sync(); err != nil {
			return fmt.Errorf("store: sync segment %s: %w", segmentName(g.base), err)
		}
		if d, ok := g.file.(cacheDropper); ok {
			if err := d.DropCache(); err != nil {
				return fmt.Errorf("store: drop the cache of segment %s: %w", segmentName(g.base), err)
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

// walker reads the log in large pieces.
type walker struct {
	l    *Log
	buf  []byte
	from int64 // physical offset of buf[0]
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
	size := min(max(n, walkBytes), g.end()-off)
	if int64(cap(w.buf)) < size {
		w.buf = make([]byte, size)
	}
	w.buf, w.from = w.buf[:size], off
	if _, err := g.file.ReadAt(w.buf, off-g.base); err != nil {
		return nil, fmt.Errorf("store: read segment %s at %d: %w", segmentName(g.base), off-g.base, err)
	}
	return w.buf, nil
}

// Tail is what the files hold behind the end of the log.
type Tail struct {
	End   int64 // where the log ends
	Bytes int64 // up to the last byte that is not zero; 0 = nothing is there
	Valid int   // records in it that are whole and in their own place
	blank bool  // a blank record begins at End: part of the log
}

// Inspect looks at what follows end, which Walk returned. It changes nothing.
func (l *Log) Inspect(end int64) (Tail, error) {
	t := Tail{End: end}
	w := walker{l: l}
	b, err := w.at(end)
	if err != nil {
		return t, err
	}
	var r record.Record
	if g := l.find(end); errors.Is(record.Verify(b, end, &r), record.ErrBlank) {
		t.blank = int64(r.Size) == g.end()-end
	}
	err = l.eachChunk(t.skipBlank(), func(at int64, chunk []byte) error {
		if n := lastNonZero(chunk); n > 0 {
			t.Bytes = at + int64(n) - end
		}
		return nil
	})
	if err == nil && t.Bytes > 0 {
		t.Valid, err = l.countValid(t.skipBlank(), end+t.Bytes)
	}
	return t, err
}

// skipBlank is where the bytes begin that are no part of the log.
func (t Tail) skipBlank() int64 {
	if t.blank {
		return t.End + blankBytes
	}
	return t.End
}

// chunkBytes is how much of the log is looked at at a time behind its end.
const chunkBytes = 256 << 10

// sparse is a file that knows where nothing was ever written.
type sparse interface {
	// NextData returns the first range from off on that may hold anything but zeros, [size, size) if
	// there is none. What was read before may count.
	NextData(off int64) (from, to int64, err error)
}

// eachChunk calls f for the bytes from off to the end of the last file, in order and in pieces of at most
// chunkBytes. Zeros may be left out. f must not keep chunk.
func (l *Log) eachChunk(off int64, f func(at int64, chunk []byte) error) error {
	buf := make([]byte, chunkBytes)
	for off < l.End() {
		g := l.find(off)
		ranges, err := g.dataBehind(off - g.base)
		if err != nil {
			return err
		}
		for _, r := range ranges {
			if err := g.eachChunk(r[0], r[1], buf, f); err != nil {
				return err
			}
		}
		off = g.end()
	}
	return nil
}

// dataBehind returns the ranges of the file that may hold anything but zeros, from in on.
func (g *segment) dataBehind(in int64) (ranges [][2]int64, err error) {
	s, ok := g.file.(sparse)
	if !ok {
		return [][2]int64{{in, g.size}}, nil
	}
	for in < g.size {
		from, to, err := s.NextData(in)
		if err != nil {
			return nil, fmt.Errorf("store: look for data in segment %s: %w", segmentName(g.base), err)
		}
		if from >= g.size {
			break
		}
		ranges = append(ranges, [2]int64{from, min(to, g.size)})
		in = to
	}
	return ranges, nil
}

func (g *segment) eachChunk(in, end int64, buf []byte, f func(at int64, chunk []byte) error) error {
	for in < end {
		chunk := buf[:min(chunkBytes-in%pageBytes, end-in)]
		if _, err := g.file.ReadAt(chunk, in); err != nil {
			return fmt.Errorf("store: read segment %s at %d: %w", segmentName(g.base), in, err)
		}
		if err := f(g.base+in, chunk); err != nil {
			return err
		}
		in += int64(len(chunk))
	}
	return nil
}

// lastNonZero returns the length of b without the zeros at its end.
func lastNonZero(b []byte) int {
	if bytes.Equal(b, zeros[:len(b)]) { // the usual case, and a fast one
		return 0
	}
	return len(bytes.TrimRight(b, "\x00"))
}

// countValid counts the records between two offsets that verify at their own place, wherever they
// begin.
func (l *Log) countValid(from, to int64) (count int, err error) {
	w := walker{l: l}
	var r record.Record
	for at := from; at < to; {
		g := l.find(at)
		b, err := w.have(g, at, min(chunkBytes, g.end()-at))
		if err != nil {
			return count, err
		}
		i := indexRecord(b)
		if i < 0 {
			at += int64(len(b))
			if at < g.end() {
				at -= blankBytes - 1 // a head may begin there
			}
			continue
		}
		at += int64(i)
		if b, err = w.at(at); err != nil {
			return count, err
		}
		if record.Verify(b, at, &r) == nil {
			count++
			at += int64(r.Size)
		} else {
			at++
		}
	}
	return count, nil
}

// indexRecord finds the first place in b that looks like the head of a record.
func indexRecord(b []byte) int {
	magic := []byte{byte(record.MagicV1 >> 24), byte(record.MagicV1 >> 16 & 0xFF), byte(record.MagicV1 >> 8 & 0xFF)} // V2 begins alike
	if len(b) < blankBytes {
		return -1
	}
	return bytes.Index(b[4:], magic)
}

// Cut removes what follows the end of the log, after a copy of it was made durable in the directory
// keepDir (none is made of mere zeros). When it returns, durably, the last file holds zeros behind
// t.End, and no file follows it. The name of the copy is returned, "" if there was nothing to keep.
func (l *Log) Cut(t Tail, keepDir string) (kept string, err error) {
	if t.Bytes > 0 {
		if kept, err = l.keep(t, keepDir); err != nil {
			return "", fmt.Errorf("store: keep a copy of what is cut from the log: %w", err)
		}
	}
	if err := l.dropFilesBehind(t.End); err != nil {
		return kept, err
	}
	if t.Bytes == 0 {
		return kept, nil
	}
	return kept, l.zeroBehind(t)
}

// keep copies the tail into a new file of keepDir.
func (l *Log) keep(t Tail, keepDir string) (string, error) {
	fsys := l.cfg.FS
	if err := vfs.MakeDir(fsys, keepDir); err != nil {
		return "", err
	}
	f, name, err := createNumbered(fsys, path.Join(keepDir, segmentName(t.End)))
	if err != nil {
		return "", err
	}
	defer f.Close()
	err = l.eachChunk(t.End, func(at int64, chunk []byte) error {
		n := min(int64(len(chunk)), t.End+t.Bytes-at)
		if n <= 0 {
			return nil
		}
		_, err := f.WriteAt(chunk[:n], at-t.End)
		return err
	})
	if err != nil {
		return "", err
	}
	if err := f.Sync(); err != nil {
		return "", err
	}
	return name, fsys.SyncDir(keepDir)
}

// createNumbered creates the first of stem.0, stem.1, … that is not there.
func createNumbered(fsys vfs.FS, stem string) (vfs.File, string, error) {
	for i := 0; ; i++ {
		name := fmt.Sprintf("%s.%d", stem, i)
		f, err := fsys.Create(name)
		if !errors.Is(err, fs.ErrExist) {
			return f, name, err
		}
	}
}

// dropFilesBehind removes the files that begin behind end, the last one first, so that a power cut
// leaves no gap between files. That they are gone need not be durable: should one come back, the log
// still ends before it, and the directory is synced when the next one takes its name.
func (l *Log) dropFilesBehind(end int64) error {
	all := *l.segments.Load()
	for len(all) > 0 {
		g := all[len(all)-1]
		if g.base <= end {
			break
		}
		if err := l.cfg.FS.Remove(path.Join(l.cfg.Dir, segmentName(g.base))); err != nil {
			return fmt.Errorf("store: cut the log: %w", err)
		}
		all = all[:len(all)-1]
		l.segments.Store(&all)
		g.shared.Release()
	}
	return nil
}

// zeroBehind zeroes what is not zero behind the end, in the file that holds it.
func (l *Log) zeroBehind(t Tail) error {
	g := l.find(t.End)
	if g == nil {
		return nil
	}
	err := l.eachChunk(t.skipBlank(), func(at int64, chunk []byte) error {
		n := lastNonZero(chunk)
		if n == 0 {
			return nil
		}
		_, err := g.file.WriteAt(zeros[:n], at-g.base)
		return err
	})
	if err == nil {
		err = g.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("store: zero segment %s behind %d: %w", segmentName(g.base), t.End, err)
	}
	return nil
}

// RecordAt reads and verifies the record at off. Its slices stay valid. Before Start only.
func (l *Log) RecordAt(off int64, r *record.Record) error {
	w := walker{l: l}
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
