package netio

import (
	"time"

	"github.com/panjf2000/gnet/v2"
)

// events is what gnet calls. The context of its connections is a *Conn, or the *Loop whose bell it is.
//
// gnet is left with what it does well: waiting for sockets, and reading them. What was verified in
// v2.9.7, and is relied on:
//   - all callbacks but OnTick run on the connection's loop;
//   - OnTraffic gets the bytes of one read in the loop's read buffer as long as nothing is left in
//     gnet's own inbound buffer, and Next(-1) takes them all. (Discard(0) would drop everything.);
//   - EventLoop.Close calls OnClose before it returns and closes the descriptor after that. Context()
//     is nil from then on, and OnTraffic may still return to gnet's read as usual;
//   - with nothing written through gnet, its outbound buffer stays empty.
type events struct {
	gnet.BuiltinEventEngine
	s     *Server
	ticks int // OnTick only
}

func (e *events) OnOpen(gc gnet.Conn) ([]byte, gnet.Action) {
	switch x := gc.Context().(type) {
	case *Loop:
		x.el = gc.EventLoop()
	case *Conn:
		e.s.loopOf(gc).welcome(x, gc)
	}
	return nil, gnet.None
}

func (e *events) OnTraffic(gc gnet.Conn) gnet.Action {
	p, _ := gc.Next(-1)
	switch x := gc.Context().(type) {
	case *Loop:
		x.rung()
	case *Conn:
		x.loop.begin()
		x.loop.received(x, p)
		x.loop.end()
	}
	return gnet.None
}

func (e *events) OnClose(gc gnet.Conn, err error) gnet.Action {
	switch x := gc.Context().(type) {
	case *Loop: // its last connection that gnet knows, or one of the last
		x.dropHalves()
	case *Conn:
		x.loop.closed(x, err)
	}
	return gnet.None
}

func (e *events) OnTick() (time.Duration, gnet.Action) {
	t := fineTick
	if e.ticks++; e.ticks%coarseTicks == 0 {
		t = coarseTick
	}
	e.s.tick(t)
	return e.s.o.tickEvery, gnet.None
}

func (s *Server) loopOf(gc gnet.Conn) *Loop {
	el := gc.EventLoop()
	for _, l := range s.loops {
		if l.el == el {
			return l
		}
	}
	panic("netio: a loop without a bell")
}
