package rpc

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"

	"ringmq/netio/wire"
	"ringmq/node/topic"
	"ringmq/store"
	"ringmq/store/record"
)

// sendMessage (10, 310, 320) stores a message or a batch. It checks in the order of the stock
// broker, reserves room in the log, and joins the turn's append; the answer follows in
// turn.go when the log's mark has passed the record.
//   - the batch flag decides what the body is, not the code
//   - the topic's own write permission is not looked at: it only shows in the route
//   - kinds of message that this broker cannot handle yet are refused before anything is stored
func (s *Server) sendMessage(c *Call) *wire.Command {
	h := &c.turn.send
	if err := h.Parse(c.Req); err != nil {
		return c.Fail(wire.SystemError, err.Error())
	}
	if s.closing.Load() {
		return s.refuse(c, wire.ServiceNotAvailable, "this broker is shutting down")
	}
	config, ans := s.sendTopic(c, h)
	if config == nil {
		return ans
	}
	if h.QueueID >= max(config.ReadQueues, config.WriteQueues) {
		return s.refusef(c, wire.InvalidParameter, "request queueId[%d] is illegal, topic [%s] has %d write and %d read queues",
			h.QueueID, config.Name, config.WriteQueues, config.ReadQueues)
	}
	dead := false
	if strings.HasPrefix(config.Name, topic.RetryPrefix) {
		if config, dead, ans = s.retryTopic(c, h, config); config == nil {
			return ans
		}
	}
	if h.QueueID < 0 {
		if config.WriteQueues < 1 {
			return s.refusef(c, wire.NoPermission, "topic[%s] has no write queue", config.Name)
		}
		h.QueueID = rand.Int32N(config.WriteQueues)
	}
	if h.Batch {
		return s.sendBatch(c, h, config)
	}
	return s.sendSingle(c, h, config, dead)
}

// sendTopic returns the topic of a send. Without one it returns the answer, which is nil while a
// worker makes the topic.
func (s *Server) sendTopic(c *Call, h *wire.SendRequest) (*topic.Config, *wire.Command) {
	config := s.opts.Topics.Get(h.Topic)
	if !s.opts.Perm.Writable() && config != nil && config.Order {
		return nil, s.refusef(c, wire.NoPermission, "the broker[%s] sending message is forbidden", s.opts.Broker)
	}
	var name string
	if config != nil {
		name = config.Name
	} else {
		name = string(h.Topic)
	}
	if err := topic.CheckName(name); err != nil {
		return nil, s.refuse(c, wire.InvalidParameter, err.Error())
	}
	if topic.SendForbidden(name) {
		return nil, s.refusef(c, wire.NoPermission, "Sending message to topic[%s] is forbidden.", name)
	}
	if config == nil {
		return nil, s.prepare(c, (*Server).sendMessage, (*Server).createOnSend)
	}
	return config, nil
}

// createOnSend makes the topic of a send, durably: after its template, or as the retry topic of a
// group. Worker lane.
func (s *Server) createOnSend(c *Call) *wire.Command {
	var h wire.SendRequest
	if err := h.Parse(c.Req); err != nil {
		return c.Fail(wire.SystemError, err.Error())
	}
	name := string(h.Topic)
	_, err := s.opts.Topics.AutoCreate(name, string(h.DefaultTopic), h.DefaultTopicQueueNums, h.UnitMode)
	if group, ok := strings.CutPrefix(name, topic.RetryPrefix); ok && err != nil {
		_, err = s.opts.Topics.EnsureRetry(group, 1, h.UnitMode)
	}
	switch {
	case errors.Is(err, topic.ErrNoTemplate), errors.Is(err, topic.ErrNotInheritable):
		return s.refusef(c, wire.TopicNotExist, "topic[%s] not exist, apply first please! %v", name, err)
	case err != nil:
		return s.refuse(c, wire.SystemError, err.Error())
	}
	return nil
}

// retryTopic handles a message that a consumer sends back to its group's retry topic: once it was
// tried too often it goes to the dead letter topic instead. One of a group that consumes in order was: its
// clients try again by themselves, and give up here (stock broker 5.5.0).
func (s *Server) retryTopic(c *Call, h *wire.SendRequest, retry *topic.Config) (config *topic.Config, dead bool, ans *wire.Command) {
	name := retry.Name[len(topic.RetryPrefix):]
	group := s.opts.Groups.Get(h.Topic[len(topic.RetryPrefix):])
	if group == nil {
		return nil, false, s.prepare(c, (*Server).sendMessage, (*Server).createGroupOnSend)
	}
	if h.Batch {
		return nil, false, s.refusef(c, wire.MessageIllegal, "batch request does not support retry group %s", retry.Name)
	}
	if h.ReconsumeTimes <= mostTries(c.Req, group, h.MaxReconsumeTimes) && !s.opts.Locks.Orderly(name) {
		return retry, false, nil
	}
	if config = s.opts.Topics.Get([]byte(topic.DLQ(name))); config == nil {
		return nil, false, s.prepare(c, (*Server).sendMessage, (*Server).createDLQOnSend)
	}
	h.QueueID = 0
	return config, true, nil
}

