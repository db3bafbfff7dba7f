package node

import (
	"errors"
	"io"

	"ringmq/netio"
	"ringmq/netio/wire"
	"ringmq/node/admin"
	"ringmq/node/delay"
	"ringmq/node/group"
	"ringmq/node/lock"
	"ringmq/node/metrics"
	"ringmq/node/pull"
	"ringmq/node/register"
	"ringmq/node/rpc"
	"ringmq/node/topic"
	"ringmq/store"
	"ringmq/uring/hist"
)

// These prove that the layers fit the interfaces that their users declare.
var (
	_ netio.Handler   = (*rpc.Server)(nil)
	_ group.Channel   = (*netio.Conn)(nil)
	_ pull.Loop       = (*netio.Loop)(nil)
	_ pull.Source     = (*store.Store)(nil)
	_ delay.Clock     = Clock(nil)
	_ register.Topics = (*topic.Table)(nil)
)

func (n *Node) storeOptions() store.Options {
	o := n.opts.Config.Store()
	o.Now, o.Log = n.clock.Now, n.log
	o.Progress = func(done, total int64) {
		n.recovered.Store(done)
		n.toRecover.Store(total)
		if n.opts.Progress != nil {
			n.opts.Progress(done, total)
		}
	}
	o.ColdBytes = min(64<<20, max(n.opts.MemoryBytes/16, store.MinColdBytes))
	o.CacheBytes = n.opts.MemoryBytes / 4
	o.OnArrive = n.polls.Arrived
	o.OnMarks = func(m store.Marks) {
		if broker := n.broker.Load(); broker != nil {
			broker.Advance(m.Written, m.Visible)
		}
		if schedule := n.schedule.Load(); schedule != nil {
			schedule.Advance(m)
		}
	}
	o.OnFail = n.storeFailed
	return o
}

// storeFailed runs on the store's writer, once, when nothing can be stored any more, which the store has logged: who
// waits is told, health turns red, and the routes lose the write permission. Reads go on. The node may still be
// starting, or stopping already: the name servers are told by a goroutine that lives in between.
func (n *Node) storeFailed(err error) {
	n.noWrite.Store(true)
	if broker := n.broker.Load(); broker != nil {
		failOwed(broker, err)
	}
	close(n.failed)
}

// withdraw takes the write permission out of the routes.
func (n *Node) withdraw() {
	if n.registrar != nil {
		n.registrar.SetPerm(n.perm())
	}
	n.announce()
}

func failOwed(broker *netio.Server, err error) {
	broker.FailOwed(wire.ServiceNotAvailable, "the store has failed: "+err.Error())
}

// catchUp tells a broker that has just begun to listen what the store had told before there was a broker to hear it: a
// send can be served, and flushed, between the two.
func catchUp(broker *netio.Server, s *store.Store) {
	m := s.Marks()
	broker.Advance(m.Written, m.Visible)
	if err := s.Err(); err != nil {
		failOwed(broker, err)
	}
}

// perm is the broker's permission as of now.
func (n *Node) perm() topic.Perm {
	if n.noWrite.Load() {
		return n.opts.Config.Perm &^ topic.PermWrite
	}
	return n.opts.Config.Perm
}

func (n *Node) identity() wire.BrokerIdentity {
	c := &n.opts.Config
	return wire.BrokerIdentity{BrokerName: c.Broker, BrokerAddr: c.Advertise, ClusterName: c.Cluster, BrokerID: c.BrokerID}
}

// announce makes the topics known to the name servers: the embedded one has them on return, the
// others hear of them at once. Any goroutine.
func (n *Node) announce() {
	n.announceHere()
	if n.registrar != nil {
		n.registrar.Changed()
	}
}

// announceHere makes the topics known to the embedded name server, if there is one.
func (n *Node) announceHere() {
	n.announcing.Lock()
	defer n.announcing.Unlock()
	if n.namesrv == nil || n.left {
		return
	}
	topics, _ := n.topics.Snapshot()
	table := make(map[string]wire.TopicConfig, len(topics))
	for name, c := range topics {
		table[name] = c.Wire(n.perm())
	}
	n.namesrv.Local(n.identity(), n.opts.Config.HAAddr, table)
}

