package queue

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strconv"

	"ringmq/store/internal/filename"
	"ringmq/store/vfs"
)

// Found is a queue's directory on the disk.
type Found struct {
	Topic string
	ID    int32
	Bases []int64 // byte offsets of its files, in order
	Bytes int64   // length of all but the last, 0 if there is only one
	Last  int64   // length of the last: too short if a crash came in its way
	Wrong string  // why its files cannot be those of a queue, "" if they can
}

// Longest is the length of its longest file.
func (f Found) Longest() int64 { return max(f.Bytes, f.Last) }

// List finds the queues under root, which need not exist. Directories without files are left out.
func List(fsys vfs.FS, root string) ([]Found, error) {
	topics, err := subdirs(fsys, root)
	if err != nil {
		return nil, err
	}
	var all []Found
	for _, topic := range topics {
		ids, err := subdirs(fsys, path.Join(root, topic))
		if err != nil {
			return nil, err
		}
		for _, name := range ids {
			id, err := strconv.ParseInt(name, 10, 32)
			if err != nil || id < 0 {
				continue // as the stock broker does
			}
			found, err := listFiles(fsys, path.Join(root, topic, name))
			if err != nil {
				return nil, err
			}
			if found.Topic, found.ID = topic, int32(id); len(found.Bases) > 0 {
				all = append(all, found)
			}
		}
	}
	return all, nil
}

func subdirs(fsys vfs.FS, dir string) (names []string, err error) {
	all, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("store: list queues: %w", err)
	}
	for _, name := range all {
		info, err := fsys.Stat(path.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("store: list queues: %w", err)
		}
		if info.Dir {
			names = append(names, name)
		}
	}
	return names, nil
}

func listFiles(fsys vfs.FS, dir string) (f Found, err error) {
	names, err := fsys.List(dir)
	if err != nil {
		return f, fmt.Errorf("store: list queue files: %w", err)
	}
	for _, name := range names {
		file := path.Join(dir, name)
		info, err := fsys.Stat(file)
		if err != nil {
			return f, fmt.Errorf("store: list queue files: %w", err)
		}
		if info.Dir {
			continue
		}
		base, err := filename.Base(name)
		if err != nil {
			return f, fmt.Errorf("store: %s: no file of a queue: move it away", file)
		}
		if len(f.Bases) == 1 {
			f.Bytes = f.Last // of the file before
		}
		if len(f.Bases) > 0 && f.Last != f.Bytes {
			f.Wrong = fmt.Sprintf("files of %d and of %d bytes", f.Bytes, f.Last)
		}
		f.Last = info.Size
		f.Bases = append(f.Bases, base)
	}
	return f, nil
}

// Judge sets Wrong if the files have another length than full bytes. The last one may be shorter where
// short says so: a crash can come in the way of a recovery of ours. A stock broker's may be empty only.
func (f *Found) Judge(full int64, short bool) {
	wrong := len(f.Bases) > 1 && f.Bytes != full || f.Last > full || f.Last != 0 && f.Last < full && !short
	if wrong && f.Wrong == "" {
		f.Wrong = fmt.Sprintf("a file of %d bytes, others have %d", f.Longest(), full)
	}
}

// Remove removes the files of a queue that is to be made anew. Nothing is synced: what comes back is found
// wrong again.
func (f Found) Remove(fsys vfs.FS, root string) error {
	for _, base := range f.Bases {
		name := path.Join(root, f.Topic, strconv.Itoa(int(f.ID)), filename.Of(base))
		if err := fsys.Remove(name); err != nil {
			return fmt.Errorf("store: remove a spoiled queue file: %w", err)
		}
	}
	return nil
}

// Attach opens the queue that was found, with the entries that point below confirmed; the log gives
// the later ones again. With trim, or if there is something, what the files hold behind those entries is removed from them: it
// may be of a part of the log that no longer exists. ErrGap means that a file is missing or wrong.
func Attach(files *Files, root string, f Found, confirmed int64, trim bool) (*Queue, error) {
	q := New(files, root, f.Topic, f.ID)
	if f.Wrong != "" {
		return nil, fmt.Errorf("%w: %s: %s", ErrGap, q.dir, f.Wrong)
	}
	perFile := files.FileBytes / EntryBytes
	first, last := f.Bases[0]/files.FileBytes, f.Bases[len(f.Bases)-1]/files.FileBytes
	if f.Bases[0]%files.FileBytes != 0 || last-first != int64(len(f.Bases)-1) {
		return nil, fmt.Errorf("%w: %s: files are missing", ErrGap, q.dir)
	}
	if f.Last < files.FileBytes {
		if err := q.resize(last, files.FileBytes, files.FileBytes); err != nil {
			return nil, err
		}
	}
	q.first, q.tailFrom = first*perFile, (last+1)*perFile
	q.max.Store(q.tailFrom)
	end, err := q.search(q.first, func(e Entry) bool {
		return !e.Valid() || (!e.PreBlank() && e.Offset >= confirmed)
	})
	if err == nil && trim {
		err = q.keepExtended(end)
	}
	if err != nil {
		return nil, err
	}
	if err := q.checkFiles(end); err != nil {
		return nil, err
	}
	if !trim { // nothing should follow, and then there is nothing to trim
		e, ok, err := q.Entry(end)
		if err != nil {
			return nil, err
		}
		trim = ok && e.Valid()
	}
	q.tailFrom = end
	q.max.Store(end)
	if trim {
		err = q.trim(first, last)
	}
	return q, err
}

