package group

import (
	"maps"
	"slices"
	"sync"
	"time"

	"ringmq/netio/wire"
)

// Channel is one connection of a client. Its dynamic type must be comparable: the value is the identity.
type Channel interface {
	// Post sends a command to the client without waiting. Any goroutine may call it; a closed connection
	// drops the command.
	Post(cmd *wire.Command)
}

// Members knows who is connected in which producer and consumer group. Any goroutine may use it. It only
// tells whom to notify: posting is the caller's, after the call.
type Members struct {
	groups *Table

	// mu guards what follows. Leaf lock: map work only.
	mu           sync.RWMutex
	consumers    map[string]*consumerGroup
	producers    map[string]map[Channel]string // client ids
	present      map[Channel]*presence         // every registered channel
	fingerprints map[string]int32              // of the last heartbeat of version 2, by consumer group
}

// presence is what one connection has registered.
type presence struct {
	heard                time.Time // its last heartbeat
	consumers, producers map[string]bool
}

// consumerGroup is one consumer group with at least one connection.
type consumerGroup struct {
	channels map[Channel]string // client ids
	subs     map[string]*Subscription
	info     Info
}

// Info is how the members of a consumer group consume; the newest heartbeat decides.
type Info struct {
	Type  wire.ConsumeType
	Model wire.MessageModel
	From  wire.ConsumeFromWhere
}

// Beat is what a heartbeat has changed.
type Beat struct {
	Notify    []string // consumer groups whose members must be told to rebalance, the sender among them
	SubChange bool     // answer IS_SUB_CHANGE: the client should send its subscriptions with the next one
}

// NewMembers returns an empty Members. groups says which groups exist and whether they want to be notified.
func NewMembers(groups *Table) *Members {
	return &Members{
		groups: groups, consumers: map[string]*consumerGroup{}, producers: map[string]map[Channel]string{},
		present: map[Channel]*presence{}, fingerprints: map[string]int32{},
	}
}

