package rpc

import (
	"errors"
	"time"

	"ringmq/netio"
	"ringmq/netio/wire"
	"ringmq/node/filter"
	"ringmq/node/group"
	"ringmq/node/pull"
	"ringmq/node/topic"
	"ringmq/store"
	"ringmq/uring"
)

// pullMessage (11, 361) returns messages of one queue, or holds the request until there are some.
//   - checks in the order of the stock broker; each refusal by permission names its kind
//   - the answer to a status is a table of the protocol: see pullCodes
//   - a held pull that a message or its deadline wakes goes through all checks again
func (s *Server) pullMessage(c *Call) *wire.Command {
	h := &c.turn.pull
	if err := h.Parse(c.Req); err != nil {
		return c.Fail(wire.SystemError, err.Error())
	}
	if c.Req.Code == wire.LitePullMessage && !s.opts.LitePull {
		return forbidden(c, wire.ForbiddenBroker, "the broker serves no lite pull")
	}
	p := pulling{Call: c, h: h}
	if ans, stop := s.admitPull(&p); stop {
		return ans
	}
	if h.SysFlag&wire.PullCommitOffset != 0 && !c.held {
		if err := s.commit(p.config, h.ConsumerGroup, h.Topic, h.QueueID, h.CommitOffset); err != nil {
			s.opts.Log.Debug("rpc: a pull's commit was ignored", "client", c.Conn.Remote(), "error", err)
		}
	}
	return s.read(&p)
}

// pulling is one pull on its way.
type pulling struct {
	*Call
	h      *wire.PullRequest
	group  *group.Config
	config *topic.Config
	sub    *group.Subscription
	expr   *filter.Expr // of a subscription by properties, else nil
	queue  *store.Queue
}

// forbidden refuses a pull and says whose permission is missing.
func forbidden(c *Call, kind int32, remark string) *wire.Command {
	ans := c.Fail(wire.NoPermission, remark)
	wire.SetForbidden(ans, kind)
	return ans
}

// admitPull makes the checks and finds group, topic, subscription and queue. With stop the answer,
// which may be nil, ends the request.
func (s *Server) admitPull(p *pulling) (ans *wire.Command, stop bool) {
	h := p.h
	if !s.opts.Perm.Readable() {
		return forbidden(p.Call, wire.ForbiddenBroker, "the broker["+s.opts.Broker+"] pulling message is forbidden"), true
	}
	if p.group = s.opts.Groups.Get(h.ConsumerGroup); p.group == nil {
		return s.prepare(p.Call, (*Server).pullMessage, (*Server).createGroupOnPull), true
	}
	if !p.group.Consume {
		return forbidden(p.Call, wire.ForbiddenGroup, "subscription group no permission, "+p.group.Name), true
	}
	if p.config = s.opts.Topics.Get(h.Topic); p.config == nil {
		return p.Failf(wire.TopicNotExist, "topic[%s] not exist, apply first please!", h.Topic), true
	}
	if !p.config.Perm.Readable() {
		return forbidden(p.Call, wire.ForbiddenTopic, "the topic["+p.config.Name+"] pulling message is forbidden"), true
	}
	if h.QueueID < 0 || h.QueueID >= p.config.ReadQueues {
		return p.Failf(wire.InvalidParameter, "queueId[%d] is illegal, topic:[%s] topicConfig.readQueueNums:[%d] consumer:[%v]",
			h.QueueID, p.config.Name, p.config.ReadQueues, p.Conn.Remote()), true
	}
	if ans := s.subscribe(p); ans != nil {
		return ans, true
	}
	p.queue = s.opts.Store.OpenQueue(p.config.Name, h.QueueID)
	return nil, false
}

// createGroupOnPull makes the group of a pull. Worker lane.
func (s *Server) createGroupOnPull(c *Call) *wire.Command {
	var h wire.PullRequest
	if err := h.Parse(c.Req); err != nil {
		return c.Fail(wire.SystemError, err.Error())
	}
	if _, err := s.opts.Groups.Ensure(string(h.ConsumerGroup)); err != nil {
		return c.Failf(wire.SubscriptionGroupNotExist, "subscription group [%s] does not exist: %v", h.ConsumerGroup, err)
	}
	return nil
}

