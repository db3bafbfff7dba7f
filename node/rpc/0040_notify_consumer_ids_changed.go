package rpc

import "ringmq/netio/wire"

// notifyChanged sends NOTIFY_CONSUMER_IDS_CHANGED (40) to every member of the groups, so that they
// share out the queues anew. Any goroutine.
func (s *Server) notifyChanged(groups []string) {
	if !s.opts.NotifyIDsChanged {
		return
	}
	for _, group := range groups {
		for _, channel := range s.opts.Members.Channels(group) {
			var cmd wire.Command
			cmd.Request(wire.NotifyConsumerIdsChanged, s.opaque.Add(1))
			(&wire.NotifyIdsChanged{ConsumerGroup: group}).Append(&cmd)
			channel.Post(&cmd)
		}
	}
}

// ExpireMembers drops the clients that were not heard for too long and tells those who stay. The
// node calls it every few seconds. Any goroutine.
func (s *Server) ExpireMembers() {
	s.notifyChanged(s.opts.Members.Expire(s.opts.Clock.Now()))
}
