package rpc

import "ringmq/netio/wire"

// getConsumerList (38) lists the clients of a consumer group, each once.
//   - an empty list would make stock consumers drop all their queues; SYSTEM_ERROR makes them keep
//     what they have and ask again
func (s *Server) getConsumerList(c *Call) *wire.Command {
	var h wire.ConsumerListRequest
	if err := h.Parse(c.Req); err != nil {
		return c.Fail(wire.SystemError, err.Error())
	}
	ids := s.opts.Members.ClientIDs(h.ConsumerGroup)
	if len(ids) == 0 {
		return c.Failf(wire.SystemError, "no consumer for this group, %s", h.ConsumerGroup)
	}
	return c.JSON(wire.ConsumerListBody{ConsumerIDList: ids})
}
