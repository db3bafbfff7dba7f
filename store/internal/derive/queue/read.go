package queue

import (
	"errors"
	"fmt"
	"io/fs"

	"ringmq/store/vfs"
)

// Read fills buf with whole entries from queue offset from on and returns how many: fewer than fit
// where the queue ends, 0 outside of the queue. Any goroutine may call it.
func (q *Queue) Read(buf []byte, from int64) (n int, err error) {
	want := int(min(int64(len(buf)/EntryBytes), q.max.Load()-from))
	for n < want {
		got, err := q.readPiece(buf[n*EntryBytes:want*EntryBytes], from+int64(n))
		if got == 0 || err != nil {
			return n, err
		}
		n += got
	}
	return n, nil
}

// readPiece is Read up to the end of what lies together: in one file or in the tail. Entries may move from there into
// a file between two pieces.
func (q *Queue) readPiece(buf []byte, from int64) (int, error) {
	q.mu.Lock()
	if from < q.first {
		q.mu.Unlock()
		return 0, nil
	}
	if at := (from - q.tailFrom) * EntryBytes; at >= 0 {
		n := copy(buf, q.tail[at:])
		q.mu.Unlock()
		return n / EntryBytes, nil
	}
	want := min(int64(len(buf)/EntryBytes), q.tailFrom-from)
	q.mu.Unlock()
	return q.readFile(buf, from, want)
}

// named is the path of a queue's file.
type named struct {
	number int64
	path   string
}

// readName is fileName for readers, who ask for the same one over and over.
func (q *Queue) readName(number int64) string {
	n := q.lastRead.Load()
	if n == nil || n.number != number {
		n = &named{number, q.fileName(number)}
		q.lastRead.Store(n)
	}
	return n.path
}

// readFile reads up to want entries, all of which are in files, from the file that holds the first.
func (q *Queue) readFile(buf []byte, from, want int64) (int, error) {
	at := from * EntryBytes
	number := at / q.files.FileBytes
	at -= number * q.files.FileBytes
	want = min(want, (q.files.FileBytes-at)/EntryBytes)
	f, err := q.files.acquire(q.readName(number))
	if errors.Is(err, fs.ErrNotExist) && from < q.min.Load() { // removed meanwhile
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("store: read queue %s/%d at %d: %w", q.topic, q.id, from, err)
	}
	defer q.files.release(f)
	if _, err := f.ReadAt(buf[:want*EntryBytes], at); err != nil {
		return 0, fmt.Errorf("store: read queue %s/%d at %d: %w", q.topic, q.id, from, err)
	}
	return int(want), nil
}

// Cached reports whether Read of most entries from queue offset from on does not wait for the disk. A file that is not open
// would have to be opened, which may. Any goroutine may call it.
func (q *Queue) Cached(from int64, most int) bool {
	q.mu.Lock()
	to := min(q.tailFrom, from+int64(most))
	gone := from < q.first
	q.mu.Unlock()
	perFile := q.files.FileBytes / EntryBytes
	for !gone && from < to {
		number := from / perFile
		end := min(to, (number+1)*perFile)
		f := q.files.lookup(q.readName(number))
		if f == nil {
			return false
		}
		cached, known := vfs.Cached(f.File, (from-number*perFile)*EntryBytes, (end-from)*EntryBytes)
		q.files.release(f)
		if known && !cached {
			return false
		}
		from = end
	}
	return true
}

// Entry returns one entry; false if there is none at the offset.
func (q *Queue) Entry(at int64) (Entry, bool, error) {
	var buf [EntryBytes]byte
	n, err := q.Read(buf[:], at)
	if n == 0 || err != nil {
		return Entry{}, false, err
	}
	return Parse(buf[:]), true, nil
}
