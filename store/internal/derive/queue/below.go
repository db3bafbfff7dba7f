package queue

import (
	"errors"
	"fmt"
	"io/fs"
)

// DropBelow removes the files before the one that holds the last entry below Min, and returns how many.
// That one stays: a queue without messages still knows its offsets. The removed entries must be durable,
// so that Sync has nothing to do with their files any more. Nothing is synced: should a removal get lost,
// the file is back after the next start, and so are those removed after it. Any goroutine may call it,
// one at a time.
func (q *Queue) DropBelow() (removed int, err error) {
	perFile := q.files.FileBytes / EntryBytes
	for {
		q.mu.Lock()
		number := q.first / perFile
		if q.first+perFile >= q.min.Load() {
			q.mu.Unlock()
			return removed, nil
		}
		q.first += perFile // readers find no entries there from now on
		q.mu.Unlock()
		q.files.forget(q.fileName(number))
		if err := q.files.FS.Remove(q.fileName(number)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			q.mu.Lock()
			q.first -= perFile
			q.mu.Unlock()
			return removed, fmt.Errorf("store: remove file %d of queue %s/%d: %w", number, q.topic, q.id, err)
		}
		removed++
	}
}
