package namesrv

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"ringmq/netio"
	"ringmq/netio/wire"
)

// masterID is the broker id of a master; only masters say which topics their group has.
const masterID = 0

// expireAfter is how long a broker may be silent that names no time-out of its own.
const expireAfter = 120 * time.Second

// Why a registration is refused.
var (
	// A single topic is a change to a table that must be here already. The text is the stock name server's.
	errUnknownBroker = errors.New("register broker failed")

	// Nobody may take the place of the broker that this name server is a part of: it would not notice.
	errLocalBroker = errors.New("register broker failed: name and id, or address, are those of the name server's own broker")
)

// table is what brokers have registered. Any goroutine may use it.
type table struct {
	// mu guards what follows. Leaf lock: map work only.
	mu      sync.RWMutex
	groups  map[string]*group                    // by broker name
	brokers map[address]*broker                  // every registered broker
	topics  map[string]map[string]wire.QueueData // by topic, then by broker name
	own     *wire.BrokerIdentity                 // the broker of this process; nil: none
}

// group is the brokers of one name: a master and its slaves.
type group struct {
	cluster      string
	addrs        map[int64]string // by broker id
	actingMaster bool
	zone         string
}

// address identifies a broker, as in the stock name server.
type address struct{ cluster, addr string }

// broker is one registered broker.
type broker struct {
	name    string
	id      int64
	haAddr  string
	version wire.DataVersion
	heard   time.Time
	timeout time.Duration // 0: never expires
	conn    *netio.Conn   // nil: this process
}

func newTable() *table {
	return &table{groups: map[string]*group{}, brokers: map[address]*broker{}, topics: map[string]map[string]wire.QueueData{}}
}

// register takes over what a broker says of itself and, from a master whose version is new here, of its
// topics. Topics that are missing in topics stay: a broker may send only what has changed. The answer tells a
// slave where its master is.
func (t *table) register(r *wire.RegisterBrokerRequest, topics *wire.TopicConfigWrapper, conn *netio.Conn, now time.Time) (wire.RegisterBrokerAnswer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := address{r.ClusterName, r.BrokerAddr}
	holder := t.holderLocked(r.BrokerIdentity)
	switch held := t.brokers[address{r.ClusterName, holder}]; {
	case t.own != nil && clash(*t.own, r.BrokerIdentity):
		return wire.RegisterBrokerAnswer{}, errLocalBroker
	case held != nil && holder != r.BrokerAddr && held.version.StateVersion > topics.DataVersion.StateVersion:
		// The holder won a newer election and stays; the stock name server is silent about it too.
		t.removeLocked(at)
		return wire.RegisterBrokerAnswer{}, nil
	case holder == "" && len(topics.TopicConfigTable) == 1:
		return wire.RegisterBrokerAnswer{}, errUnknownBroker
	}
	if old := t.brokers[at]; old != nil && old.name != r.BrokerName {
		t.removeLocked(at) // it has got another name
	}
	g := t.joinLocked(r.BrokerIdentity)
	g.actingMaster, g.zone = r.EnableActingMaster, r.ZoneName
	known := t.brokers[at]
	if r.BrokerID == masterID && (holder == "" || known == nil || known.version != topics.DataVersion) {
		t.mergeLocked(r.BrokerName, topics.TopicConfigTable)
	}
	t.brokers[at] = &broker{
		name: r.BrokerName, id: r.BrokerID, haAddr: r.HAServerAddr, version: topics.DataVersion,
		heard: now, timeout: timeout(r.HeartbeatTimeoutMillis), conn: conn,
	}
	return t.masterLocked(r, g), nil
}

// clash tells whether b would take the place of own, or change what its routes say.
func clash(own, b wire.BrokerIdentity) bool {
	if b.BrokerAddr == own.BrokerAddr {
		return true
	}
	return b.BrokerName == own.BrokerName && (b.BrokerID == own.BrokerID || b.ClusterName != own.ClusterName)
}

func timeout(ms int64) time.Duration {
	if ms <= 0 {
		return expireAfter
	}
	return time.Duration(ms) * time.Millisecond
}

// holderLocked is the address that has the broker's name and id now; empty if none has.
func (t *table) holderLocked(b wire.BrokerIdentity) string {
	g := t.groups[b.BrokerName]
	if g == nil {
		return ""
	}
	return g.addrs[b.BrokerID]
}

// joinLocked gives a broker its place in the group of its name. An address has one place only: a slave that
// became master leaves its old one.
func (t *table) joinLocked(b wire.BrokerIdentity) *group {
	g := t.groups[b.BrokerName]
	if g == nil {
		g = &group{addrs: map[int64]string{}}
		t.groups[b.BrokerName] = g
	}
	g.cluster = b.ClusterName
	maps.DeleteFunc(g.addrs, func(_ int64, addr string) bool { return addr == b.BrokerAddr })
	g.addrs[b.BrokerID] = b.BrokerAddr
	return g
}

