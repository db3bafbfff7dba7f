package rpc

import "ringmq/netio/wire"

// getMaxOffset (30) tells the offset that the next message of a queue will get. It does not lag
// behind answers to sends. What does not exist is at 0.
func (s *Server) getMaxOffset(c *Call) *wire.Command {
	var h wire.QueueRequest
	if err := h.Parse(c.Req); err != nil {
		return c.Fail(wire.SystemError, err.Error())
	}
	var at int64
	if q := s.opts.Store.Queue(h.Topic, h.QueueID); q != nil {
		at = q.Max()
	}
	ans := c.OK()
	(&wire.OffsetAnswer{Offset: at}).Append(ans)
	return ans
}
