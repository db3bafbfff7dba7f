package rpc

import (
	"fmt"

	"ringmq/netio/wire"
	"ringmq/node/topic"
)

// updateConsumerOffset (15) stores how far a group has read one queue.
//   - stock clients send it oneway, so the answer is often dropped
//   - an offset below the stored one is taken: a reset may move back
//   - the stock broker judges the group (26) before the topic (17) before missing fields (29)
func (s *Server) updateConsumerOffset(c *Call) *wire.Command {
	var h wire.UpdateOffsetRequest
	bad := h.Parse(c.Req)
	if h.ConsumerGroup == nil || h.Topic == nil {
		return c.Fail(wire.SystemError, bad.Error())
	}
	if s.opts.Groups.Get(h.ConsumerGroup) == nil {
		return c.Failf(wire.SubscriptionGroupNotExist, "Group %s not exist!", h.ConsumerGroup)
	}
	config := s.opts.Topics.Get(h.Topic)
	if config == nil {
		return c.Failf(wire.TopicNotExist, "Topic %s not exist!", h.Topic)
	}
	if bad == nil {
		bad = s.commit(config, h.ConsumerGroup, h.Topic, h.QueueID, h.CommitOffset)
	}
	if bad != nil {
		return c.Fail(wire.InvalidParameter, bad.Error())
	}
	return c.OK()
}

// commit stores an offset. Queues that the topic does not have are refused: each would be kept for
// good.
func (s *Server) commit(config *topic.Config, group, topicName []byte, queueID int32, at int64) error {
	if most := max(config.ReadQueues, config.WriteQueues); queueID >= most {
		return fmt.Errorf("queueId=%d: topic %s has %d queues", queueID, config.Name, most)
	}
	return s.opts.Offsets.Commit(group, topicName, queueID, at)
}
