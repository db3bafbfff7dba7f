package cold

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"ringmq/uring"
)

// ring is the engine on io_uring. Its goroutine sleeps in Go's own poller, on an eventfd to which both the kernel and kick
// write: no thread waits.
type ring struct {
	r     *Reader
	event *os.File
	ended chan struct{}
	woken atomic.Bool // a write is on its way that the goroutine has not seen

	mu      sync.Mutex // guards what follows; leaf, taken under Reader.mu
	todo    []*piece
	closing bool

	// The goroutine only.
	ring   *uring.Ring
	fly    [flyingMax]*piece
	wait   []*piece // taken from todo; the ring is full
	reaped []uring.Completion
	broken bool // pieces are read by the goroutine itself
}

func newRing(r *Reader) (*ring, error) {
	ur, err := r.o.Ring(flyingMax)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(os.NewSyscallError("eventfd", err), ur.Close())
	}
	event := os.NewFile(uintptr(fd), "eventfd")
	if err := ur.SetEvent(fd); err != nil {
		return nil, errors.Join(err, event.Close(), ur.Close())
	}
	e := &ring{r: r, event: event, ring: ur, ended: make(chan struct{})}
	go e.run()
	return e, nil
}

func (e *ring) add(p *piece) {
	e.mu.Lock()
	e.todo = append(e.todo, p)
	e.mu.Unlock()
}

// kick wakes the goroutine if there is something for it.
func (e *ring) kick() {
	e.mu.Lock()
	news := len(e.todo) > 0 || e.closing
	e.mu.Unlock()
	if news && e.woken.CompareAndSwap(false, true) {
		one := [8]byte{1} // in host order; that it is not zero is what counts
		_, _ = e.event.Write(one[:])
	}
}

func (e *ring) run() {
	defer close(e.ended)
	var count [8]byte
	for {
		e.woken.Store(false) // before the look at todo
		e.mu.Lock()
		todo, closing := e.todo, e.closing
		e.todo = nil
		e.mu.Unlock()
		e.wait = append(e.wait, todo...)
		if n := e.begin() + e.reap(); n > 0 || len(todo) > 0 {
			continue
		}
		if closing && len(e.wait) == 0 && (e.broken || e.ring.InFlight() == 0) {
			return
		}
		if _, err := e.event.Read(count[:]); err != nil {
			panic(fmt.Sprintf("store: an eventfd cannot be read: %v", err))
		}
	}
}

// begin hands reads over while there is room, and returns how many.
func (e *ring) begin() (n int) {
	for ; len(e.wait) > 0 && (e.broken || e.ring.InFlight() < flyingMax); n++ {
		var p *piece
		p, e.wait = pick(e.wait)
		if e.broken {
			e.r.finish(p, p.read())
			continue
		}
		if err := p.open(); err != nil {
			e.r.finish(p, err)
			continue
		}
		id := 0
		for e.fly[id] != nil {
			id++
		}
		e.fly[id] = p
		e.ring.Read(p.file.Fd(), p.bytes(p.lo, p.hi), p.lo-p.base, uring.IdlePriority, uint64(id))
	}
	if n > 0 && !e.broken {
		if err := e.ring.Submit(); err != nil {
			e.fail(err)
		}
	}
	return n
}

// reap finishes what has completed, and returns how many reads.
func (e *ring) reap() int {
	if e.broken {
		return 0
	}
	e.reaped = e.ring.Reap(e.reaped[:0])
	for _, c := range e.reaped {
		p := e.fly[c.ID]
		e.fly[c.ID] = nil
		err := c.Err()
		switch {
		case err == nil && int64(c.Res) < p.hi-p.lo:
			err = short
		case errors.Is(err, syscall.EINTR), errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ECANCELED), err != nil && p.retry(err):
			e.wait = append(e.wait, p)
			continue
		}
		e.r.finish(p, err)
	}
	return len(e.reaped)
}

// fail ends the ring. What the kernel will make of the reads in flight is unknown: their places are not used again.
func (e *ring) fail(err error) {
	e.broken = true
	err = fmt.Errorf("io_uring: %w", err)
	e.r.o.Log.Error("store: the ring that reads old messages has failed: they are read one piece after the other from now on", "err", err)
	for id, p := range e.fly {
		if p != nil {
			e.fly[id] = nil
			p.ruined = true
			e.r.finish(p, err)
		}
	}
}

func (e *ring) close() {
	e.mu.Lock()
	e.closing = true
	e.mu.Unlock()
	e.kick()
	<-e.ended
	_, _ = e.ring.Close(), e.event.Close()
}
