package log

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"ringmq/store/internal/filename"
	"ringmq/store/record"
	"ringmq/store/vfs"
)

// Tail is what the files hold behind the end of the log.
type Tail struct {
	End   int64 // where the log ends
	Bytes int64 // up to the last byte that may have been written for the log; 0 = nothing is there
	Valid int   // records in it that are whole, in their own place, and carry the check that they must
	Whole int64 // End, or behind the blank record that begins there
	blank bool  // a blank record begins at End: part of the log
	must  record.Check
	seen  int   // records that verify: also those that lack the check
	dirty int64 // bytes up to the last one that is not zero: recycled files hold old records
}

// Inspect looks at what follows end, which Walk returned. Records there were written with the check must. It changes
// nothing.
func (l *Log) Inspect(end int64, must record.Check) (Tail, error) {
	t := Tail{End: end, Whole: end, must: must}
	w := walker{l: l}
	b, err := w.at(end)
	if err != nil {
		return t, err
	}
	var r record.Record
	if g := l.find(end); errors.Is(record.Verify(b, end, &r), record.ErrBlank) {
		if t.blank = int64(r.Size) == g.end()-end; t.blank {
			t.Whole = g.end()
		}
	}
	err = l.eachChunk(t.skipBlank(), func(at int64, chunk []byte) error {
		if n := lastNonZero(chunk); n > 0 {
			t.dirty = at + int64(n) - end
		}
		return nil
	})
	if err == nil && t.dirty > 0 {
		err = t.judge(l)
	}
	return t, err
}

// judge tells what may be of the log from what recycled files held before: whole records of an older
// segment in the same file, what follows the blank record of one, and all of a file behind the one where
// the log ends whose first page was never written, unless whole records of the log are there.
func (t *Tail) judge(l *Log) error {
	w := walker{l: l}
	at := t.skipBlank()
	if t.blank {
		at = t.Whole
	}
	for at < t.End+t.dirty {
		g := l.find(at)
		before := *t
		unwritten, err := g.base > t.End, error(nil)
		if unwritten {
			unwritten, err = w.unwritten(g)
		}
		for err == nil && at < g.end() && at < t.End+t.dirty {
			at, err = t.judgeNext(&w, g, at)
		}
		if err != nil {
			return err
		}
		if unwritten && t.seen == before.seen {
			*t = before
		}
		at = g.end()
	}
	return nil
}

// unwritten reports whether the first page of g is zeros.
func (w *walker) unwritten(g *segment) (bool, error) {
	b, err := w.have(g, g.base, pageBytes)
	return err == nil && lastNonZero(b[:pageBytes]) == 0, err
}

// judgeNext looks at what comes first from at on, and returns the place behind it.
func (t *Tail) judgeNext(w *walker, g *segment, at int64) (int64, error) {
	b, err := w.have(g, at, min(chunkBytes, g.end()-at))
	if err != nil {
		return at, err
	}
	b = b[:min(chunkBytes, int64(len(b)))]
	i := indexRecord(b)
	if i != 0 {
		n := int64(i)
		if i < 0 {
			if n = int64(len(b)); at+n < g.end() {
				n -= blankBytes - 1 // a head may begin there
			}
		}
		if k := lastNonZero(b[:n]); k > 0 {
			t.Bytes = at + int64(k) - t.End
		}
		return at + n, nil
	}
	if b, err = w.at(at); err != nil {
		return at, err
	}
	var r record.Record
	switch next := at + int64(recordBytes(b)); {
	case record.Verify(b, at, &r) == nil:
		if t.seen++; !r.Lacks(t.must) {
			t.Valid++
		}
		t.Bytes = next - t.End
		return next, nil
	case w.isOld(b, g, at):
		return w.behindOld(g, next)
	}
	t.Bytes = max(t.Bytes, at+blankBytes-t.End)
	return at + 1, nil
}

// isOld reports whether b begins with a whole record of an older segment that the file was.
func (w *walker) isOld(b []byte, g *segment, at int64) bool {
	var r record.Record
	if record.Parse(b, &r) != nil || r.PhysOffset < 0 || r.PhysOffset >= at || (at-r.PhysOffset)%g.size != 0 {
		return false
	}
	return record.Verify(b, r.PhysOffset, &r) == nil
}

// behindOld returns next, where an old record ends, or the segment's end if that one's blank is there.
func (w *walker) behindOld(g *segment, next int64) (int64, error) {
	b, err := w.at(next)
	var r record.Record
	if err == nil && errors.Is(record.Verify(b, next, &r), record.ErrBlank) && int64(r.Size) == g.end()-next {
		next = g.end()
	}
	return next, err
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
			return nil, fmt.Errorf("store: look for data in segment %s: %w", filename.Of(g.base), err)
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
			return fmt.Errorf("store: read segment %s at %d: %w", filename.Of(g.base), in, err)
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

// eachRecord calls f for the records between two offsets that verify at their own place, wherever they
// begin, until f returns false.
func (w *walker) eachRecord(from, to int64, f func(at int64, r *record.Record) bool) error {
	var r record.Record
	for at := from; at < to; {
		g := w.l.find(at)
		b, err := w.have(g, at, min(chunkBytes, g.end()-at))
		if err != nil {
			return err
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
			return err
		}
		if record.Verify(b, at, &r) != nil {
			at++
			continue
		}
		if !f(at, &r) {
			return nil
		}
		at += int64(r.Size)
	}
	return nil
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
	if err := l.refuseFixed(t.End); err != nil {
		return "", err
	}
	if t.Bytes > 0 {
		if kept, err = l.keep(t, keepDir); err != nil {
			return "", fmt.Errorf("store: keep a copy of what is cut from the log: %w", err)
		}
	}
	if err := l.dropFilesBehind(t.End); err != nil {
		return kept, err
	}
	if t.dirty == 0 {
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
	f, name, err := createNumbered(fsys, path.Join(keepDir, filename.Of(t.End)))
	if err != nil {
		return "", err
	}
	if err := l.copyTail(f, t); err != nil { // half a copy would take room at each try
		return "", errors.Join(err, f.Close(), fsys.Remove(name))
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	return name, fsys.SyncDir(keepDir)
}

// copyTail writes what is to be cut to f, durably.
func (l *Log) copyTail(f vfs.File, t Tail) error {
	err := l.eachChunk(t.End, func(at int64, chunk []byte) error {
		n := min(int64(len(chunk)), t.End+t.Bytes-at)
		if n <= 0 {
			return nil
		}
		_, err := f.WriteAt(chunk[:n], at-t.End)
		return err
	})
	if err != nil {
		return err
	}
	return f.Sync()
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
// leaves no gap between files. In one directory that they are gone need not be durable: should one come
// back, the log still ends before it, and the directory is synced when the next one takes its name.
func (l *Log) dropFilesBehind(end int64) error {
	all := *l.segments.Load()
	for len(all) > 0 {
		g := all[len(all)-1]
		if g.base <= end {
			break
		}
		err := l.cfg.FS.Remove(g.name())
		if err == nil && len(l.cfg.Dirs) > 1 {
			err = l.cfg.FS.SyncDir(g.dir)
		}
		if err != nil {
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
	from, to := t.skipBlank()-g.base, min(t.End+t.dirty-g.base, g.size)
	err := zeroFile(g.file, from, to-from)
	if err == nil {
		err = g.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("store: zero segment %s behind %d: %w", filename.Of(g.base), t.End, err)
	}
	return nil
}
