package osfs

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ringmq/store/vfs"
	"ringmq/uring"
)

// ring is the engine that flushes through io_uring: the kernel's own workers run the fdatasync, and the writer waits
// for completions and for kicks at one place, the ring; with nothing in flight it parks as any goroutine, which a Kick
// ends without a system call of either side. It needs no goroutine. The work in flight belongs to the
// thread that handed it over; the Go runtime keeps its threads, so it is never cancelled for that reason.
type ring struct {
	// Writer goroutine only.
	ring   *uring.Ring
	flying []flying // by operation id
	ready  []vfs.Flushed
	reaped []uring.Completion
	armed  bool // a poll of event is in flight
	err    error

	// Any goroutine. A File and no bare descriptor, so that a Kick which comes late never writes to a descriptor that
	// Close gave back and somebody else got.
	event *os.File      // eventfd: written by Kick while the writer sleeps in the ring
	wake  chan struct{} // room for one: filled by Kick while the writer is parked
	state atomic.Int32

	eventFd int // of event; constant
}

// flying is one flush in flight; free where slot is nil.
type flying struct {
	slot *slot
	id   uint64
}

// The states of a ring's writer. Kick stores kicked; only where it found asleep or parked it must wake the writer, who
// is in the kernel or about to be, or parked. A writer about to sleep moves on from awake in one step, so that it sees a
// kick that came before.
const (
	awake int32 = iota
	asleep
	parked
	kicked
)

// flushesMax is how many flushes may be in flight, one to a slot; the ring has one entry more, for the poll.
const (
	flushesMax = 15
	pollID     = uint64(flushesMax)
)

// newRing makes the engine, or says why the kernel does not let it.
func newRing() (*ring, error) {
	r, err := uring.NewRing(flushesMax + 1)
	if err != nil {
		return nil, err
	}
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("osfs: eventfd: %w", err), r.Close())
	}
	return &ring{ring: r, event: os.NewFile(uintptr(event), "eventfd"), eventFd: event, wake: make(chan struct{}, 1), flying: make([]flying, flushesMax)}, nil
}

func (e *ring) Begin(v vfs.Slot, id uint64) {
	s := v.(*slot)
	if err := errors.Join(s.err, e.err); err != nil {
		e.ready = append(e.ready, vfs.Flushed{ID: id, Err: err})
		return
	}
	op := 0
	for e.flying[op].slot != nil {
		op++
	}
	e.flying[op] = flying{slot: s, id: id}
	e.send(e.flying[op], uint64(op))
}

// send hands a flush over to the kernel.
func (e *ring) send(f flying, op uint64) {
	e.ring.Fsync(int(f.slot.file.Fd()), op)
	if err := e.ring.Submit(); err != nil {
		e.broken(err)
	}
}

func (e *ring) Reap(into []vfs.Flushed, wait time.Duration) []vfs.Flushed {
	n := len(into)
	var end time.Time
	if wait > 0 {
		end = time.Now().Add(wait)
	}
	for {
		if into = e.collect(into); len(into) > n || wait == 0 {
			return into
		}
		how, sleep := asleep, e.sleep
		if !e.inFlight() {
			how, sleep = parked, e.park
		}
		if !e.state.CompareAndSwap(awake, how) {
			e.state.Store(awake)
			return into
		}
		sleep(wait)
		if e.state.Swap(awake) == kicked {
			return e.collect(into)
		}
		if wait > 0 { // a completion, a late poll, or the end of the time
			wait = max(time.Until(end), 0)
		}
	}
}

// sleep waits for a completion or a kick; it may come back early.
func (e *ring) sleep(wait time.Duration) {
	if !e.armed {
		e.armed = true
		e.ring.Poll(e.eventFd, pollID)
	}
	if err := e.ring.Wait(wait); err != nil {
		e.broken(err)
	}
}

// park waits for a kick; it may come back early, by one that came as the time before was over.
func (e *ring) park(wait time.Duration) {
	var over <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-e.wake:
	case <-over:
	}
}

// drain takes what Kick wrote. There may be nothing: a poll can complete late, when that was read already.
func (e *ring) drain() {
	var count [8]byte
	_, _ = unix.Read(e.eventFd, count[:])
}

// collect appends what has completed.
func (e *ring) collect(into []vfs.Flushed) []vfs.Flushed {
	e.reaped = e.ring.Reap(e.reaped[:0])
	for _, c := range e.reaped {
		if c.ID == pollID {
			e.armed = false
			e.drain()
			continue
		}
		if f := e.flying[c.ID]; f.slot != nil { // else the engine broke before: it was reported then
			into = e.landed(into, f, c)
		}
	}
	into = append(into, e.ready...)
	e.ready = e.ready[:0]
	return into
}

// landed appends a flush that has completed, unless a signal ended it before it did anything: then it is
// handed over again, as the other engine does.
func (e *ring) landed(into []vfs.Flushed, f flying, c uring.Completion) []vfs.Flushed {
	err := c.Err()
	if errors.Is(err, unix.EINTR) {
		e.send(f, c.ID)
		return into
	}
	e.flying[c.ID] = flying{}
	if err != nil {
		f.slot.err = fmt.Errorf("fdatasync %s: %w", f.slot.name, err)
	}
	return append(into, vfs.Flushed{ID: f.id, Err: f.slot.err})
}

// broken ends the engine: what the kernel will make of the flushes in flight is unknown, so they have failed.
func (e *ring) broken(err error) {
	e.err = fmt.Errorf("osfs: io_uring: %w", err)
	for op, f := range e.flying {
		if f.slot != nil {
			f.slot.err = e.err
			e.ready = append(e.ready, vfs.Flushed{ID: f.id, Err: e.err})
			e.flying[op] = flying{}
		}
	}
}

func (e *ring) Kick() {
	switch e.state.Swap(kicked) {
	case asleep:
		one := [8]byte{1} // in host order; that it is not zero is what counts
		_, _ = e.event.Write(one[:])
	case parked:
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
}

func (e *ring) Close() error {
	for e.err == nil && e.inFlight() {
		if err := e.ring.Wait(-1); err != nil {
			e.broken(err)
		}
		e.collect(nil)
	}
	return errors.Join(e.ring.Close(), e.event.Close())
}

func (e *ring) inFlight() bool {
	for _, f := range e.flying {
		if f.slot != nil {
			return true
		}
	}
	return false
}

func (e *ring) Name() string { return vfs.RingEngine }
