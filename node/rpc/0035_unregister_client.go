package rpc

import "ringmq/netio/wire"

// unregisterClient (35) takes a client out of its groups; those who stay are told at once, and find its queue
// locks free.
// Worker lane, so that it stays behind the heartbeats of its connection.
func (s *Server) unregisterClient(c *Call) *wire.Command {
	var h wire.UnregisterRequest
	if err := h.Parse(c.Req); err != nil {
		return c.Fail(wire.SystemError, err.Error())
	}
	s.opts.Locks.Leave(h.ClientID, h.ConsumerGroup)
	s.notifyChanged(s.opts.Members.Unregister(c.Conn, h.ProducerGroup, h.ConsumerGroup))
	return c.OK()
}
