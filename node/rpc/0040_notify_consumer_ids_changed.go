package rpc

import (
	"sync"
	"time"

	"ringmq/netio/wire"
)

// noticeEvery is how often one group is told of changes at most. A client shares out the queues anew for
// each notice, and all members of a group are told when one comes: a thousand that come in one second would be
// told half a million times. Stock clients look every 20 seconds in any case, so this delay is no loss.
const noticeEvery = 40 * time.Millisecond

// notices remembers which groups were told lately.
type notices struct {
	tell func(group string) // outside of mu
	wait func(d time.Duration, f func()) (stop func())

	mu     sync.Mutex // guards what follows; the clock's lock may be taken under it
	lately map[string]*notice
	closed bool
}

// notice is a group that was told less than noticeEvery ago.
type notice struct {
	again bool   // it has changed since
	stop  func() // of its timer
}

// changed tells a group at once, unless it was told lately: then once more when noticeEvery is over. Any
// goroutine.
func (n *notices) changed(group string) {
	n.mu.Lock()
	told := n.lately[group]
	now := told == nil && !n.closed
	if now {
		n.restLocked(group)
	} else if told != nil {
		told.again = true
	}
	n.mu.Unlock()
	if now {
		n.tell(group)
	}
}

// restLocked begins the time in which the group is not told again.
func (n *notices) restLocked(group string) {
	n.lately[group] = &notice{stop: n.wait(noticeEvery, func() { n.rested(group) })}
}

// rested ends that time.
func (n *notices) rested(group string) {
	n.mu.Lock()
	told := n.lately[group]
	delete(n.lately, group)
	again := told != nil && told.again
	if again {
		n.restLocked(group)
	}
	n.mu.Unlock()
	if again {
		n.tell(group)
	}
}

// stop forgets what is still to be told.
func (n *notices) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	for _, told := range n.lately {
		told.stop()
	}
	clear(n.lately)
}

// notifyChanged has every member of the groups told (40) that they share out the queues anew. Any goroutine.
func (s *Server) notifyChanged(groups []string) {
	if !s.opts.NotifyIDsChanged {
		return
	}
	for _, group := range groups {
		s.notices.changed(group)
	}
}

// tellChanged sends NOTIFY_CONSUMER_IDS_CHANGED (40) to every member of a group.
func (s *Server) tellChanged(group string) {
	for _, channel := range s.opts.Members.Channels(group) {
		var cmd wire.Command
		cmd.Request(wire.NotifyConsumerIdsChanged, s.opaque.Add(1))
		(&wire.NotifyIdsChanged{ConsumerGroup: group}).Append(&cmd)
		channel.Post(&cmd)
	}
}

// ExpireMembers drops the clients that were not heard for too long and tells those who stay. The
// node calls it every few seconds. Any goroutine.
func (s *Server) ExpireMembers() {
	s.notifyChanged(s.opts.Members.Expire(s.opts.Clock.Now()))
}
