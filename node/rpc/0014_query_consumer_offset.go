package rpc

import (
	"ringmq/netio/wire"
	"ringmq/store"
)

// queryConsumerOffset (14) tells how far a group has read one queue.
//   - a group that never committed gets 0 while the queue's first message is still in the newest
//     part of the log, else QUERY_NOT_FOUND: so a new group reads a young topic from its beginning,
//     whatever the consumer's from-where says, which applies to an old topic only
//   - stock clients take QUERY_NOT_FOUND for "first boot" and any other code for an error
func (s *Server) queryConsumerOffset(c *Call) *wire.Command {
	var h wire.QueryOffsetRequest
	if err := h.Parse(c.Req); err != nil {
		return c.Fail(wire.SystemError, err.Error())
	}
	at, known := s.opts.Offsets.Get(h.ConsumerGroup, h.Topic, h.QueueID)
	if !known {
		if !h.SetZeroIfNotFound {
			return c.Fail(wire.QueryNotFound, "Not found, do not set to zero, maybe this group boot first")
		}
		if !s.beginsInMemory(c, string(h.Topic), h.QueueID) {
			return c.Fail(wire.QueryNotFound, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")
		}
	}
	ans := c.OK()
	(&wire.OffsetAnswer{Offset: at}).Append(ans)
	return ans
}

// beginsInMemory tells whether the queue's message 0 is in the newest part of the log.
func (s *Server) beginsInMemory(c *Call, topicName string, queueID int32) bool {
	q := s.opts.Store.Queue(topicName, queueID)
	if q == nil || q.Min() > 0 {
		return false
	}
	got := &c.turn.got
	err := s.opts.Store.Get(q, store.Get{MaxCount: 1, MaxBytes: 1}, got)
	return err == nil && got.Status == store.Found && s.isNewest(got.Runs[0].Offset)
}
