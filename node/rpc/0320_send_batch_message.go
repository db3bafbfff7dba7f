package rpc

import (
	"ringmq/netio/wire"
	"ringmq/node/topic"
	"ringmq/store/record"
)

// sendBatch stores the messages of one batch: each is a record of its own, and all get consecutive
// places in one queue, or none does. An element keeps exactly its own properties; the batch's only
// tell what is wanted of the whole.
func (s *Server) sendBatch(c *Call, h *wire.SendRequest, config *topic.Config) *wire.Command {
	w := wishesOf(h.Properties)
	if why := s.batchIllegal(c, h, config, &w); why != "" {
		return s.refuse(c, wire.MessageIllegal, why)
	}
	if n := len(c.Req.Body); n > s.opts.MaxMessageBytes {
		return s.refusef(c, wire.SystemError, "message body size exceeded: the batch has %d bytes, at most %d", n, s.opts.MaxMessageBytes)
	}
	t := c.turn
	first := len(t.puts)
	if err := s.putElements(c, h, config); err != nil {
		s.takeBack(t, first)
		return s.refuseStore(c, err)
	}
	t.join(c, h, first, &w)
	return nil
}

// batchIllegal says what is wrong with a batch before anything is reserved for it.
func (s *Server) batchIllegal(c *Call, h *wire.SendRequest, config *topic.Config, w *wishes) string {
	if len(config.Name) > batchTopicBytes {
		return "the topic of a batch is longer than 127 bytes"
	}
	if isBatchQueue(config) {
		return "inner batches are not supported by this broker"
	}
	if why := w.batchIllegal(h.SysFlag); why != "" {
		return why
	}
	var e record.Element
	elements := record.NewBatch(c.Req.Body)
	count := 0
	for ; elements.Next(&e); count++ {
		if len(e.Body) == 0 {
			return "a message of the batch has no body"
		}
		own := wishesOf(e.Props)
		if why := own.batchIllegal(h.SysFlag); why != "" {
			return why
		}
		if isCompaction(config) && !own.keys {
			return "a message of the batch has no key, and its topic needs one"
		}
	}
	if err := elements.Err(); err != nil {
		return err.Error()
	}
	if count == 0 {
		return "the batch is empty"
	}
	return ""
}

// batchIllegal says what is asked of a batch, or of one of its messages, that none can have.
func (w *wishes) batchIllegal(sysFlag int32) string {
	if w.level > 0 {
		return "the messages of a batch cannot have a delay level: send them one by one"
	}
	return w.unsupported(sysFlag)
}

const batchTopicBytes = 127

// putElements adds the elements of the batch to the turn's append, up to the first that has no room.
func (s *Server) putElements(c *Call, h *wire.SendRequest, config *topic.Config) error {
	var e record.Element
	elements := record.NewBatch(c.Req.Body)
	for joined := false; elements.Next(&e); joined = true {
		err := s.put(c.turn, &record.Message{
			Topic: config.Name, QueueID: h.QueueID, Flag: e.Flag, SysFlag: h.SysFlag, ReconsumeTimes: h.ReconsumeTimes,
			BornMs: h.BornTimestamp, Born: c.Conn.Remote(), Store: s.opts.Advertise,
			Body: e.Body, BodyCRC: record.BodyCRC(e.Body), Props: e.Props,
		}, joined)
		if err != nil {
			return err
		}
	}
	return nil
}

// takeBack undoes the puts from first on, whose request does not fit as a whole.
func (s *Server) takeBack(t *turn, first int) {
	for i := first; i < len(t.puts); i++ {
		s.opts.Store.Unreserve(t.puts[i].Bytes)
	}
	clear(t.puts[first:])
	t.puts = t.puts[:first]
}