// leave takes the node out of the routes of the embedded name server. Topics may still change
// afterwards, which must not bring it back.
func (n *Node) leave() {
	n.announcing.Lock()
	defer n.announcing.Unlock()
	n.left = true
	if n.namesrv != nil {
		n.namesrv.RemoveLocal()
	}
}

func (n *Node) topicOptions() topic.Options {
	return topic.Options{System: n.opts.Config.Topics(), Now: n.clock.Now, Log: n.log}
}

func (n *Node) groupOptions() group.Options {
	return group.Options{
		AutoCreate: n.opts.Config.AutoCreateGroup, CheckName: topic.CheckGroup, ExpireAfter: n.opts.Config.ChannelExpire,
		Now: n.clock.Now, Log: n.log,
	}
}

func (n *Node) rpcOptions() rpc.Options {
	c := &n.opts.Config
	return rpc.Options{
		Store: n.store, Topics: n.topics, Groups: n.groups, Members: n.members, Offsets: n.offsets, Polls: n.polls,
		Locks: lock.New(lock.Options{Now: n.clock.Now}), Delays: n.delayed,
		Clock: n.clock, Log: n.log,
		Broker: c.Broker, Cluster: c.Cluster, Region: c.RegionID, Trace: c.TraceOn, Advertise: c.StoreHost, Perm: c.Perm,
		DelayLevels: len(c.DelayLevels), MaxMessageBytes: c.MaxMessageBytes, LongPolling: c.LongPolling, ShortPoll: c.ShortPolling,
		InMemory:    rpc.Limit{Count: c.PullMemoryCount, Bytes: c.PullMemoryBytes},
		OnDisk:      rpc.Limit{Count: c.PullDiskCount, Bytes: c.PullDiskBytes},
		NewestBytes: n.opts.MemoryBytes / 100 * int64(c.MemoryRatio),

		RejectActivePull: c.RejectPullConsumer, LitePull: c.LitePull, PropertyFilter: c.PropertyFilter, NotifyIDsChanged: c.NotifyIDsChanged,
	}
}

func (n *Node) delayOptions() delay.Options {
	return delay.Options{Store: n.store, Table: n.delayed, Levels: n.opts.Config.DelayLevels, Clock: n.clock, Log: n.log}
}

func (n *Node) brokerNet() netio.Options {
	o := n.opts.Config.Net()
	o.Log = n.log
	fit(&o, n.opts.MemoryBytes, fileLimit())
	return o
}

func (n *Node) registerOptions() register.Options {
	c := &n.opts.Config
	return register.Options{
		Servers: c.Namesrvs, Broker: n.identity(), HAAddr: c.HAAddr, Perm: n.perm(), Topics: n.topics,
		Period: c.RegisterPeriod, Timeout: c.RegisterTimeout, Now: n.clock.Now, Log: n.log,
	}
}

func (n *Node) adminOptions() admin.Options {
	return admin.Options{
		Addr: n.opts.Config.AdminListen, Health: n.health, Ready: n.readiness, Notice: n.notice, Metrics: n.writeMetrics, Log: n.log,
	}
}

