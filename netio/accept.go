package netio

import (
	"errors"
	"net"
	"net/netip"
	"time"
)

// accept takes connections from one listener until it is closed. The listeners are Go's, because
// gnet's own end the whole engine when accept(2) fails (out of descriptors), cannot be closed while
// the loops go on, and do not tell their port.
func (s *Server) accept(ln net.Listener) {
	var pause time.Duration
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			pause = 0
			s.admit(nc.(*net.TCPConn))
			continue
		case errors.Is(err, net.ErrClosed):
			return
		}
		s.acceptErrors.Add(1)
		s.complaints.say(s.since(), "netio: accept failed", "listen", ln.Addr(), "err", err)
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		select {
		case <-time.After(pause): // others may give descriptors back meanwhile
		case <-s.stopping:
			return
		}
	}
}

// admit hands a connection to the loop with the fewest, or closes it when there are too many.
func (s *Server) admit(nc *net.TCPConn) {
	remote, local := nc.RemoteAddr().(*net.TCPAddr), nc.LocalAddr().(*net.TCPAddr)
	if s.conns.Add(1) > int64(s.o.MaxConns) {
		s.conns.Add(-1)
		s.refused.Add(1)
		_ = nc.Close()
		s.complaints.say(s.since(), "netio: connection refused", "peer", remote, "max_conns", s.o.MaxConns)
		return
	}
	c := &Conn{number: s.number.Add(1), remote: addrPort(remote), local: addrPort(local)}
	// gnet puts the text of a zone into a pool of buffers when the connection closes, and these two
	// are shared with the net package.
	remote.Zone, local.Zone = "", ""
	_, err := s.engine.EnrollContext(nc, c) // closes nc; returns after OnOpen
	if err != nil || !c.opened {
		s.conns.Add(-1)
		s.acceptErrors.Add(1)
		s.complaints.say(s.since(), "netio: connection could not be taken over", "peer", c.remote, "err", err)
	}
}

// addrPort unmaps IPv4 peers of an IPv6 listener.
func addrPort(a *net.TCPAddr) netip.AddrPort {
	ap := a.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
