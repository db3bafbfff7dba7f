package pull

import (
	"slices"
	"sync"
	"sync/atomic"

	"ringmq/store"
)

// Arrivals passes the news that a queue got entries from the store's writer to the loops that hold
// polls on it. Any goroutine may use it.
type Arrivals struct {
	held  atomic.Int64 // polls that wait, on all loops
	raced atomic.Int64 // see Raced

	// mu guards what follows. It is held for map work only; the writer takes it.
	mu     sync.Mutex
	asking map[*store.Queue][]*Holder // who wants to hear of the queue's next arrival, once
}

// NewArrivals returns one without listeners.
func NewArrivals() *Arrivals {
	return &Arrivals{asking: make(map[*store.Queue][]*Holder)}
}

// Held returns how many polls wait, on all loops.
func (a *Arrivals) Held() int64 { return a.held.Load() }

// Raced counts messages' arrivals between a pull's look at its queue and the moment at which it was held: the second look of
// Hold found them.
func (a *Arrivals) Raced() int64 { return a.raced.Load() }

// Arrived is the store's OnArrive: q shows new entries. It does not block.
func (a *Arrivals) Arrived(q *store.Queue) {
	a.mu.Lock()
	holders := a.asking[q]
	delete(a.asking, q)
	a.mu.Unlock()
	for _, h := range holders {
		h.tell(q)
	}
}

// ask makes the next arrival on q known to h. Entries that became visible before ask returns are
// seen by a look at the queue after it; later ones are told. In steps: the writer publishes the
// entries and then looks whether the queue is watched; ask watches it and then its caller looks for
// entries. Whatever the order, one of the two sees the other.
func (a *Arrivals) ask(q *store.Queue, h *Holder) {
	a.mu.Lock()
	if !slices.Contains(a.asking[q], h) {
		a.asking[q] = append(a.asking[q], h)
	}
	a.mu.Unlock()
	q.Watch()
}