// metrics is the page with everything that is counted.
func (n *Node) metrics() *metrics.Page {
	page := metrics.New(n.opts.Config.Cluster, n.opts.Config.Broker)
	page.Store(n.store.Stats, n.store.Marks)
	page.Net("broker", n.broker.Load().Stats)
	if n.namesrvNet != nil {
		page.Net("namesrv", n.namesrvNet.Stats)
	}
	page.Gauge("rocketmq_topic_number", func() float64 {
		topics, _ := n.topics.Snapshot()
		return float64(len(topics))
	})
	page.Gauge("rocketmq_consumer_group_number", func() float64 {
		groups, _ := n.groups.Snapshot()
		return float64(len(groups))
	})
	page.Gauge("rocketmq_broker_permission", func() float64 { return float64(n.perm()) })
	page.Gauge("rocketmq_producer_connections", func() float64 {
		producers, _ := n.members.Count()
		return float64(producers)
	})
	page.Gauge("rocketmq_consumer_connections", func() float64 {
		_, consumers := n.members.Count()
		return float64(consumers)
	})
	page.Lags(n.lags)
	page.Hist("ringmq_rpc_worker_seconds", 1e-6, func() hist.Snapshot { return n.rpc.Stats().WorkTimes })
	count := func(name string, read func(rpc.Stats) int64) {
		page.Counter(name, func() int64 { return read(n.rpc.Stats()) })
	}
	page.Gauge("ringmq_rpc_pulls_waiting", func() float64 { return float64(n.rpc.Stats().Waiting) })
	page.Gauge("ringmq_rpc_queue_locks", func() float64 { return float64(n.rpc.Stats().Locks) })
	count("ringmq_rpc_requests_total", func(s rpc.Stats) int64 { return s.Requests })
	count("ringmq_rpc_messages_sent_total", func(s rpc.Stats) int64 { return s.Sends })
	count("rocketmq_messages_out_total", func(s rpc.Stats) int64 { return s.Pulls })
	count("ringmq_rpc_pulls_held_total", func(s rpc.Stats) int64 { return s.Held })
	count("ringmq_rpc_pulls_raced_total", func(s rpc.Stats) int64 { return s.Raced })
	count("ringmq_rpc_pulls_cold_total", func(s rpc.Stats) int64 { return s.Cold })
	count("ringmq_rpc_unknown_requests_total", func(s rpc.Stats) int64 { return s.Unknown })
	count("ringmq_rpc_overloaded_requests_total", func(s rpc.Stats) int64 { return s.Overloaded })
	count("ringmq_rpc_panics_total", func(s rpc.Stats) int64 { return s.Panics })
	delays := n.schedule.Load()
	page.Counter("ringmq_delay_delivered_total", func() int64 { return delays.Stats().Delivered })
	page.Counter("ringmq_delay_dropped_total", func() int64 { return delays.Stats().Dropped })
	page.Gauge("ringmq_delay_pending", func() float64 { return float64(delays.Stats().Pending) })
	page.Gauge("ringmq_delay_late_ms", func() float64 { return float64(delays.Stats().LateMs) })
	return page
}

// lags are how far the groups are behind in the topics that they have committed offsets of.
func (n *Node) lags() []metrics.Lag {
	type pair struct{ group, topic string }
	sums := map[pair]int64{}
	n.offsets.Each(func(group, topic string, queue int32, offset int64) {
		behind := int64(0)
		if q := n.store.Queue(topic, queue); q != nil {
			behind = max(q.Max()-max(offset, q.Min()), 0)
		}
		sums[pair{group, topic}] += behind
	})
	list := make([]metrics.Lag, 0, len(sums))
	for p, messages := range sums {
		list = append(list, metrics.Lag{Group: p.group, Topic: p.topic, Messages: messages})
	}
	return list
}

// The administration page is served before the store is open: then nothing is known to be wrong, and
// there is nothing to count.

func (n *Node) health() error {
	if n.page.Load() == nil {
		return nil
	}
	return n.store.Err()
}

func (n *Node) notice() error {
	if n.page.Load() == nil {
		return nil
	}
	return n.store.Refusing()
}

func (n *Node) writeMetrics(w io.Writer) {
	metrics.Recovery(w, n.recovered.Load(), n.toRecover.Load())
	if page := n.page.Load(); page != nil {
		page.Write(w)
	}
}

// errNotServing is why a node is not ready while it starts or stops.
var errNotServing = errors.New("starting or stopping")

// errNotRegistered is why a node that serves is not ready: no client finds it.
var errNotRegistered = errors.New("no name server has the topics yet")

// readiness tells why no traffic should be sent here.
func (n *Node) readiness() error {
	if !n.ready.Load() {
		return errNotServing
	}
	if n.registrar != nil && n.namesrv == nil && !n.registrar.Registered() {
		return errNotRegistered
	}
	return n.store.Err()
}
