package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"ringmq/netio/wire"
)

// Periods of a member, those of the stock clients.
const (
	heartbeatEvery = 30 * time.Second
	shareEvery     = 20 * time.Second // share out the queues anew, should a notification be lost
	suspendFor     = 15 * time.Second // how long a broker may hold a pull
	retryAfter     = time.Second
	leaveWait      = 3 * time.Second
)

// batch is what one pull brought.
type batch struct {
	queue   queue
	records []byte
	next    int64
}

// member is one consumer of a group: it tells the brokers that it is there, shares the topic's
// queues with the other members, and reads its own by long polls, one goroutine each.
type member struct {
	opts       consumeOptions
	id         string
	client     *client
	complaints io.Writer
	changed    chan struct{} // holds one token when the members have changed
	batches    chan batch    // what was read; the receiver calls handled

	// The goroutine of run; leave after it.
	readers map[queue]context.CancelFunc
	brokers map[string]bool // addresses that know of us

	running sync.WaitGroup // the readers

	// mu guards what follows. Leaf lock.
	mu      sync.Mutex
	offsets map[queue]int64 // handled up to here
}

func newMember(o consumeOptions, complaints io.Writer) *member {
	m := &member{
		opts: o, id: clientID(), complaints: complaints, changed: make(chan struct{}, 1), batches: make(chan batch),
		readers: map[queue]context.CancelFunc{}, brokers: map[string]bool{}, offsets: map[queue]int64{},
	}
	m.client = newClient(o.namesrv, m.asked)
	return m
}

// asked serves what a broker sends on its own.
func (m *member) asked(req *wire.Command) *wire.Command {
	if req.Code == wire.NotifyConsumerIdsChanged {
		select {
		case m.changed <- struct{}{}:
		default:
		}
		return nil
	}
	ans := &wire.Command{}
	ans.Answer(req, wire.RequestCodeNotSupported)
	return ans
}

// run is the life of a member until ctx ends; leave comes after it. It fails only if it cannot join;
// later trouble is reported and tried again.
func (m *member) run(ctx context.Context) error {
	if err := m.share(ctx); err != nil {
		return err
	}
	beat, share := time.NewTicker(heartbeatEvery), time.NewTicker(shareEvery)
	defer beat.Stop()
	defer share.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
			err = m.beat(ctx, slices.Collect(maps.Keys(m.brokers)))
		case <-share.C:
			err = m.share(ctx)
		case <-m.changed:
			err = m.share(ctx)
		}
		m.complain(ctx, err)
	}
}

func (m *member) complain(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(m.complaints, "ringmq consume:", err)
	}
}

// share joins the group at each broker of the topic and takes this member's part of the queues.
func (m *member) share(ctx context.Context) error {
	route, err := m.client.route(ctx, m.opts.topic)
	if err != nil {
		return fmt.Errorf("where is topic %s: %w", m.opts.topic, err)
	}
	all := queues(route, m.opts.topic, permRead, func(d wire.QueueData) int32 { return d.ReadQueueNums })
	if len(all) == 0 {
		return fmt.Errorf("topic %s has no queue that may be read", m.opts.topic)
	}
	var unknown []string
	for _, q := range all {
		if !m.brokers[q.addr] && !slices.Contains(unknown, q.addr) {
			unknown = append(unknown, q.addr)
		}
	}
	if err := m.beat(ctx, unknown); err != nil {
		return err
	}
	ids, err := m.members(ctx, all[0].addr)
	if err != nil {
		return err
	}
	m.read(ctx, shareOf(m.id, ids, all))
	return nil
}

// beat tells the brokers that this member is there and what it wants.
func (m *member) beat(ctx context.Context, addrs []string) error {
	body, err := json.Marshal(wire.HeartbeatBody{
		ClientID: m.id,
		ConsumerDataSet: []wire.ConsumerData{{
			GroupName: m.opts.group, ConsumeType: wire.ConsumePassively, MessageModel: wire.Clustering,
			ConsumeFromWhere: wire.FromLastOffset,
			SubscriptionDataSet: []wire.SubscriptionData{{
				Topic: m.opts.topic, SubString: m.opts.tags, ExpressionType: "TAG", SubVersion: time.Now().UnixMilli(),
			}},
		}},
	})
	if err != nil {
		return err
	}
	for _, addr := range addrs {
		req := &wire.Command{}
		req.Request(wire.HeartBeat, 0)
		req.Body = body
		if _, err := m.client.call(ctx, addr, req); err != nil {
			return fmt.Errorf("join group %s: %w", m.opts.group, err)
		}
		m.brokers[addr] = true
	}
	return nil
}

// members asks who is in the group.
func (m *member) members(ctx context.Context, addr string) ([]string, error) {
	ans, err := m.client.call(ctx, addr, request(wire.GetConsumerListByGroup, &wire.ConsumerListRequest{ConsumerGroup: m.opts.group}))
	if err != nil {
		return nil, err
	}
	var list wire.ConsumerListBody
	err = wire.Unmarshal(ans.Body, &list)
	return list.ConsumerIDList, err
}

// shareOf returns the part of a member: the sorted queues are cut into one piece per sorted member,
// the first pieces one longer where it does not divide. All members, stock ones too, compute the
// same.
func shareOf(id string, ids []string, all []queue) []queue {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	place := slices.Index(ids, id)
	if place < 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b queue) int {
		if a.broker != b.broker {
			if a.broker < b.broker {
				return -1
			}
			return 1
		}
		return int(a.id) - int(b.id)
	})
	each, longer := len(all)/len(ids), len(all)%len(ids)
	from := place*each + min(place, longer)
	to := from + each
	if place < longer {
		to++
	}
	return all[from:to]
}

