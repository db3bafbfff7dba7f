package rpc

import "ringmq/netio/wire"

// queryTopicsByConsumer (343) lists the topics that a group has committed offsets of, its retry topic among them; none
// for a group that nobody has heard of.
func (s *Server) queryTopicsByConsumer(c *Call) *wire.Command {
	var h wire.GroupRequest
	if err := h.Parse(c.Req); err != nil {
		return c.Fail(wire.SystemError, err.Error())
	}
	list := wire.TopicList{BrokerAddr: s.opts.Advertise.String(), TopicList: []string{}}
	list.TopicList = append(list.TopicList, s.opts.Offsets.Topics(h.Group)...)
	return c.JSON(list)
}