func (t *table) mergeLocked(name string, topics map[string]wire.TopicConfig) {
	for topic, c := range topics {
		if t.topics[topic] == nil {
			t.topics[topic] = map[string]wire.QueueData{}
		}
		t.topics[topic][name] = wire.QueueData{
			BrokerName: name, Perm: c.Perm, ReadQueueNums: c.ReadQueueNums, TopicSysFlag: c.TopicSysFlag, WriteQueueNums: c.WriteQueueNums,
		}
	}
}

// masterLocked is what a slave is told of its master, if that lives.
func (t *table) masterLocked(r *wire.RegisterBrokerRequest, g *group) wire.RegisterBrokerAnswer {
	addr := g.addrs[masterID]
	master := t.brokers[address{r.ClusterName, addr}]
	if r.BrokerID == masterID || master == nil {
		return wire.RegisterBrokerAnswer{}
	}
	return wire.RegisterBrokerAnswer{HAServerAddr: master.haAddr, MasterAddr: addr}
}

// local makes topics the topics of the broker of this process: what is not among them is gone.
func (t *table) local(b wire.BrokerIdentity, haAddr string, topics map[string]wire.TopicConfig) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.own = &b
	t.joinLocked(b)
	t.brokers[address{b.ClusterName, b.BrokerAddr}] = &broker{name: b.BrokerName, id: b.BrokerID, haAddr: haAddr}
	t.dropTopicsLocked(b.BrokerName, func(topic string) bool { _, keep := topics[topic]; return !keep })
	if b.BrokerID == masterID {
		t.mergeLocked(b.BrokerName, topics)
	}
}

// unregister takes a broker out, with its topics if it was the last one of its name. The broker of this process is taken
// out by removeLocal alone.
func (t *table) unregister(b wire.BrokerIdentity) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.own == nil || b.BrokerAddr != t.own.BrokerAddr {
		t.removeLocked(address{b.ClusterName, b.BrokerAddr})
	}
}

// removeLocal takes the broker of this process out.
func (t *table) removeLocal() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.own != nil {
		t.removeLocked(address{t.own.ClusterName, t.own.BrokerAddr})
		t.own = nil
	}
}

// removeWhere takes out all brokers that gone picks and returns their addresses.
func (t *table) removeWhere(gone func(b *broker) bool) (removed []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for at, b := range t.brokers {
		if gone(b) {
			t.removeLocked(at)
			removed = append(removed, at.addr)
		}
	}
	slices.Sort(removed)
	return removed
}

func (t *table) removeLocked(at address) {
	b := t.brokers[at]
	if b == nil {
		return
	}
	delete(t.brokers, at)
	g := t.groups[b.name]
	if g == nil || g.addrs[b.id] != at.addr {
		return // another one has taken the place, and may have left it since
	}
	if delete(g.addrs, b.id); len(g.addrs) == 0 {
		delete(t.groups, b.name)
		t.dropTopicsLocked(b.name, func(string) bool { return true })
	}
}

// dropTopicsLocked takes a broker name out of the topics that drop picks.
func (t *table) dropTopicsLocked(name string, drop func(topic string) bool) {
	for topic, queues := range t.topics {
		if !drop(topic) {
			continue
		}
		if delete(queues, name); len(queues) == 0 {
			delete(t.topics, topic)
		}
	}
}

// touch keeps a broker alive.
func (t *table) touch(at address, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := t.brokers[at]; b != nil {
		b.heard = now
	}
}

// version returns what version of a broker's topics is held here, false for an unknown broker.
func (t *table) version(at address) (wire.DataVersion, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	b := t.brokers[at]
	if b == nil {
		return wire.DataVersion{}, false
	}
	return b.version, true
}

// route tells on which brokers a topic lives, false if on none.
func (t *table) route(topic string) (wire.RouteData, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	r := wire.RouteData{FilterServerTable: map[string][]string{}}
	for _, name := range slices.Sorted(maps.Keys(t.topics[topic])) {
		r.QueueDatas = append(r.QueueDatas, t.topics[topic][name])
		r.BrokerDatas = append(r.BrokerDatas, t.groups[name].data(name))
	}
	return r, len(r.QueueDatas) > 0
}

// data is the group as clients see it. The copy may leave the lock.
func (g *group) data(name string) wire.BrokerData {
	return wire.BrokerData{
		BrokerAddrs: maps.Clone(g.addrs), BrokerName: name, Cluster: g.cluster, EnableActingMaster: g.actingMaster, ZoneName: g.zone,
	}
}

// cluster lists all brokers.
func (t *table) cluster() wire.ClusterInfo {
	t.mu.RLock()
	defer t.mu.RUnlock()
	info := wire.ClusterInfo{BrokerAddrTable: map[string]wire.BrokerData{}, ClusterAddrTable: map[string][]string{}}
	for _, name := range slices.Sorted(maps.Keys(t.groups)) {
		g := t.groups[name]
		info.BrokerAddrTable[name] = g.data(name)
		info.ClusterAddrTable[g.cluster] = append(info.ClusterAddrTable[g.cluster], name)
	}
	return info
}

// topicNames lists all topics.
func (t *table) topicNames() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Sorted(maps.Keys(t.topics))
}
