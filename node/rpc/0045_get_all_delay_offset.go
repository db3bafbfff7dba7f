package rpc

import "ringmq/netio/wire"

// getAllDelayOffset (45) tells how far the messages of each delay level are delivered. A slave of the stock broker 5.5.0
// asks for it.
//
// Worker lane: it may wait for the table to be written.
func (s *Server) getAllDelayOffset(c *Call) *wire.Command { return c.JSON(s.opts.Delays.File()) }
