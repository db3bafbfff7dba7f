package rpc

import "ringmq/netio/wire"

// getEarliestStoreTime (32) tells when the first message of a queue was stored, -1 if there is none.
// Worker lane: it reads the log.
func (s *Server) getEarliestStoreTime(c *Call) *wire.Command {
	var h wire.QueueRequest
	if err := h.Parse(c.Req); err != nil {
		return c.Fail(wire.SystemError, err.Error())
	}
	at := int64(-1)
	if q := s.opts.Store.Queue(h.Topic, h.QueueID); q != nil {
		var err error
		if at, err = s.opts.Store.StoreTime(q, q.Min()); err != nil {
			return c.Failf(codeOf(err), "store time of queue %d of %s: %v", h.QueueID, h.Topic, err)
		}
	}
	ans := c.OK()
	(&wire.StoreTimeAnswer{Timestamp: at}).Append(ans)
	return ans
}
