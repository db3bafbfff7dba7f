package rpc

import "ringmq/netio/wire"

// unlockQueues (42) gives locks back. Those that another client holds stay with it.
// Worker lane, so that it stays behind the locks (41) of its connection.
func (s *Server) unlockQueues(c *Call) *wire.Command {
	var body wire.LockBody
	if err := body.Parse(c.Req.Body); err != nil {
		return c.Failf(wire.SystemError, "the body of %v cannot be used: %v", c.Req.Code, err)
	}
	s.opts.Locks.Unlock(body.ClientID, body.ConsumerGroup, body.MQSet)
	return c.OK()
}
