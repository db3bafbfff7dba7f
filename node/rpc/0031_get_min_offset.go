package rpc

import "ringmq/netio/wire"

// getMinOffset (31) tells the first offset of a queue that still has a message. What does not exist
// is at 0.
func (s *Server) getMinOffset(c *Call) *wire.Command {
	var h wire.QueueRequest
	if err := h.Parse(c.Req); err != nil {
		return c.Fail(wire.SystemError, err.Error())
	}
	var at int64
	if q := s.opts.Store.Queue(h.Topic, h.QueueID); q != nil {
		at = q.Min()
	}
	ans := c.OK()
	(&wire.OffsetAnswer{Offset: at}).Append(ans)
	return ans
}
