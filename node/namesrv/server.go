// Package namesrv is the embedded name server: brokers register their topics with it, clients ask it where a
// topic lives. It speaks the protocol of the stock name server 5.5.0 to brokers and clients of any kind; what
// of it is served is the list in handler.go. table.go holds the rules, all in memory: brokers register again
// every 30 seconds and whenever they lose their connection.
package namesrv

import (
	"context"
	"log/slog"
	"time"

	"ringmq/netio"
	"ringmq/netio/wire"
)

// Options sets up a Server. A zero field means "choose for me".
type Options struct {
	Now func() time.Time
	Log *slog.Logger
}

// Server is a name server as the handler of a netio.Server of its own. Any goroutine may use it.
type Server struct {
	opts  Options
	table *table
}

// New returns a name server that knows nobody.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Server{opts: o, table: newTable()}
}

// Local makes the broker of this process known, with all of its topics: what is not in topics is gone. It
// replaces what Local said before. The broker never expires.
func (s *Server) Local(broker wire.BrokerIdentity, haAddr string, topics map[string]wire.TopicConfig) {
	s.table.local(broker, haAddr, topics)
}

// RemoveLocal takes the broker of this process out.
func (s *Server) RemoveLocal() { s.table.removeLocal() }

// Run drops the brokers that were not heard in time, at each tick, until ctx ends.
func (s *Server) Run(ctx context.Context, tick <-chan time.Time) {
	for {
		select {
		case <-tick:
			s.expire()
		case <-ctx.Done():
			return
		}
	}
}

func (s *Server) expire() {
	now := s.opts.Now()
	gone := s.table.removeWhere(func(b *broker) bool { return b.timeout > 0 && now.Sub(b.heard) > b.timeout })
	if len(gone) > 0 {
		s.opts.Log.Warn("name server: brokers were silent for too long and are out of all routes", "brokers", gone)
	}
}

// Opened is part of netio.Handler.
func (s *Server) Opened(*netio.Conn) {}

// EndTurn is part of netio.Handler.
func (s *Server) EndTurn(*netio.Loop) {}

// Closed takes out the brokers that registered on the connection: they are gone, or come back on another one.
func (s *Server) Closed(c *netio.Conn) {
	gone := s.table.removeWhere(func(b *broker) bool { return b.conn == c })
	if len(gone) > 0 {
		s.opts.Log.Info("name server: a connection closed, its brokers are out of all routes", "brokers", gone)
	}
}

// Serve is part of netio.Handler. All answers come from memory, at once.
func (s *Server) Serve(c *netio.Conn, req *wire.Command) netio.Verdict {
	answer := s.answer(c, req)
	if !req.Oneway() {
		c.Send(answer)
	}
	return netio.Done
}