// createGroupOnSend makes the group of a message for its retry topic. Worker lane.
func (s *Server) createGroupOnSend(c *Call) *wire.Command {
	name := strings.TrimPrefix(sendTopicName(c.Req), topic.RetryPrefix)
	if _, err := s.opts.Groups.Ensure(name); err != nil {
		return s.refusef(c, wire.SubscriptionGroupNotExist, "subscription group[%s] not exist: %v", name, err)
	}
	return nil
}

// createDLQOnSend makes the dead letter topic of a message for a retry topic. Worker lane.
func (s *Server) createDLQOnSend(c *Call) *wire.Command {
	name := strings.TrimPrefix(sendTopicName(c.Req), topic.RetryPrefix)
	if _, err := s.opts.Topics.EnsureDLQ(name); err != nil {
		return s.refuse(c, wire.SystemError, err.Error())
	}
	return nil
}

func sendTopicName(req *wire.Command) string {
	var h wire.SendRequest
	if h.Parse(req) != nil {
		return ""
	}
	return string(h.Topic)
}

// sendSingle stores one message: in its topic, or in the queue of its delay level until it is due. A dead letter is
// stored whatever delay it asks for.
func (s *Server) sendSingle(c *Call, h *wire.SendRequest, config *topic.Config, dead bool) *wire.Command {
	w := wishesOf(h.Properties)
	if dead {
		w.level, w.noLevel, w.timed = 0, false, false
	}
	if w.level > 0 && h.ReconsumeTimes > 0 {
		w.transaction = false // that one was decided long ago
	}
	if isCompaction(config) && !w.keys {
		return s.refusef(c, wire.MessageIllegal, "the message don't have message key, topic[%s] needs one", config.Name)
	}
	if why := w.unsupported(h.SysFlag); why != "" {
		return s.refuse(c, wire.MessageIllegal, why)
	}
	body := c.Req.Body
	if len(body) == 0 || len(body) > s.opts.MaxMessageBytes {
		return s.refusef(c, wire.MessageIllegal, "the message is illegal, its body has %d bytes: want 1 to %d", len(body), s.opts.MaxMessageBytes)
	}
	t := c.turn
	arena := len(t.arena)
	props := t.appendProps(h.Properties, &w, s.nowMs(t), s.added)
	first := len(t.puts)
	m := record.Message{
		Topic: config.Name, QueueID: h.QueueID, Flag: h.Flag, SysFlag: h.SysFlag, ReconsumeTimes: h.ReconsumeTimes,
		BornMs: h.BornTimestamp, Born: c.Conn.Remote(), Store: s.opts.Advertise,
		Body: body, BodyCRC: record.BodyCRC(body), Props: props,
	}
	switch {
	case w.level > 0:
		t.arena = s.delayed(&m, w.level, t.arena)
	case dead:
		t.arena = undelayed(&m, -1, t.arena)
	}
	if err := s.put(t, &m, false); err != nil {
		t.arena = t.arena[:arena]
		return s.refuseStore(c, err)
	}
	t.join(c, h, first, &w)
	return nil
}

// put reserves room in the log and adds a message to the turn's append.
func (s *Server) put(t *turn, m *record.Message, joined bool) error {
	n, err := s.opts.Store.RecordBytes(m)
	if err != nil {
		return err
	}
	return s.putBytes(t, m, joined, n)
}

// putBytes is put for a message whose record takes n bytes.
func (s *Server) putBytes(t *turn, m *record.Message, joined bool, n int) error {
	if err := s.opts.Store.Reserve(n); err != nil {
		return err
	}
	t.puts = slices.Grow(t.puts, 1)[:len(t.puts)+1] // in place: a Put has some 300 bytes
	p := &t.puts[len(t.puts)-1]
	p.Message, p.Joined, p.Bytes, p.Queue = *m, joined, n, s.opts.Store.OpenQueue(m.Topic, m.QueueID)
	return nil
}

// join notes that the puts from first on are one request, to be answered after the append.
func (t *turn) join(c *Call, h *wire.SendRequest, first int, w *wishes) {
	t.puts[first].Hurry = w.nowait && !c.Req.Oneway()
	t.sends = append(t.sends, send{
		conn: c.Conn, opaque: c.Req.Opaque, encoding: c.Req.Encoding, oneway: c.Req.Oneway(),
		wait: !w.nowait, queueID: h.QueueID, first: first, count: len(t.puts) - first, uniqKey: w.uniqKey,
	})
}

// refuseStore answers a send that the store does not take. Where it is only full for the moment the
// request stays in the connection's input and comes again.
func (s *Server) refuseStore(c *Call, err error) *wire.Command {
	if errors.Is(err, store.ErrBusy) {
		return c.Later()
	}
	return s.refuse(c, codeOf(err), err.Error())
}

// refuse answers a send with a code, and with the fields that stock clients find in every answer to
// a send.
func (s *Server) refuse(c *Call, code wire.Code, remark string) *wire.Command {
	return s.addRegion(c.Fail(code, remark))
}

func (s *Server) refusef(c *Call, code wire.Code, format string, args ...any) *wire.Command {
	return s.addRegion(c.Failf(code, format, args...))
}

func (s *Server) addRegion(ans *wire.Command) *wire.Command {
	ans.SetBytes(record.PropRegion, s.region)
	ans.SetBool(record.PropTrace, s.opts.Trace)
	return ans
}
