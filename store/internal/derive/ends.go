package derive

import (
	"encoding/binary"
	"hash/fnv"

	"ringmq/store/internal/derive/queue"
)

// A checkpoint holds a digest of where every queue ends at its position: the sum of a hash for each that
// has entries. It tells recovery that a queue is missing, or lost its end, also where no newer message
// of the log belongs to it.

// Attached counts a queue as it was found at the position from which the log is walked.
func (k *Keeper) Attached(q *queue.Queue) error { return k.countEnd(q, int64(1)<<62) }

// Ends is the digest now.
func (k *Keeper) Ends() uint64 { return k.ends }

// countEnds brings the digest up to date: queues have changed, and the position is at.
func (k *Keeper) countEnds(changed []*queue.Queue, at int64) error {
	for _, q := range changed {
		if err := k.countEnd(q, at); err != nil {
			return err
		}
		if q.Counted() < q.Max() { // came before it was unlisted: it reports no more changes
			k.mu.Lock()
			k.changed = append(k.changed, q)
			k.mu.Unlock()
		}
	}
	return nil
}

func (k *Keeper) countEnd(q *queue.Queue, at int64) error {
	before := q.Counted()
	end, err := q.CountBelow(at)
	if err == nil {
		k.ends += endHash(q, end) - endHash(q, before)
	}
	return err
}

// endHash is 0 for a queue without entries, which has no file either.
func endHash(q *queue.Queue, end int64) uint64 {
	if end == 0 {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(q.Topic()))
	var b [13]byte // the topic ends at a zero
	binary.BigEndian.PutUint32(b[1:], uint32(q.ID()))
	binary.BigEndian.PutUint64(b[5:], uint64(end))
	h.Write(b[:])
	return h.Sum64()
}
