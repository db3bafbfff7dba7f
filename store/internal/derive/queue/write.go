package queue

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
)

// Write moves the tail's entries into the files and returns how many. They are not durable on return.
// After an error the others are still in the tail, and Write may be called again. Write, Sync and
// Attach belong to one goroutine at a time.
func (q *Queue) Write() (moved int64, err error) {
	for {
		q.mu.Lock()
		from, tail := q.tailFrom, q.tail
		q.mu.Unlock()
		if len(tail) == 0 {
			return moved, nil
		}
		n, err := q.writeFile(from, tail)
		if err != nil {
			return moved, fmt.Errorf("store: write queue %s/%d at %d: %w", q.topic, q.id, from, err)
		}
		q.drop(n)
		moved += n
	}
}

// drop takes n entries off the tail's front: they are in a file now.
func (q *Queue) drop(n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tail = q.tail[:copy(q.tail, q.tail[n*EntryBytes:])]
	if len(q.tail) == 0 {
		q.tail = nil // most queues are idle: no memory for them
	}
	q.tailFrom += n
	q.due = false
}

// writeFile writes the first entries of tail, as many as belong to the same file.
func (q *Queue) writeFile(from int64, tail []byte) (int64, error) {
	at := from * EntryBytes
	number := at / q.files.FileBytes
	at -= number * q.files.FileBytes
	tail = tail[:min(int64(len(tail)), q.files.FileBytes-at)]
	f, err := q.openOrMake(number)
	if err != nil {
		return 0, err
	}
	defer q.files.release(f)
	if _, err := f.WriteAt(tail, at); err != nil {
		return 0, err
	}
	q.unsynced[number] = struct{}{}
	return int64(len(tail) / EntryBytes), nil
}

// openOrMake returns a file of the queue; a new one has its full length, without blocks.
func (q *Queue) openOrMake(number int64) (*openFile, error) {
	name := q.fileName(number)
	f, err := q.files.acquire(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	q.newDir = true
	if err := q.files.FS.MkdirAll(q.dir); err != nil {
		return nil, err
	}
	q.newName = true
	file, err := q.files.FS.Create(name)
	if err != nil {
		return nil, err
	}
	if err := file.Truncate(q.files.FileBytes); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return q.files.add(name, file)
}

// Sync makes durable what Write wrote, and adds the directories to dirs whose entries must be made
// durable after it. Once it has returned without an error the next Put reports First again.
func (q *Queue) Sync(dirs map[string]struct{}) error {
	for number := range q.unsynced {
		if err := q.syncFile(number); err != nil {
			return fmt.Errorf("store: sync queue %s/%d: %w", q.topic, q.id, err)
		}
		delete(q.unsynced, number)
	}
	if q.newName {
		dirs[q.dir] = struct{}{}
	}
	if q.newDir {
		topic := path.Dir(q.dir)
		dirs[topic], dirs[path.Dir(topic)] = struct{}{}, struct{}{}
	}
	q.newName, q.newDir = false, false
	return nil
}

// Synced is told when the whole file system was synced after Write, instead of Sync.
func (q *Queue) Synced() {
	clear(q.unsynced)
	q.newName, q.newDir = false, false
}

func (q *Queue) syncFile(number int64) error {
	f, err := q.files.acquire(q.fileName(number))
	if err != nil {
		return err
	}
	defer q.files.release(f)
	return f.Sync()
}

// Unlist lets the next Put report First. It is called before Write and Sync of a checkpoint, so that
// an entry that comes meanwhile lists the queue again.
func (q *Queue) Unlist() {
	q.mu.Lock()
	q.listed = false
	q.mu.Unlock()
}
