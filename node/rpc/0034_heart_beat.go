package rpc

import (
	"errors"

	"ringmq/netio/wire"
	"ringmq/node/group"
)

// heartBeat (34) registers the producers and consumers of a client.
//   - consumer groups that are unknown and may not be created are left out; the answer is 0
//   - a group's retry topic exists, durably, before its consumer hears of the group
//   - all members of a group that changed are told at once (40)
//   - consumers whose expressions are illegal are left out; the answer is 23, and all others are registered
//
// Worker lane: it may create groups and topics.
func (s *Server) heartBeat(c *Call) *wire.Command {
	var body wire.HeartbeatBody
	if err := wire.Unmarshal(c.Req.Body, &body); err != nil {
		return c.Failf(wire.SystemError, "the heartbeat's body cannot be read: %v", err)
	}
	illegal := s.dropIllegal(&body)
	made := 0
	for i := range body.ConsumerDataSet {
		name := body.ConsumerDataSet[i].GroupName
		known := s.opts.Groups.Get([]byte(name)) != nil
		if !known && made == maxNewGroups {
			return c.Failf(wire.SystemError, "%d groups were made, as many as one heartbeat may make; the others follow with the next one", made)
		}
		if err := s.ensureGroup(name, body.ConsumerDataSet[i].UnitMode); err != nil {
			return c.Fail(wire.SystemError, err.Error())
		}
		if !known && s.opts.Groups.Get([]byte(name)) != nil {
			made++
		}
	}
	beat := s.opts.Members.Heartbeat(c.Conn, &body, s.opts.Clock.Now())
	if len(body.ConsumerDataSet) > 0 {
		s.opts.Locks.Heard(c.Conn, body.ClientID)
	}
	if c.Conn.Closed() {
		// Closed may have run before the line above and found nothing to take back.
		s.gone(c.Conn)
		return nil
	}
	s.notifyChanged(beat.Notify)
	if illegal != "" {
		return c.Fail(wire.SubscriptionParseFailed, illegal)
	}
	ans := c.OK()
	(&wire.HeartbeatAnswer{SupportV2: true, SubChange: beat.SubChange}).Append(ans)
	return ans
}

// maxNewGroups bounds for how long one heartbeat keeps its worker: each new group is two durable files.
const maxNewGroups = 64

// ensureGroup makes a consumer group and its retry topic. A group that may not be made is no error.
func (s *Server) ensureGroup(name string, unit bool) error {
	config, err := s.opts.Groups.Ensure(name)
	if errors.Is(err, group.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = s.opts.Topics.EnsureRetry(name, max(1, config.RetryQueues), unit)
	return err
}
