package rpc

import (
	"slices"

	"ringmq/netio/wire"
	"ringmq/node/topic"
)

// getConsumeStats (208) tells how far a group is in the queues of its topics, and so its lag.
//   - of the topics that it has committed offsets of, its retry topic among them, or of the one that is named:
//     without those that its members do not subscribe to, if it has members; a list of topics is taken as it is
//   - topics that do not exist are left out, as is a group that nobody has heard of
//   - a group that never committed is at 0
//   - consumeTps is what the group was given of these topics, per second of the last minute
//
// Worker lane: it reads the log for the time of the last message that the group is done with.
func (s *Server) getConsumeStats(c *Call) *wire.Command {
	var h wire.ConsumeStatsRequest
	if err := h.Parse(c.Req); err != nil {
		return c.Fail(wire.SystemError, err.Error())
	}
	topics, queues := s.statsTopics(&h), 0
	for _, config := range topics {
		queues += int(config.ReadQueues)
	}
	if queues > maxStatsQueues {
		return c.Failf(wire.SystemError, "%d queues: ask for fewer topics at a time, of at most %d", queues, maxStatsQueues)
	}
	body := wire.ConsumeStatsBody{OffsetTable: make(map[wire.MessageQueue]wire.OffsetWrapper, queues)}
	now := s.opts.Clock.Now()
	for _, config := range topics {
		body.ConsumeTPS += s.rates.perSecond(h.ConsumerGroup, config.Name, now)
		for id := range config.ReadQueues {
			progress, err := s.progress([]byte(h.ConsumerGroup), config.Name, id)
			if err != nil {
				return c.Failf(codeOf(err), "progress of %s in queue %d of %s: %v", h.ConsumerGroup, id, config.Name, err)
			}
			body.OffsetTable[wire.MessageQueue{BrokerName: s.opts.Broker, QueueID: id, Topic: config.Name}] = progress
		}
	}
	text, err := body.Append(nil)
	if err != nil {
		return c.Fail(wire.SystemError, err.Error())
	}
	if len(text) > maxStatsBytes {
		return c.Failf(wire.SystemError, "an answer of %d bytes: ask for fewer topics at a time", len(text))
	}
	ans := c.OK()
	ans.Body = text
	return ans
}

// Bounds of one answer. All queues of the largest topic take 12 MiB, with names of the usual length.
const (
	maxStatsQueues = maxQueues
	maxStatsBytes  = wire.MaxFrameBytes - 64<<10 // room for the header
)

// statsTopics are the topics that a 208 asks for, each once.
func (s *Server) statsTopics(h *wire.ConsumeStatsRequest) (configs []*topic.Config) {
	names, given := h.TopicList, len(h.TopicList) > 0
	switch {
	case given:
	case h.Topic != "":
		names = []string{h.Topic}
	default:
		names = s.opts.Offsets.Topics(h.ConsumerGroup)
	}
	group := []byte(h.ConsumerGroup)
	_, online := s.opts.Members.Info(group)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		config := s.opts.Topics.Get([]byte(name))
		if config == nil {
			continue
		}
		if online && !given {
			if _, ok := s.opts.Members.Subscription(group, []byte(name)); !ok {
				continue
			}
		}
		configs = append(configs, config)
	}
	return configs
}

// progress tells how far a group is in a queue, which need not have a message.
func (s *Server) progress(group []byte, topicName string, id int32) (p wire.OffsetWrapper, err error) {
	p.ConsumerOffset, _ = s.opts.Offsets.Get(group, []byte(topicName), id)
	pulled := s.opts.Offsets.PullOffset(group, []byte(topicName), id)
	if q := s.opts.Store.Queue(topicName, id); q != nil {
		p.BrokerOffset = q.Max()
		if p.ConsumerOffset > 0 {
			at, err := s.opts.Store.StoreTime(q, p.ConsumerOffset-1)
			if err != nil {
				return p, err
			}
			p.LastTimestamp = max(at, 0) // it may have left the log
		}
	}
	p.PullOffset = max(p.ConsumerOffset, min(pulled, p.BrokerOffset)) // a recovery may have cut what was pulled
	return p, nil
}
