package rpc

import "ringmq/netio/wire"

// lockQueues (41) gives a client the locks of queues that no other client of its group holds, and tells which
// it holds now.
//   - a lock lives 60 s after it was last asked for (clients ask every 20 s), and ends at once when the
//     last connection closes that its client was heard on
//   - neither the group nor the queues need to exist (stock broker 5.5.0)
//
// Worker lane: the body may be long. Requests of one connection stay in order there, and what it committed
// before (15) is stored before.
func (s *Server) lockQueues(c *Call) *wire.Command {
	var body wire.LockBody
	if err := body.Parse(c.Req.Body); err != nil {
		return c.Failf(wire.SystemError, "the body of %v cannot be used: %v", c.Req.Code, err)
	}
	granted, err := s.opts.Locks.Lock(c.Conn, body.ClientID, body.ConsumerGroup, body.MQSet)
	if c.Conn.Closed() {
		// Closed may have run before the line above and found nothing to take back.
		s.opts.Locks.Gone(c.Conn)
		return nil
	}
	if err != nil {
		return c.Fail(codeOf(err), err.Error())
	}
	return c.JSON(wire.LockAnswerBody{LockOKMQSet: granted})
}