// subscribe finds what the pull wants of its topic: by its own words or by its group's heartbeats.
func (s *Server) subscribe(p *pulling) *wire.Command {
	h := p.h
	if h.SysFlag&wire.PullSubscription != 0 {
		sub, err := group.NewSubscription(p.config.Name, string(h.Subscription), string(h.ExpressionType), h.SubVersion)
		if err != nil {
			return p.Failf(wire.SubscriptionParseFailed, "parse the consumer's subscription failed: %v", err)
		}
		p.sub = sub
	} else {
		info, ok := s.opts.Members.Info(h.ConsumerGroup)
		if !ok {
			return p.Fail(wire.SubscriptionNotExist, "the consumer's group info not exist")
		}
		if info.Model == wire.Broadcasting && !p.group.ConsumeBroadcast {
			return forbidden(p.Call, wire.ForbiddenBroadcast, "the consumer group["+p.group.Name+"] can not consume by broadcast way")
		}
		if s.opts.RejectActivePull && info.Type == wire.ConsumeActively {
			return p.Fail(wire.SubscriptionNotExist, "the broker serves push consumers only")
		}
		if p.sub, ok = s.opts.Members.Subscription(h.ConsumerGroup, h.Topic); !ok {
			return p.Fail(wire.SubscriptionNotExist, "the consumer's subscription not exist")
		}
		if p.sub.Version < h.SubVersion {
			return p.Fail(wire.SubscriptionNotLatest, "the consumer's subscription not latest")
		}
	}
	expr, code, remark := s.expression(p.sub.Type, p.sub.Expr)
	if code != wire.Success {
		return p.Fail(code, remark)
	}
	p.expr = expr
	return nil
}

// judges are what the store asks of each entry, and of the properties of each message. A nil one says yes to all, so
// that a long poll need not look.
func (p *pulling) judges() (byTags func(code int64) bool, byProps func(props []byte) bool) {
	if p.expr != nil {
		byProps = p.expr.Match
	}
	if !p.sub.TakesAll() {
		byTags = p.sub.Match
	}
	return byTags, byProps
}

// read looks into the queue and answers with what is there.
func (s *Server) read(p *pulling) *wire.Command {
	got := &p.turn.got
	err := s.get(p, got, store.NoWait)
	var found body
	if err == nil && got.Status == store.Found && !p.Req.Oneway() && !s.opts.Store.Cached(got) {
		var ok bool
		if found.lent, ok = s.opts.Store.Lookup(p.turn.lent[:0], got); !ok {
			err = store.ErrCold
		}
		p.turn.lent = found.lent[:0]
	}
	if errors.Is(err, store.ErrCold) {
		return s.cold.put(p)
	}
	return s.answerPull(p, got, found, err)
}

// body is where the records of an answer are, if they are not in the page cache: one of both.
type body struct {
	lent   []uring.MemRange // the answer's to release
	copied []byte
}

func (b body) release() {
	for _, m := range b.lent {
		m.Release()
	}
}

// answerPull answers with what a look into the queue found. It takes over found. Loop only.
func (s *Server) answerPull(p *pulling, got *store.Got, found body, err error) *wire.Command {
	if err != nil {
		return p.Failf(codeOf(err), "read queue %d of %s: %v", p.h.QueueID, p.config.Name, err)
	}
	s.opts.Offsets.Pulled(p.h.ConsumerGroup, p.h.Topic, p.h.QueueID, got.Next)
	code := pullCode(got.Status, p.h.QueueOffset)
	if code == wire.PullNotFound && p.h.SysFlag&wire.PullSuspend != 0 && !p.held {
		return s.hold(p)
	}
	ans := p.Answer(code)
	h := wire.PullAnswer{
		NextBeginOffset: got.Next, MinOffset: got.Min, MaxOffset: got.Max,
		TopicSysFlag: p.config.SysFlag, GroupSysFlag: p.group.SysFlag,
	}
	h.Append(ans)
	ans.SetRemark(got.Status.String())
	if got.Status == store.Found {
		return s.withBody(p, ans, got, found)
	}
	return ans
}

// get asks the store, within the limits for the part of the log that the queue's reader is at.
func (s *Server) get(p *pulling, got *store.Got, access store.Access) error {
	limit := s.opts.InMemory
	g := store.Get{Offset: p.h.QueueOffset, MaxCount: max(1, min(int(p.h.MaxMsgNums), limit.Count)), MaxBytes: limit.Bytes, Access: access}
	g.Match, g.MatchProps = p.judges()
	if err := s.opts.Store.Get(p.queue, g, got); err != nil {
		return err
	}
	if got.Status != store.Found || s.isNewest(got.Runs[0].Offset) {
		return nil
	}
	limit = s.opts.OnDisk
	if got.Count <= limit.Count && got.Bytes <= limit.Bytes {
		return nil
	}
	g.MaxCount, g.MaxBytes = min(g.MaxCount, limit.Count), limit.Bytes
	return s.opts.Store.Get(p.queue, g, got)
}

