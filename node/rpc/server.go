// Package rpc answers the requests of the RocketMQ remoting protocol that a broker is asked.
//
//	netio loop --Serve--> routes.go: which lane, which handler
//	                        |-- loop lane:   the handler runs in place and returns the answer
//	                        |-- worker lane: a copy of the request waits for a worker (lanes.go)
//	                        |-- cold lane:   the same for pulls of what is not in memory (coldlane.go)
//	                        '-- sends:       joined to one append at EndTurn (turn.go), answered when
//	                                         the log's mark has passed them
//
// One file per request code holds its handler, named by the code. Read server.go, call.go and
// turn.go first; 0010_send_message.go and 0011_pull_message.go are what the package is about.
package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"sync/atomic"
	"time"

	"ringmq/netio"
	"ringmq/netio/wire"
	"ringmq/node/filter"
	"ringmq/node/group"
	"ringmq/node/lock"
	"ringmq/node/offset"
	"ringmq/node/pull"
	"ringmq/node/topic"
	"ringmq/store"
	"ringmq/uring/hist"
)

// Limit bounds what one pull returns. The first message that matches is returned whatever its size.
type Limit struct {
	Count int
	Bytes int
}

// Options sets up a Server: the parts it answers from, who the broker is, and its limits.
type Options struct {
	Store   *store.Store
	Topics  *topic.Table
	Groups  *group.Table
	Members *group.Members
	Offsets *offset.Table
	Locks   *lock.Table
	Polls   *pull.Arrivals
	Delays  DelayOffsets
	Clock   pull.Clock
	Log     *slog.Logger

	Broker    string         // brokerName
	Cluster   string         // brokerClusterName
	Region    string         // regionId: stored with each message
	Trace     bool           // traceOn: stored with each message
	Advertise netip.AddrPort // where clients reach this broker: stored as the store host, part of message ids
	Perm      topic.Perm     // brokerPermission

	DelayLevels      int  // how many there are
	MaxMessageBytes  int  // largest body
	LongPolling      bool // longPollingEnable: hold a pull as long as it asks; else ShortPoll
	ShortPoll        time.Duration
	InMemory, OnDisk Limit // per pull: in the newest part of the log, and farther back
	NewestBytes      int64 // how much of the log's end counts as in memory
	RejectActivePull bool  // rejectPullConsumerEnable: only push consumers may pull
	LitePull         bool  // litePullMessageEnable
	PropertyFilter   bool  // enablePropertyFilter: SQL92 subscriptions are served
	NotifyIDsChanged bool  // notifyConsumerIdsChangedEnable

	WorkerWait time.Duration // how long a request may wait for a worker
	SlowWork   time.Duration // a request that a worker serves for longer has a line in the log
}

// DelayOffsets tells how far delayed messages are delivered.
type DelayOffsets interface {
	// File returns what delayOffset.json would hold, to be sent as JSON. It may wait for the disk.
	File() any
}

