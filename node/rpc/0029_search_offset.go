package rpc

import "ringmq/netio/wire"

// searchOffset (29) finds the message of a queue by its store time. What does not exist is at 0.
// Worker lane: it reads the log.
func (s *Server) searchOffset(c *Call) *wire.Command {
	var h wire.SearchOffsetRequest
	if err := h.Parse(c.Req); err != nil {
		return c.Fail(wire.SystemError, err.Error())
	}
	var at int64
	if q := s.opts.Store.Queue(h.Topic, h.QueueID); q != nil {
		var err error
		if at, err = s.opts.Store.OffsetByTime(q, h.Timestamp, h.Upper); err != nil {
			return c.Failf(codeOf(err), "search in queue %d of %s: %v", h.QueueID, h.Topic, err)
		}
	}
	ans := c.OK()
	(&wire.OffsetAnswer{Offset: at}).Append(ans)
	return ans
}
