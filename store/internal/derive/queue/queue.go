package queue

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"sync"
	"sync/atomic"

	"ringmq/store/internal/filename"
)

// writeBytes of entries in the tail make a write due.
const writeBytes = 4096

// ErrGap means that entries are missing between the queue's end and a message of the log.
var ErrGap = errors.New("store: queue entries are missing")

// Queue is the index of one queue.
type Queue struct {
	// Set when opened, constant afterwards; any goroutine.
	files *Files
	topic string
	id    int32
	dir   string

	// Stored by whoever calls Put, read by anyone.
	max atomic.Int64 // the queue offset that the next entry gets
	min atomic.Int64 // the first queue offset that is served

	lastRead atomic.Pointer[named] // any goroutine

	// mu guards what follows. Leaf lock: memory only.
	mu       sync.Mutex
	first    int64  // queue offset that the first file begins with
	tailFrom int64  // queue offset of tail[0]; entries before are in the files
	tail     []byte // entries that are not in a file yet; Write reads its front without the lock
	listed   bool   // Put has reported the queue as changed since the last checkpoint
	due      bool   // Put has reported a full tail

	// The one goroutine that writes (see Write) only.
	unsynced map[int64]struct{} // numbers of files that were written to
	newName  bool               // a file was made or removed
	newDir   bool               // the queue's directory was made
	counted  int64              // see CountBelow
	kept     []byte             // in recovery: entries that were trimmed, from keptFrom on
	keptFrom int64
}

// New returns an empty queue that has no file.
func New(files *Files, root, topic string, id int32) *Queue {
	return &Queue{
		files: files, topic: topic, id: id, dir: path.Join(root, topic, strconv.Itoa(int(id))),
		unsynced: map[int64]struct{}{},
	}
}

// Topic is the topic's name.
func (q *Queue) Topic() string { return q.topic }

// ID is the queue's number in its topic.
func (q *Queue) ID() int32 { return q.id }

// Max is the queue offset after the last entry.
func (q *Queue) Max() int64 { return q.max.Load() }

// Min is the first queue offset that is served.
func (q *Queue) Min() int64 { return q.min.Load() }

// Change is what the caller of Put must pass on.
type Change struct {
	First bool // first entry since the last checkpoint: the queue takes part in the next one
	Due   bool // the tail is full: Write is due
	Bytes int  // added to the tail
}

// Put adds the entry with queue offset at. An offset below the end is a duplicate and ignored. An
// offset beyond it is ErrGap, except in an empty queue: that begins there, after fillers up to the
// start of the offset's file. One goroutine calls it at a time.
func (q *Queue) Put(at int64, e Entry) (Change, error) {
	next := q.max.Load()
	if at < next {
		return Change{}, nil
	}
	q.mu.Lock()
	before := len(q.tail)
	if at > next {
		if next > 0 || len(q.tail) > 0 {
			q.mu.Unlock()
			return Change{}, fmt.Errorf("%w: %s/%d ends at %d, a message has %d", ErrGap, q.topic, q.id, next, at)
		}
		q.beginLocked(at)
	}
	q.tail = e.Append(q.tail)
	c := Change{First: !q.listed, Due: !q.due && len(q.tail) >= writeBytes, Bytes: len(q.tail) - before}
	q.listed = true
	q.due = q.due || c.Due
	q.max.Store(at + 1) // under the lock: after Unlist the keeper sees every entry that did not list the queue again
	q.mu.Unlock()
	return c, nil
}

// PutBeyond is Put for a queue whose log lacks messages: fillers take their places. More than maxHole
// of them are not believed: the entry is then left out.
func (q *Queue) PutBeyond(at int64, e Entry) (Change, error) {
	next := q.max.Load()
	if at-next > maxHole {
		return Change{}, nil
	}
	var sum Change
	for ; next < at; next++ {
		c, err := q.Put(next, filler(e))
		if err != nil {
			return sum, err
		}
		sum = sum.plus(c)
	}
	c, err := q.Put(at, e)
	return sum.plus(c), err
}

// maxHole is the largest hole in a queue that is filled.
const maxHole = 1 << 20

func (c Change) plus(d Change) Change {
	return Change{First: c.First || d.First, Due: c.Due || d.Due, Bytes: c.Bytes + d.Bytes}
}

// beginLocked makes at the first offset of an empty queue.
func (q *Queue) beginLocked(at int64) {
	perFile := q.files.FileBytes / EntryBytes
	q.first = at / perFile * perFile
	q.tailFrom = q.first
	for i := q.first; i < at; i++ {
		q.tail = preBlank.Append(q.tail)
	}
	q.min.Store(at)
}

func (q *Queue) fileName(number int64) string {
	return path.Join(q.dir, filename.Of(number*q.files.FileBytes))
}