// Fill sets the stock broker's defaults, so that Check sees every field with a value.
func (o *Options) Fill() {
	if o.DelayLevels == 0 {
		o.DelayLevels = 18
	}
	if o.MaxMessageBytes == 0 {
		o.MaxMessageBytes = 4 << 20
	}
	if o.ShortPoll == 0 {
		o.ShortPoll = time.Second
	}
	if o.InMemory == (Limit{}) {
		o.InMemory = Limit{Count: 32, Bytes: 256 << 10}
	}
	if o.OnDisk == (Limit{}) {
		o.OnDisk = Limit{Count: 8, Bytes: 64 << 10}
	}
	if o.NewestBytes == 0 {
		o.NewestBytes = math.MaxInt64
	}
	if o.WorkerWait == 0 {
		o.WorkerWait = 5 * time.Second
	}
	if o.SlowWork == 0 {
		o.SlowWork = time.Second
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
}

// Check changes nothing and reports all complaints.
func (o Options) Check() error {
	var bad []error
	if !o.Advertise.IsValid() || o.Advertise.Addr().IsUnspecified() {
		bad = append(bad, fmt.Errorf("rpc: advertised address %v: want one that clients can reach", o.Advertise))
	}
	if o.Broker == "" || o.Cluster == "" {
		bad = append(bad, errors.New("rpc: broker and cluster need a name"))
	}
	if o.InMemory.Count < 1 || o.OnDisk.Count < 1 {
		bad = append(bad, errors.New("rpc: a pull must return at least one message"))
	}
	return errors.Join(bad...)
}

// Server is the broker's netio.Handler: it may serve several listeners at once.
type Server struct {
	// Set by New, constant afterwards.
	opts   Options
	region []byte
	added  []byte // the properties that every single message gets
	lanes  *lanes
	cold   *coldLane

	notices notices      // of groups whose members changed
	filters filter.Cache // of SQL92 subscriptions; any goroutine
	rates   rates        // at which groups are given messages

	// Stored by anyone, loaded by the loops.
	closing atomic.Bool  // sends are refused: the node is about to stop
	opaque  atomic.Int32 // of the last request sent to a client

	stats counters
}

// Stats are counters since New. All but Waiting and Locks only grow.
type Stats struct {
	Waiting    int64 // pulls that wait for a message right now
	Locks      int64 // queues that orderly consumers hold right now
	Requests   int64 // served, whatever the outcome
	Sends      int64 // messages appended, each element of a batch counted
	Pulls      int64 // messages returned
	Held       int64 // pulls that waited for a message
	Raced      int64 // of them, those whose message came while they were registered
	Cold       int64 // pulls that waited for the disk
	Unknown    int64 // requests of codes that are not served
	Overloaded int64 // requests refused because the workers were busy
	Panics     int64 // handlers that panicked

	WorkTimes hist.Snapshot // of requests that workers served, with their wait for one, in µs
}

type counters struct {
	requests, sends, pulls, held, cold, unknown, overloaded, panics atomic.Int64
	work                                                            hist.Hist
}

// New returns a Server with its workers running. Stop ends them.
func New(o Options) (*Server, error) {
	o.Fill()
	if err := o.Check(); err != nil {
		return nil, err
	}
	s := &Server{opts: o, region: []byte(o.Region), added: addedProps(o)}
	s.lanes, s.cold = newLanes(s), newColdLane(s)
	s.notices = notices{tell: s.tellChanged, wait: o.Clock.AfterFunc, lately: map[string]*notice{}}
	return s, nil
}

// RefuseSends makes every send fail with SERVICE_NOT_AVAILABLE from now on, so that producers go to
// another broker while this one finishes what it owes. Any goroutine.
func (s *Server) RefuseSends() { s.closing.Store(true) }

// Stop ends the workers after the requests that they have. Call it after the listeners were stopped. An error
// says that a request hangs, most likely on the disk, and ctx ended: its worker is left behind and may still
// write. Stop may be called again then.
func (s *Server) Stop(ctx context.Context) error {
	s.notices.stop()
	return errors.Join(s.lanes.stop(ctx), s.cold.stop(ctx))
}

// Stats returns the counters. Any goroutine may call it.
func (s *Server) Stats() Stats {
	return Stats{
		Waiting: s.opts.Polls.Held(), Locks: int64(s.opts.Locks.Len()), Requests: s.stats.requests.Load(), Sends: s.stats.sends.Load(), Pulls: s.stats.pulls.Load(),
		Held: s.stats.held.Load(), Raced: s.opts.Polls.Raced(), Cold: s.stats.cold.Load(), Unknown: s.stats.unknown.Load(),
		Overloaded: s.stats.overloaded.Load(), Panics: s.stats.panics.Load(), WorkTimes: s.stats.work.Read(),
	}
}

// client is what the server keeps for a connection, in its State. Loop only, but for load and cold.
type client struct {
	polls  pull.Owner
	worker int // which worker serves it: requests of one connection keep their order there
	load   load
	cold   coldPulls
}

// Opened makes the connection's state.
func (s *Server) Opened(c *netio.Conn) {
	c.State = &client{worker: s.lanes.pick()}
}

// Closed drops what the connection held: its long polls, its queue locks and its memberships. Groups that
// lost a member are told at once, and find the locks free.
func (s *Server) Closed(c *netio.Conn) {
	if cl, ok := c.State.(*client); ok {
		s.turnOf(c.Loop()).polls.Drop(&cl.polls)
	}
	s.gone(c)
}

// gone ends what a closed connection held in its groups. Any goroutine.
func (s *Server) gone(c *netio.Conn) {
	s.opts.Locks.Gone(c)
	s.notifyChanged(s.opts.Members.Gone(c))
}

// Serve takes one request from its connection's loop.
func (s *Server) Serve(c *netio.Conn, req *wire.Command) netio.Verdict {
	if req.IsAnswer() {
		return netio.Done // nothing that this broker sends to clients waits for an answer
	}
	s.stats.requests.Add(1)
	r := s.route(req.Code)
	if r.lane == onWorker {
		s.lanes.put(c, req, r.handle)
		return netio.Done
	}
	t := s.turnOf(c.Loop())
	call := &t.call
	*call = Call{Conn: c, Req: req, ans: &t.ans, turn: t}
	ans := s.run(r.handle, call)
	if call.later {
		return netio.Later
	}
	if ans != nil && !req.Oneway() {
		c.Send(ans)
	}
	return netio.Done
}

// EndTurn appends the sends of the turn.
func (s *Server) EndTurn(l *netio.Loop) {
	if t, ok := l.State.(*turn); ok {
		t.nowMs = 0
		s.appendSends(t)
	}
}

// run calls the handler. A panic ends this request only: it is answered with SYSTEM_ERROR.
func (s *Server) run(handle handler, c *Call) (ans *wire.Command) {
	defer func() {
		if p := recover(); p != nil {
			ans = s.panicked(c, p)
		}
	}()
	return handle(s, c)
}
