package rpc

import (
	"math/rand/v2"

	"ringmq/netio/wire"
	"ringmq/node/group"
	"ringmq/node/topic"
	"ringmq/store/record"
)

// sendMsgBack (36) stores a message again that a consumer of a group could not handle: in the group's retry
// topic, by way of a delay level, or in its dead letter topic when it was tried too often. It checks in the
// order of the stock broker 5.5.0.
//   - a group that does not exist is made if that is allowed, and so are its topics, durably
//   - the answer is owed until the copy is stored as any other message: the consumer then forgets the
//     original, so the copy's WAIT=false is not about that
//   - a group without retry queues wants its failed messages dropped
//
// Worker lane: it reads the message from the log. The append is the loop's.
func (s *Server) sendMsgBack(c *Call) *wire.Command {
	var h wire.SendBackRequest
	if err := h.Parse(c.Req); err != nil {
		return c.Fail(wire.SystemError, err.Error())
	}
	if s.closing.Load() {
		return c.Fail(wire.ServiceNotAvailable, "this broker is shutting down")
	}
	name := string(h.Group)
	g, err := s.opts.Groups.Ensure(name)
	switch {
	case err != nil:
		return c.Failf(wire.SubscriptionGroupNotExist, "subscription group not exist, %s: %v", name, err)
	case !s.opts.Perm.Writable():
		return c.Failf(wire.NoPermission, "the broker[%s] sending message is forbidden", s.opts.Broker)
	case g.RetryQueues <= 0:
		return c.OK()
	}
	retry, err := s.opts.Topics.EnsureRetry(name, g.RetryQueues, h.UnitMode)
	if err != nil {
		return c.Failf(wire.SystemError, "topic[%s] not exist: %v", topic.Retry(name), err)
	}
	if !retry.Perm.Writable() {
		return c.Failf(wire.NoPermission, "the topic[%s] sending message is forbidden", retry.Name)
	}
	var r record.Record
	raw, err := s.opts.Store.Record(h.Offset)
	if err == nil {
		err = record.Parse(raw, &r)
	}
	if err != nil || !record.InQueue(r.SysFlag) {
		return c.Failf(wire.SystemError, "look message by offset failed, %d: there is no message", h.Offset)
	}
	m := s.again(&r)
	if h.DelayLevel >= 0 && r.ReconsumeTimes < mostTries(c.Req, g, h.MaxReconsumeTimes) {
		level := int(h.DelayLevel)
		if level == 0 {
			level = 3 + int(r.ReconsumeTimes)
		}
		m.Topic, m.QueueID = retry.Name, rand.Int32N(g.RetryQueues)
		s.delayed(&m, level, nil)
	} else {
		dead, err := s.opts.Topics.EnsureDLQ(name)
		if err != nil {
			return c.Failf(wire.SystemError, "topic[%s] not exist: %v", topic.DLQ(name), err)
		}
		m.Topic = dead.Name
		undelayed(&m, 0, nil)
	}
	s.storeOnLoop(c, m)
	return nil
}

// mostTries is how often a group tries a message: as it is set, unless the client says otherwise and is new
// enough to mean it.
func mostTries(req *wire.Command, g *group.Config, asked int32) int32 {
	if req.Version >= wire.V3_4_9 && asked >= 0 {
		return asked
	}
	return g.RetryMaxTimes
}

// again is a message that is to be tried once more. The first topic and id that it had stay known.
func (s *Server) again(r *record.Record) record.Message {
	props := record.AppendPropsBut(nil, r.Props, func(name []byte) bool { return string(name) == record.PropWait })
	if _, known := record.Prop(props, record.PropRetryTopic); !known {
		props = record.AppendProp(props, record.PropRetryTopic, string(r.Topic))
	}
	if _, known := record.Prop(props, record.PropOrigin); !known {
		props = record.AppendProp(props, record.PropOrigin, string(record.AppendMsgID(nil, r.Store, r.PhysOffset)))
	}
	m := r.Message()
	m.ReconsumeTimes++
	m.Store, m.Props = s.opts.Advertise, record.AppendProp(props, record.PropWait, "false")
	return m
}

// storeOnLoop has the loop of a worker's call append a message and answer the call, without fields, when it
// is stored. Nothing else may refer to the message.
func (s *Server) storeOnLoop(c *Call, m record.Message) {
	conn, req := c.Conn, c.Req
	conn.Loop().Execute(func() {
		t := s.turnOf(conn.Loop())
		call := Call{Conn: conn, Req: req, ans: &t.ans, turn: t}
		ans := s.run(func(s *Server, c *Call) *wire.Command { return s.storeBare(c, m) }, &call)
		if ans != nil && !req.Oneway() {
			conn.Send(ans)
		}
	})
}

// storeBare adds one message to the turn's append. Loop only.
func (s *Server) storeBare(c *Call, m record.Message) *wire.Command {
	t := c.turn
	first := len(t.puts)
	n, err := s.opts.Store.CopyBytes(&m)
	if err == nil {
		err = s.putBytes(t, &m, false, n)
	}
	if err != nil {
		return c.Fail(codeOf(err), err.Error())
	}
	t.sends = append(t.sends, send{
		conn: c.Conn, opaque: c.Req.Opaque, encoding: c.Req.Encoding, oneway: c.Req.Oneway(),
		wait: true, first: first, count: 1, bare: true,
	})
	return nil
}