// checkFiles looks at the first and the last entry of each file below end: zeros there mean that its bytes
// were lost.
func (q *Queue) checkFiles(end int64) error {
	perFile := q.files.FileBytes / EntryBytes
	for from := q.first; from < end; from += perFile {
		for _, at := range [...]int64{from, min(from+perFile, end) - 1} {
			if e, _, err := q.Entry(at); err != nil || !e.Valid() {
				return errors.Join(err, fmt.Errorf("%w: %s: entry %d is no entry", ErrGap, q.dir, at))
			}
		}
	}
	return nil
}

// Trimmed reports whether Attach has changed files of the queue: it takes part in the next checkpoint.
func (q *Queue) Trimmed() bool { return q.listed }

// keepExtended remembers the entries from from on, which trim removes, if there are some whose tags lie in
// consumequeue_ext: the log does not tell the places there.
func (q *Queue) keepExtended(from int64) error {
	buf := make([]byte, 3200*EntryBytes)
	for at := from; ; {
		n, err := q.Read(buf, at)
		if err != nil || n == 0 {
			return err
		}
		for i := range n {
			b := buf[i*EntryBytes : (i+1)*EntryBytes]
			e := Parse(b)
			if !e.Valid() {
				return nil
			}
			if len(q.kept) == 0 && e.Extended() {
				q.keptFrom = at + int64(i)
			}
			if len(q.kept) > 0 || e.Extended() {
				q.kept = append(q.kept, b...)
			}
		}
		at += int64(n)
	}
}

// Kept is the entry that stood at a queue offset before the queue was trimmed, if it was one of the same
// record with its tags in consumequeue_ext; else e. Until Settle.
func (q *Queue) Kept(at int64, e Entry) Entry {
	i := (at - q.keptFrom) * EntryBytes
	if i < 0 || i >= int64(len(q.kept)) {
		return e
	}
	if old := Parse(q.kept[i:]); old.Extended() && old.Offset == e.Offset && old.Size == e.Size {
		return old
	}
	return e
}

// Settle ends recovery for the queue.
func (q *Queue) Settle() { q.kept = nil }

// trim removes the files behind the last entry and zeroes the rest of its file. The queue takes part
// in the next checkpoint, which makes that durable.
func (q *Queue) trim(first, last int64) error {
	perFile := q.files.FileBytes / EntryBytes
	keep := (q.tailFrom+perFile-1)/perFile - 1 // number of the file that holds the last entry
	for number := last; number > keep && number >= first; number-- {
		q.files.forget(q.fileName(number))
		if err := q.files.FS.Remove(q.fileName(number)); err != nil {
			return fmt.Errorf("store: trim queue %s/%d: %w", q.topic, q.id, err)
		}
		delete(q.unsynced, number)
	}
	q.listed, q.newName, q.newDir = true, true, true // names may be of a killed process, too
	if q.tailFrom == q.first {                       // no entry, no file
		q.first, q.tailFrom = 0, 0
		q.max.Store(0)
		return nil
	}
	return q.resize(keep, q.tailFrom*EntryBytes-keep*q.files.FileBytes, q.files.FileBytes)
}

// resize cuts a file to n bytes and then makes it full bytes long: zeros in between, without blocks.
func (q *Queue) resize(number, n, full int64) error {
	f, err := q.files.acquire(q.fileName(number))
	if err == nil {
		defer q.files.release(f)
		if n < full {
			err = f.Truncate(n)
		}
		if err == nil {
			err = f.Truncate(full)
		}
	}
	if err != nil {
		return fmt.Errorf("store: trim queue %s/%d: %w", q.topic, q.id, err)
	}
	q.unsynced[number] = struct{}{}
	return nil
}

// search returns the first queue offset from from on for whose entry is holds, or the queue's end. Once
// is holds it must hold for all that follow.
func (q *Queue) search(from int64, is func(Entry) bool) (int64, error) {
	var failed error
	n := sort.Search(int(q.max.Load()-from), func(i int) bool {
		e, ok, err := q.Entry(from + int64(i))
		failed = errors.Join(failed, err)
		return !ok || err != nil || is(e)
	})
	return from + int64(n), failed
}

// FixMin sets the first queue offset to that of the first entry at or beyond logMin, where the log
// begins; to the queue's end if there is none (stock broker 5.5.0, which also counts fillers).
func (q *Queue) FixMin(logMin int64) error {
	q.mu.Lock()
	from := max(q.first, q.min.Load())
	q.mu.Unlock()
	at, err := q.search(from, func(e Entry) bool { return !e.PreBlank() && e.Offset >= logMin })
	if err == nil {
		q.min.Store(at)
	}
	return err
}