// read starts a reader for each queue of mine that has none, and ends the others.
func (m *member) read(ctx context.Context, mine []queue) {
	for q, stop := range m.readers {
		if !slices.Contains(mine, q) {
			stop()
			delete(m.readers, q)
		}
	}
	for _, q := range mine {
		if m.readers[q] != nil {
			continue
		}
		own, stop := context.WithCancel(ctx)
		m.readers[q] = stop
		m.running.Add(1)
		go m.reader(own, q)
	}
}

// reader reads one queue until ctx ends.
func (m *member) reader(ctx context.Context, q queue) {
	defer m.running.Done()
	next, err := m.start(ctx, q)
	for ; ctx.Err() == nil; m.complain(ctx, err) {
		if err != nil {
			if next, err = m.pause(ctx, q); err != nil {
				continue
			}
		}
		var b batch
		if b, err = m.pull(ctx, q, next); err != nil {
			continue
		}
		next = b.next
		if len(b.records) > 0 {
			select {
			case m.batches <- b:
			case <-ctx.Done():
			}
		}
	}
}

// pause waits a little and then looks where to go on.
func (m *member) pause(ctx context.Context, q queue) (int64, error) {
	select {
	case <-time.After(retryAfter):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	m.mu.Lock()
	next, known := m.offsets[q]
	m.mu.Unlock()
	if known {
		return next, nil
	}
	return m.start(ctx, q)
}

// start finds where the group goes on reading the queue.
func (m *member) start(ctx context.Context, q queue) (int64, error) {
	ans, err := m.client.call(ctx, q.addr, request(wire.QueryConsumerOffset, &wire.QueryOffsetRequest{
		ConsumerGroup: []byte(m.opts.group), Topic: []byte(q.topic), QueueID: q.id,
	}))
	if isCode(err, wire.QueryNotFound) {
		code := wire.GetMaxOffset
		if m.opts.from == fromFirst {
			code = wire.GetMinOffset
		}
		ans, err = m.client.call(ctx, q.addr, request(code, &wire.QueueRequest{Topic: q.topic, QueueID: q.id, Committed: true}))
	}
	if err != nil {
		return 0, fmt.Errorf("where to begin in %v: %w", q, err)
	}
	var h wire.OffsetAnswer
	err = h.Parse(ans)
	return h.Offset, err
}

// pull asks for messages from an offset on; the broker holds it while there are none.
func (m *member) pull(ctx context.Context, q queue, from int64) (batch, error) {
	ctx, cancel := context.WithTimeout(ctx, suspendFor+callWait)
	defer cancel()
	ans, err := m.client.callAny(ctx, q.addr, request(wire.PullMessage, &wire.PullRequest{
		ConsumerGroup: []byte(m.opts.group), Topic: []byte(q.topic), QueueID: q.id, QueueOffset: from, MaxMsgNums: 32,
		SysFlag: wire.PullSuspend | wire.PullSubscription, SuspendTimeoutMillis: suspendFor.Milliseconds(),
		Subscription: []byte(m.opts.tags), MaxMsgBytes: -1, RequestSource: -1,
	}))
	if err != nil {
		return batch{}, err
	}
	var h wire.PullAnswer
	switch ans.Code {
	case wire.Success, wire.PullNotFound, wire.PullRetryImmediately, wire.PullOffsetMoved:
		err = h.Parse(ans)
	default:
		err = &refused{q.addr, wire.PullMessage.String(), ans.Code, ans.Name(), string(ans.Remark)}
	}
	return batch{queue: q, records: ans.Body, next: h.NextBeginOffset}, err
}

// handled notes how far a queue was handled, and tells the broker.
func (m *member) handled(q queue, p progress) {
	m.mu.Lock()
	m.offsets[q] = p.next
	m.mu.Unlock()
	conn, err := m.client.conn(context.Background(), q.addr)
	if err == nil {
		err = conn.Oneway(m.commit(q, p.next))
	}
	m.complain(context.Background(), err)
}

func (m *member) commit(q queue, at int64) *wire.Command {
	return request(wire.UpdateConsumerOffset, &wire.UpdateOffsetRequest{
		ConsumerGroup: []byte(m.opts.group), Topic: []byte(q.topic), QueueID: q.id, CommitOffset: at,
	})
}

// leave makes sure that the readers have ended and the broker has the offsets, and leaves the group. It is
// called once, when run has ended and nothing is being handled any more.
func (m *member) leave() error {
	for _, stop := range m.readers {
		stop()
	}
	m.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), leaveWait)
	defer cancel()
	for q, at := range m.offsets {
		if _, mine := m.readers[q]; !mine {
			continue // another member goes on from what it was told
		}
		if _, err := m.client.call(ctx, q.addr, m.commit(q, at)); err != nil {
			return fmt.Errorf("store the offset of %v: %w", q, err)
		}
	}
	for addr := range m.brokers {
		req := request(wire.UnregisterClient, &wire.UnregisterRequest{ClientID: m.id, ConsumerGroup: m.opts.group})
		if _, err := m.client.call(ctx, addr, req); err != nil {
			return fmt.Errorf("leave group %s: %w", m.opts.group, err)
		}
	}
	return nil
}