// isNewest tells whether an offset of the log is in the part at its end that counts as in memory.
func (s *Server) isNewest(at int64) bool {
	return s.opts.Store.Marks().Visible-at <= s.opts.NewestBytes
}

// pullCode maps what a look into a queue found to the answer's code.
func pullCode(status store.Status, asked int64) wire.Code {
	switch status {
	case store.Found:
		return wire.Success
	case store.NoMatchedMessage, store.MessageWasRemoving:
		return wire.PullRetryImmediately
	case store.OffsetOverflowOne, store.OffsetFoundNull:
		return wire.PullNotFound
	case store.NoMatchedLogicQueue, store.NoMessageInQueue:
		if asked == 0 {
			return wire.PullNotFound
		}
	}
	return wire.PullOffsetMoved
}

// withBody adds the records, as found or from their files.
func (s *Server) withBody(p *pulling, ans *wire.Command, got *store.Got, found body) *wire.Command {
	s.stats.pulls.Add(int64(got.Count))
	s.rates.add(p.group.Name, p.config.Name, got.Count, s.opts.Clock.Now())
	switch {
	case p.Req.Oneway():
		return nil
	case found.lent != nil:
		p.Conn.SendMem(ans, found.lent)
		return nil
	case found.copied != nil:
		ans.Body = found.copied
		return ans
	}
	t := p.turn
	var err error
	if t.ranges, err = s.opts.Store.Ranges(t.ranges[:0], got.Runs); err != nil {
		return p.Failf(codeOf(err), "read %d messages from the log: %v", got.Count, err)
	}
	p.Conn.SendRanges(ans, t.ranges)
	return nil
}

// hold keeps the pull until a message matches or its time is over. It owns a copy of the request.
func (s *Server) hold(p *pulling) *wire.Command {
	owner := &p.Conn.State.(*client).polls
	p.Req.Body = nil                                              // a pull has none; what somebody put there is not kept
	bytes := requestBytes(p.Req) + 2*int64(len(p.h.Subscription)) // kept as text and as tags
	if p.expr != nil {
		bytes += int64(p.expr.Bytes()) // others may hold the same one, but they need not
	}
	if owner.Len() >= maxHeldPerConn || p.turn.polls.Bytes()+bytes > maxHeldBytes {
		return p.Failf(wire.SystemBusy, "too many pulls are held: at most %d per connection", maxHeldPerConn)
	}
	if p.Conn.Closed() {
		return nil
	}
	wait := time.Duration(p.h.SuspendTimeoutMillis) * time.Millisecond
	if !s.opts.LongPolling {
		wait = s.opts.ShortPoll
	}
	s.stats.held.Add(1)
	conn, req := p.Conn, p.Req.Clone()
	byTags, byProps := p.judges()
	p.turn.polls.Hold(owner, &pull.Poll{
		Queue: p.queue, Offset: p.h.QueueOffset, Match: byTags, MatchProps: byProps, Bytes: bytes,
		Deadline: s.opts.Clock.Now().Add(min(max(wait, 0), maxHold)),
		Answer:   func(poll *pull.Poll) { s.pullAgain(conn, req, poll.Offset) },
	})
	return nil
}

// Bounds of held pulls. Stock consumers hold one per queue and group, for 15 to 20 s; one takes
// about 1.5 KiB, so that a loop has room for 85,000.
const (
	maxHeldPerConn = 16 << 10
	maxHeldBytes   = 128 << 20 // per loop
	maxHold        = 5 * time.Minute
)

// pullAgain answers a held pull, from the offset up to which nothing matched. Loop only.
func (s *Server) pullAgain(conn *netio.Conn, req *wire.Command, from int64) {
	t := s.turnOf(conn.Loop())
	req.SetInt("queueOffset", from)
	c := Call{Conn: conn, Req: req, ans: &t.ans, turn: t, held: true}
	if ans := s.run((*Server).pullMessage, &c); ans != nil && !req.Oneway() {
		conn.Send(ans)
	}
}
