package netio

import (
	"encoding/binary"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// waker tells loops which sockets can be written to again. gnet reports that only to its own
// outbound buffer, so there is a second epoll here with one goroutine for the whole server, and each
// socket is armed for one event at a time.
//
// Why an event can never reach the wrong connection: it carries the number of a Conn, not a
// descriptor, and numbers are not used twice. If the connection is closed between the event and its
// delivery, either forget has removed the number here, or the loop sees that the Conn is gone.
type waker struct {
	// Set by newWaker, constant afterwards.
	epoll int
	stop  int // eventfd, registered under number 0
	done  chan struct{}

	mu    sync.Mutex // guards what follows; leaf
	conns map[uint64]*Conn
}

func newWaker() (*waker, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("netio: epoll_create1: %w", err)
	}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(ep)
		return nil, fmt.Errorf("netio: eventfd: %w", err)
	}
	w := &waker{epoll: ep, stop: stop, done: make(chan struct{}), conns: map[uint64]*Conn{}}
	if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, stop, event(0, unix.EPOLLIN)); err != nil {
		unix.Close(ep)
		unix.Close(stop)
		return nil, fmt.Errorf("netio: epoll_ctl: %w", err)
	}
	go w.run()
	return w, nil
}

// event carries a connection's number in the 64 bits that epoll hands back.
func event(number uint64, events uint32) *unix.EpollEvent {
	return &unix.EpollEvent{Events: events, Fd: int32(uint32(number)), Pad: int32(uint32(number >> 32))}
}

// arm asks for one call of Loop.writable when the socket of c takes bytes. On its loop, with the
// descriptor open.
func (w *waker) arm(c *Conn) error {
	op := unix.EPOLL_CTL_MOD
	if !c.watched {
		w.mu.Lock()
		w.conns[c.number] = c
		w.mu.Unlock()
		c.watched, op = true, unix.EPOLL_CTL_ADD
	}
	if err := unix.EpollCtl(w.epoll, op, c.fd, event(c.number, unix.EPOLLOUT|unix.EPOLLONESHOT)); err != nil {
		return fmt.Errorf("netio: epoll_ctl: %w", err)
	}
	return nil
}

// forget ends the watch. On the loop of c, before its descriptor is closed.
func (w *waker) forget(c *Conn) {
	if !c.watched {
		return
	}
	c.watched = false
	w.mu.Lock()
	delete(w.conns, c.number)
	w.mu.Unlock()
	_ = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_DEL, c.fd, nil) // closing it would do the same
}

func (w *waker) run() {
	defer close(w.done)
	var events [128]unix.EpollEvent
	for {
		n, err := unix.EpollWait(w.epoll, events[:], -1)
		if err != nil && err != unix.EINTR {
			panic(fmt.Sprintf("netio: epoll_wait: %v", err)) // EBADF, EFAULT, EINVAL: our own bug
		}
		for _, ev := range events[:max(n, 0)] {
			number := uint64(uint32(ev.Fd)) | uint64(uint32(ev.Pad))<<32
			if number == 0 {
				return
			}
			w.mu.Lock()
			c := w.conns[number]
			w.mu.Unlock()
			if c != nil {
				c.loop.writable(c)
			}
		}
	}
}

// close ends the goroutine. No loop runs any more.
func (w *waker) close() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(w.stop, one[:])
	<-w.done
	unix.Close(w.epoll)
	unix.Close(w.stop)
}