// Heartbeat registers the producers and consumers of one connection. Consumer groups that the table does not
// know are left out, as a stock broker does with groups it may not create.
//
// A group is to be notified when the connection is new in it or when the set of its topics has changed. A
// newer expression for a known topic alone does not count. Members with different topics therefore make
// their group notify on every beat, as on a stock broker.
func (m *Members) Heartbeat(ch Channel, body *wire.HeartbeatBody, now time.Time) Beat {
	var beat Beat
	subs := make([][]*Subscription, len(body.ConsumerDataSet)) // read before the lock is taken, which every pull needs
	for i := range subs {
		subs[i] = fromHeartbeat(body.ConsumerDataSet[i].SubscriptionDataSet)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range body.ConsumerDataSet {
		c := &body.ConsumerDataSet[i]
		config := m.groups.Get([]byte(c.GroupName))
		if config == nil {
			continue
		}
		m.presentLocked(ch, now).consumers[c.GroupName] = true
		changed, known := m.consumerLocked(ch, body, c, subs[i])
		if body.HeartbeatFingerprint != 0 && m.fingerprintLocked(c.GroupName, body.HeartbeatFingerprint) || !known {
			beat.SubChange = true
		}
		if changed && config.NotifyIDsChanged && c.MessageModel != wire.Broadcasting {
			beat.Notify = append(beat.Notify, c.GroupName)
		}
	}
	for _, p := range body.ProducerDataSet {
		m.producerLocked(ch, p.GroupName, body.ClientID, now)
	}
	return beat
}

// presentLocked returns the presence of a connection that was heard now.
func (m *Members) presentLocked(ch Channel, now time.Time) *presence {
	p := m.present[ch]
	if p == nil {
		p = &presence{consumers: map[string]bool{}, producers: map[string]bool{}}
		m.present[ch] = p
	}
	p.heard = now
	return p
}

// consumerLocked takes over one group of a heartbeat. changed: members or topics are others now; known: the
// broker has subscriptions of the group, sent now or before.
func (m *Members) consumerLocked(ch Channel, body *wire.HeartbeatBody, c *wire.ConsumerData, subs []*Subscription) (changed, known bool) {
	g := m.consumers[c.GroupName]
	if g == nil {
		g = &consumerGroup{channels: map[Channel]string{}, subs: map[string]*Subscription{}}
		m.consumers[c.GroupName] = g
	}
	_, old := g.channels[ch]
	g.channels[ch] = body.ClientID
	g.info = Info{c.ConsumeType, c.MessageModel, c.ConsumeFromWhere}
	if body.HeartbeatFingerprint != 0 && body.WithoutSub {
		return !old, len(g.subs) > 0
	}
	return g.subscribe(subs) || !old, true
}

// subscribe makes the topics of list the topics of the group and tells whether the set is another one. A
// known topic gets a new expression only with a larger version.
func (g *consumerGroup) subscribe(list []*Subscription) (changed bool) {
	listed := make(map[string]bool, len(list))
	for _, s := range list {
		listed[s.Topic] = true
		old := g.subs[s.Topic]
		if old == nil || s.Version > old.Version {
			g.subs[s.Topic] = s
		}
		changed = changed || old == nil
	}
	for topic := range g.subs {
		if !listed[topic] {
			delete(g.subs, topic)
			changed = true
		}
	}
	return changed
}

// fromHeartbeat reads the subscriptions of one group.
func fromHeartbeat(list []wire.SubscriptionData) []*Subscription {
	subs := make([]*Subscription, len(list))
	for i := range list {
		subs[i] = subscription(&list[i])
	}
	return subs
}

// subscription takes the client's own hashes, which Java clients send as numbers and Go clients as texts; where
// there are none they follow from the tags.
func subscription(d *wire.SubscriptionData) *Subscription {
	s := &Subscription{Topic: d.Topic, Type: d.ExpressionType, Expr: d.SubString, Version: d.SubVersion}
	if s.Type == "" {
		s.Type = Tag
	}
	if s.Expr == "" && s.Type == Tag {
		s.Expr = All
	}
	for _, tag := range d.TagsSet {
		s.add(tag)
	}
	s.Codes = append(s.Codes, d.CodeSet...)
	s.sort()
	return s
}

// fingerprintLocked tells whether the group was last heard with another fingerprint.
func (m *Members) fingerprintLocked(group string, print int32) bool {
	old, ok := m.fingerprints[group]
	m.fingerprints[group] = print
	return ok && old != print
}

// Bounds of what one connection may add: no table says which producer groups exist. Stock clients have one
// for each producer in their process, and names of up to 255 characters.
const (
	maxProducers     = 1024
	maxProducerBytes = 255
)

// producerLocked takes over one producer group of a heartbeat. What is beyond the bounds is left out.
func (m *Members) producerLocked(ch Channel, group, clientID string, now time.Time) {
	p := m.presentLocked(ch, now)
	if len(group) > maxProducerBytes || len(p.producers) == maxProducers && !p.producers[group] {
		return
	}
	p.producers[group] = true
	if m.producers[group] == nil {
		m.producers[group] = map[Channel]string{}
	}
	m.producers[group][ch] = clientID
}

// Unregister takes a connection out of a producer group and a consumer group; an empty name means none. It
// returns the consumer group if its remaining members must be notified.
func (m *Members) Unregister(ch Channel, producerGroup, consumerGroup string) (notify []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.present[ch]; p != nil {
		delete(p.producers, producerGroup) // makes room for another one
	}
	m.leaveProducersLocked(ch, producerGroup)
	return m.leaveConsumersLocked(ch, consumerGroup, nil)
}

// Gone drops all registrations of a connection, which is closed, and returns the groups to notify.
func (m *Members) Gone(ch Channel) (notify []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.goneLocked(ch, nil)
}

// Expire drops the connections that were not heard for longer than Options.ExpireAfter and returns the groups
// to notify.
func (m *Members) Expire(now time.Time) (notify []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for ch, p := range m.present {
		if now.Sub(p.heard) > m.groups.opts.ExpireAfter {
			notify = m.goneLocked(ch, notify)
		}
	}
	slices.Sort(notify)
	return slices.Compact(notify)
}

func (m *Members) goneLocked(ch Channel, notify []string) []string {
	p := m.present[ch]
	if p == nil {
		return notify // never sent a heartbeat
	}
	delete(m.present, ch)
	for group := range p.producers {
		m.leaveProducersLocked(ch, group)
	}
	for group := range p.consumers {
		notify = m.leaveConsumersLocked(ch, group, notify)
	}
	return notify
}

func (m *Members) leaveProducersLocked(ch Channel, group string) {
	if delete(m.producers[group], ch); len(m.producers[group]) == 0 {
		delete(m.producers, group)
	}
}

// leaveConsumersLocked appends the group to notify if it must be told that the connection has left.
func (m *Members) leaveConsumersLocked(ch Channel, group string, notify []string) []string {
	g := m.consumers[group]
	if g == nil {
		return notify
	}
	if _, ok := g.channels[ch]; !ok {
		return notify
	}
	delete(g.channels, ch)
	if len(g.channels) == 0 {
		delete(m.consumers, group)
		delete(m.fingerprints, group)
		return notify
	}
	if c := m.groups.Get([]byte(group)); c == nil || !c.NotifyIDsChanged || g.info.Model == wire.Broadcasting {
		return notify
	}
	return append(notify, group)
}

// ClientIDs returns the client ids of a consumer group, sorted, each once: a client that has two connections
// must not count twice when the members share out the queues. It is empty for a group without members.
func (m *Members) ClientIDs(group string) []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	g := m.consumers[group]
	if g == nil {
		return nil
	}
	return slices.Compact(slices.Sorted(maps.Values(g.channels)))
}

// Channels returns the connections of a consumer group.
func (m *Members) Channels(group string) []Channel {
	m.mu.RLock()
	defer m.mu.RUnlock()
	g := m.consumers[group]
	if g == nil {
		return nil
	}
	return slices.Collect(maps.Keys(g.channels))
}

// Info tells how a consumer group consumes; false if it has no members. It allocates nothing.
func (m *Members) Info(group []byte) (Info, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	g := m.consumers[string(group)]
	if g == nil {
		return Info{}, false
	}
	return g.info, true
}

// Count returns how many producers and consumers are connected; a client of several groups counts in each.
func (m *Members) Count() (producers, consumers int) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, g := range m.producers {
		producers += len(g)
	}
	for _, g := range m.consumers {
		consumers += len(g.channels)
	}
	return producers, consumers
}

// Subscription returns what the heartbeats of a group say about a topic. It allocates nothing.
func (m *Members) Subscription(group, topic []byte) (*Subscription, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	g := m.consumers[string(group)]
	if g == nil {
		return nil, false
	}
	s, ok := g.subs[string(topic)]
	return s, ok
}
