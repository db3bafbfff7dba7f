package netio

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"ringmq/netio/wire"
)

// Server listens, and feeds a Handler with the requests of its connections.
type Server struct {
	// Set by Listen, constant afterwards.
	o          Options
	handler    Handler
	start      time.Time
	loops      []*Loop
	engine     *gnet.Client // loops without listeners; "client" is gnet's word for that
	waker      *waker
	listeners  []net.Listener
	complaints complaints
	slowTurns  complaints    // apart, so that neither keeps the other out of the log
	stopping   chan struct{} // closed by Stop
	stopOnce   sync.Once
	acceptors  sync.WaitGroup

	// Any goroutine.
	written, visible      atomic.Int64 // the marks; only grow
	failed                atomic.Pointer[failure]
	draining, stopped     atomic.Bool
	conns                 atomic.Int64
	inBytes, outBytes     atomic.Int64
	number                atomic.Uint64
	refused, acceptErrors atomic.Int64
}

// Listen starts a server. When it returns, connections are served.
func Listen(h Handler, o Options) (*Server, error) {
	o.Fill()
	if err := o.Check(); err != nil {
		return nil, err
	}
	s := &Server{o: o, handler: h, start: o.Now(), stopping: make(chan struct{})}
	s.complaints.log, s.slowTurns.log = o.Log, o.Log
	if err := s.bind(); err != nil {
		return nil, err
	}
	if err := s.startLoops(); err != nil {
		s.unbind()
		return nil, err
	}
	for _, ln := range s.listeners {
		s.acceptors.Go(func() { s.accept(ln) })
	}
	return s, nil
}

func (s *Server) bind() error {
	for _, addr := range s.o.Addrs {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			s.unbind()
			return fmt.Errorf("netio: %w", err)
		}
		s.listeners = append(s.listeners, ln)
	}
	return nil
}

func (s *Server) unbind() {
	for _, ln := range s.listeners {
		_ = ln.Close()
	}
}

func (s *Server) startLoops() error {
	bells, err := s.makeLoops()
	if err != nil {
		return err
	}
	if s.waker, err = newWaker(); err != nil {
		s.closeBells(bells)
		return err
	}
	s.engine, err = gnet.NewClient(&events{s: s},
		gnet.WithNumEventLoop(s.o.Loops),
		gnet.WithReadBufferCap(readBytes),
		gnet.WithTicker(true),
		gnet.WithTCPNoDelay(gnet.TCPDelay), // Go's listener has set no-delay and keep-alive already
		gnet.WithLogger(gnetLogger{s.o.Log}))
	if err == nil {
		err = s.engine.Start()
	}
	if err != nil {
		s.waker.close()
		s.closeBells(bells)
		return fmt.Errorf("netio: event loops: %w", err)
	}
	if err := s.hangBells(bells); err != nil {
		s.stopLoops()
		s.closeBells(bells)
		return err
	}
	return nil
}

// makeLoops makes the loops and returns the end of each bell that its loop is to read.
func (s *Server) makeLoops() (bells []net.Conn, err error) {
	for i := range s.o.Loops {
		ours, theirs, err := streamPair()
		if err != nil {
			s.closeBells(bells)
			return nil, fmt.Errorf("netio: event loop %d: %w", i, err)
		}
		s.loops = append(s.loops, &Loop{s: s, index: i, bell: ours, idle: make(chan struct{})})
		bells = append(bells, theirs)
	}
	return bells, nil
}

// hangBells gives each loop of gnet its Loop. gnet does not hand its loops out, but a connection knows
// its own, and each is given to the loop with the fewest: that is one bell per loop.
func (s *Server) hangBells(bells []net.Conn) error {
	seen := map[gnet.EventLoop]bool{}
	for i, l := range s.loops {
		if _, err := s.engine.EnrollContext(bells[i], l); err != nil {
			return fmt.Errorf("netio: event loop %d: %w", i, err)
		}
		if l.el == nil || seen[l.el] {
			return fmt.Errorf("netio: event loop %d: its bell hangs elsewhere", i)
		}
		seen[l.el] = true
	}
	return nil
}

// closeBells closes our ends of the bells, and the others where no loop has them.
func (s *Server) closeBells(theirs []net.Conn) {
	for _, b := range theirs {
		_ = b.Close()
	}
	for _, l := range s.loops {
		_ = l.bell.Close()
	}
}

// streamPair returns two connected sockets as Go connections.
func streamPair() (a, b net.Conn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "bell")
		if c, e := net.FileConn(f); e != nil {
			err = e
		} else {
			ends[i] = c
		}
		_ = f.Close() // the connection has its own descriptor
	}
	if err != nil {
		for _, c := range ends {
			if c != nil {
				_ = c.Close()
			}
		}
		return nil, nil, err
	}
	return ends[0], ends[1], nil
}

// since is the server's clock: the time since Listen.
func (s *Server) since() time.Duration { return s.o.Now().Sub(s.start) }

// Addrs returns the addresses listened on, with their ports, in the order of Options.Addrs.
func (s *Server) Addrs() []netip.AddrPort {
	addrs := make([]netip.AddrPort, len(s.listeners))
	for i, ln := range s.listeners {
		addrs[i] = addrPort(ln.Addr().(*net.TCPAddr))
	}
	return addrs
}

// Advance tells how far the log is written and visible. Answers owed up to there go out, and requests
// that were put off are tried again. Marks never go back: a smaller value changes nothing. Any
// goroutine; it does not block, and rings each loop that waits for something, at most once before
// that loop has its turn.
func (s *Server) Advance(written, visible int64) {
	raise(&s.written, written)
	raise(&s.visible, visible)
	s.ringInterested()
}

func raise(mark *atomic.Int64, to int64) {
	for {
		at := mark.Load()
		if to <= at || mark.CompareAndSwap(at, to) {
			return
		}
	}
}

func (s *Server) ringInterested() {
	for _, l := range s.loops {
		if l.interested.Load() {
			l.ring()
		}
	}
}

// FailOwed answers with code and remark all that is owed and not covered by the marks, now and from
// now on: the log takes nothing more. Any goroutine; the first call counts.
func (s *Server) FailOwed(code wire.Code, remark string) {
	s.failed.CompareAndSwap(nil, &failure{code, remark})
	s.ringInterested()
}

// Stop closes the listeners, serves no further request, waits until ctx ends for owed answers to be
// released and queued ones to be taken by the peers, and closes all connections. The marks must go on
// moving meanwhile. Everything is released when it returns, with an error when answers were left.
// Calls of other methods do no harm afterwards. A second Stop returns nil.
func (s *Server) Stop(ctx context.Context) (err error) {
	s.stopOnce.Do(func() { err = s.stop(ctx) })
	return err
}

func (s *Server) stop(ctx context.Context) error {
	close(s.stopping)
	s.unbind()
	s.acceptors.Wait()
	s.draining.Store(true)
	for _, l := range s.loops {
		l.ring()
	}
	var err error
	for _, l := range s.loops {
		select {
		case <-l.idle:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	left := s.Stats()
	s.stopLoops()
	if err != nil && left.Conns > 0 {
		return fmt.Errorf("netio: stop: %d answers owed and %d bytes of answers queued are lost: %w", left.Owed, left.OutBytes, err)
	}
	return nil
}

// stopLoops ends gnet's goroutines, which closes all connections, and then ours.
func (s *Server) stopLoops() {
	_ = s.engine.Stop() // the errors of its loops are in the log already
	s.stopped.Store(true)
	s.waker.close()
	s.closeBells(nil)
}
