package rpc

import (
	"ringmq/netio/wire"
	"ringmq/node/topic"
)

// createTopic (17) creates or changes a topic; durable and registered when it is answered.
// Worker lane.
func (s *Server) createTopic(c *Call) *wire.Command {
	var h wire.CreateTopicRequest
	if err := h.Parse(c.Req); err != nil {
		return c.Fail(wire.SystemError, err.Error())
	}
	if err := topic.CheckName(h.Topic); err != nil {
		return c.Fail(wire.InvalidParameter, err.Error())
	}
	if s.opts.Topics.IsSystem(h.Topic) {
		return c.Failf(wire.InvalidParameter, "The topic[%s] is conflict with system topic.", h.Topic)
	}
	perm := topic.Perm(h.Perm)
	if !perm.Valid() || h.ReadQueueNums < 0 || h.WriteQueueNums < 0 || max(h.ReadQueueNums, h.WriteQueueNums) > maxQueues {
		return c.Failf(wire.InvalidParameter, "topic %s: perm=%d, readQueueNums=%d, writeQueueNums=%d: want perm 0 to 7 and 0 to %d queues",
			h.Topic, h.Perm, h.ReadQueueNums, h.WriteQueueNums, maxQueues)
	}
	config := topic.Config{
		Name: h.Topic, ReadQueues: h.ReadQueueNums, WriteQueues: h.WriteQueueNums, Perm: perm,
		SysFlag: h.TopicSysFlag, Order: h.Order, FilterType: h.TopicFilterType,
	}
	var old map[string]string
	if known := s.opts.Topics.Get([]byte(h.Topic)); known != nil {
		old = known.Attributes
	}
	var err error
	if config.Attributes, err = topic.Alter(old, h.Attributes); err != nil {
		return c.Fail(wire.SystemError, err.Error())
	}
	if config.Attributes["message.type"] == "MIXED" {
		return c.Fail(wire.InvalidParameter, "MIXED message type is not supported.")
	}
	if err := s.opts.Topics.Put(config); err != nil {
		return c.Fail(wire.SystemError, err.Error())
	}
	return c.OK()
}

// maxQueues bounds the queues of one topic: each has a file of its own.
const maxQueues = 1 << 16
