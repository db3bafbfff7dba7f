// Package hist counts values by their size, cheaply enough for hot paths: a bucket for each power of two. It lies in the
// lowest layer so that all may count; node/metrics gives the numbers their names.
package hist

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Buckets is how many there are. Bucket i has the values of up to 2^i; the last has all that are larger.
const Buckets = 32

// Hist is a histogram. The zero value is ready; any goroutine adds and reads.
type Hist struct {
	counts [Buckets]atomic.Int64
	sum    atomic.Int64
}

// Add counts a value n times. Negative ones count as 0.
func (h *Hist) Add(value, n int64) {
	value = max(value, 0)
	h.counts[bucket(value)].Add(n)
	h.sum.Add(value * n)
}

// AddTime counts a duration in µs, and returns it.
func (h *Hist) AddTime(d time.Duration) time.Duration {
	h.Add(d.Microseconds(), 1)
	return d
}

func bucket(value int64) int {
	if value <= 1 {
		return 0
	}
	return min(bits.Len64(uint64(value-1)), Buckets-1)
}

// Snapshot is a histogram at about one moment.
type Snapshot struct {
	Counts [Buckets]int64
	Sum    int64
}

// Read returns what was counted so far.
func (h *Hist) Read() (s Snapshot) {
	for i := range h.counts {
		s.Counts[i] = h.counts[i].Load()
	}
	s.Sum = h.sum.Load()
	return s
}

// Merge adds what another histogram counted.
func (s *Snapshot) Merge(o Snapshot) {
	for i, n := range o.Counts {
		s.Counts[i] += n
	}
	s.Sum += o.Sum
}

// Count is how many values there were.
func (s *Snapshot) Count() (n int64) {
	for _, c := range s.Counts {
		n += c
	}
	return n
}
