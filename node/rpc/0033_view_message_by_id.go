package rpc

import (
	"errors"

	"ringmq/netio/wire"
	"ringmq/store"
)

// viewMessage (33) returns the message at a physical offset, which is part of its offset message id.
//   - what is there is verified; a stock broker returns the bytes at any offset whose first four make a
//     length
//   - the topic is not compared, as on a stock broker
//
// Worker lane: it reads the log.
func (s *Server) viewMessage(c *Call) *wire.Command {
	var h wire.ViewMessageRequest
	if err := h.Parse(c.Req); err != nil {
		return c.Fail(wire.SystemError, err.Error())
	}
	record, err := s.opts.Store.Record(h.Offset)
	if errors.Is(err, store.ErrOffset) {
		return c.Failf(wire.SystemError, "can not find message by the offset, %d: %v", h.Offset, err)
	}
	if err != nil {
		return c.Failf(codeOf(err), "read the message at %d: %v", h.Offset, err)
	}
	ans := c.OK()
	ans.Body = record
	return ans
}
