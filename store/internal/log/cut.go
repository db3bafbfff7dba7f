package log

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"ringmq/store/record"
	"ringmq/store/vfs"
)

// Tail is what the files hold behind the end of the log.
type Tail struct {
	End   int64 // where the log ends
	Bytes int64 // up to the last byte that is not zero; 0 = nothing is there
	Valid int   // records in it that are whole and in their own place
	Whole int64 // End, or behind the blank record that begins there
	blank bool  // a blank record begins at End: part of the log
}

// Inspect looks at what follows end, which Walk returned. It changes nothing.
func (l *Log) Inspect(end int64) (Tail, error) {
	t := Tail{End: end, Whole: end}
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
	err = w.eachRecord(from, to, func(int64, *record.Record) bool {
		count++
		return true
	})
	return count, err
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
