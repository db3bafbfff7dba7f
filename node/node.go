// Package node is one ringmq node: it starts the layers below in the right order, fits them
// together, and stops them without losing what it owes.
//
//	netio listeners --Serve--> rpc --Append--> store --marks--> netio: answers, long polls
//	                            |                                |
//	                            '--> topic, group, offset        '--> first failed flush: red, read-only
//
// Start and Stop are flat lists in this file; wiring.go makes each layer's options and holds the few
// calls that go from one layer to another.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ringmq/netio"
	"ringmq/node/admin"
	"ringmq/node/config"
	"ringmq/node/delay"
	"ringmq/node/group"
	"ringmq/node/metrics"
	"ringmq/node/namesrv"
	"ringmq/node/offset"
	"ringmq/node/pull"
	"ringmq/node/register"
	"ringmq/node/rpc"
	"ringmq/node/topic"
	"ringmq/store"
	"ringmq/store/vfs"
)

// Periods of housekeeping, those of the stock broker and name server.
const (
	expireMembersEvery = 10 * time.Second
	expireBrokersEvery = 5 * time.Second
)

// Options says what a Node is made of. Config and FS are needed.
type Options struct {
	Config config.Config
	FS     vfs.FS
	Clock  Clock        // nil: the machine's
	Log    *slog.Logger // nil: slog.Default()

	Progress func(doneBytes, totalBytes int64) // see store.Options; may be nil

	MemoryBytes int64 // what this process may use; 0: what the machine and its control groups allow
}

// Node is a running node.
type Node struct {
	// Set by Start, constant afterwards. What the configuration switches off is nil.
	opts       Options
	clock      Clock
	log        *slog.Logger
	store      *store.Store
	topics     *topic.Table
	groups     *group.Table
	members    *group.Members
	offsets    *offset.Table
	delayed    *delay.Table
	polls      *pull.Arrivals
	rpc        *rpc.Server
	namesrv    *namesrv.Server
	namesrvNet *netio.Server
	registrar  *register.Registrar
	admin      *admin.Server
	cancel     context.CancelFunc // of the background goroutines
	background sync.WaitGroup

	// Stored by Start, loaded by the store's writer, which runs before there is a listener.
	broker   atomic.Pointer[netio.Server]
	schedule atomic.Pointer[delay.Schedule]

	// Closed by the store's failure, for the goroutine that tells the name servers.
	failed chan struct{}

	// Stored by Start when all that the administration page asks is there, loaded by that page.
	page atomic.Pointer[metrics.Page]

	// Stored while the log is read at the start, loaded by that page: bytes read, and to be read.
	recovered, toRecover atomic.Int64

	// Stored by Start, Stop and the store's failure, loaded by anyone.
	ready   atomic.Bool
	noWrite atomic.Bool // the store has failed: the routes say that nothing can be sent here

	// announcing guards what follows. It is held from the look at the topics until the embedded name
	// server has them, so that no state is told after a newer one; only that server's lock is taken under it.
	announcing sync.Mutex
	left       bool // the node is about to stop and out of the routes for good
}

// Start brings a node up: lock and recovery of the store, tables, listeners, registration. When it
// returns the node serves. An error leaves nothing running, and says what to do where it can.
func Start(o Options) (*Node, error) {
	n := &Node{opts: o, clock: o.Clock, log: o.Log, failed: make(chan struct{})}
	if n.clock == nil {
		n.clock = machineClock{}
	}
	if n.log == nil {
		n.log = slog.Default()
	}
	if n.opts.MemoryBytes == 0 {
		n.opts.MemoryBytes = memoryBytes(n.log)
	}
	if err := n.start(); err != nil {
		return nil, errors.Join(err, n.abandon())
	}
	n.ready.Store(true)
	return n, nil
}

func (n *Node) start() error {
	var err error
	n.polls = pull.NewArrivals()
	if n.opts.Config.AdminListen != "" { // first: it says that the node is starting while the log is read
		if n.admin, err = admin.Start(n.adminOptions()); err != nil {
			return listenError("administration", "adminListen (--admin)", err)
		}
	}
	if n.store, err = store.Open(n.opts.FS, n.storeOptions()); err != nil {
		return err
	}
	if n.store.Err() != nil { // its log is damaged: it is open for reading
		n.noWrite.Store(true)
	}
	if err := n.loadTables(); err != nil {
		return err
	}
	if err := n.clampOffsets(); err != nil {
		return err
	}
	if n.rpc, err = rpc.New(n.rpcOptions()); err != nil {
		return err
	}
	broker, err := netio.Listen(n.rpc, n.brokerNet())
	if err != nil {
		return listenError("broker", "listenPort (--listen)", err)
	}
	n.broker.Store(broker)
	catchUp(broker, n.store)
	if err := n.startNamesrv(); err != nil {
		return err
	}
	if len(n.opts.Config.Namesrvs) > 0 {
		n.registrar = register.Start(n.registerOptions())
	}
	n.topics.OnChange(n.announce)
	n.announce()
	n.schedule.Store(delay.New(n.delayOptions()))
	n.startBackground()
	n.page.Store(n.metrics())
	return nil
}

// listenError says which setting names the address that cannot be listened on.
func listenError(what, setting string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s: %w: stop the process that listens there, or change %s", what, err, setting)
	}
	return fmt.Errorf("%s: %w: change %s", what, err, setting)
}

// loadTables reads the side files, which the store's lock protects.
func (n *Node) loadTables() error {
	c := &n.opts.Config
	if err := vfs.MakeDir(n.opts.FS, path.Dir(c.SideFile("x"))); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	var err error
	if n.topics, err = topic.Load(n.opts.FS, c.SideFile("topics.json"), n.topicOptions()); err != nil {
		return err
	}
	if n.groups, err = group.Load(n.opts.FS, c.SideFile("subscriptionGroup.json"), n.groupOptions()); err != nil {
		return err
	}
	if n.offsets, err = offset.Load(n.opts.FS, c.SideFile("consumerOffset.json"), offset.Options{Now: n.clock.Now, Log: n.log}); err != nil {
		return err
	}
	if n.delayed, err = delay.Load(n.opts.FS, c.SideFile("delayOffset.json"), n.clock.Now, n.log); err != nil {
		return err
	}
	n.members = group.NewMembers(n.groups)
	return nil
}

// clampOffsets takes back consumer offsets beyond the end of their queue, durably before anybody is
// served: a consumer that went on from there would miss what is stored next.
func (n *Node) clampOffsets() error {
	clamped := n.offsets.Clamp(func(topicName string, id int32) (first, end int64, ok bool) {
		if q := n.store.Queue(topicName, id); q != nil {
			return q.Min(), q.Max(), true
		}
		return 0, 0, true
	})
	for _, c := range clamped {
		n.log.Warn("node: a consumer offset was beyond the end of its queue", "group", c.Group, "topic", c.Topic,
			"queue", c.Queue, "was", c.From, "is", c.To)
	}
	if len(clamped) == 0 {
		return nil
	}
	return n.offsets.Persist()
}

func (n *Node) startNamesrv() error {
	if n.opts.Config.NamesrvListen == "" {
		return nil
	}
	n.namesrv = namesrv.New(namesrv.Options{Now: n.clock.Now, Log: n.log})
	o := n.opts.Config.NamesrvNet()
	o.Log = n.log
	fit(&o, n.opts.MemoryBytes, fileLimit())
	var err error
	if n.namesrvNet, err = netio.Listen(n.namesrv, o); err != nil {
		return listenError("name server", "namesrvListenPort (--namesrv-listen)", err)
	}
	return nil
}

// startBackground starts what happens from time to time.
func (n *Node) startBackground() {
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	n.every(n.opts.Config.OffsetFlush, func(tick <-chan time.Time) { n.offsets.Run(ctx, tick) })
	if !n.noWrite.Load() {
		n.background.Go(func() { n.schedule.Load().Run(ctx) })
		n.every(n.opts.Config.DelayFlush, func(tick <-chan time.Time) {
			n.delayed.Run(ctx, tick, func() int64 { return n.store.Marks().Durable })
		})
	}
	n.every(n.opts.Config.RetainEvery, func(tick <-chan time.Time) { n.store.Retain(ctx, tick) })
	n.every(expireMembersEvery, func(tick <-chan time.Time) {
		for {
			select {
			case <-tick:
				n.rpc.ExpireMembers()
			case <-ctx.Done():
				return
			}
		}
	})
	if n.namesrv != nil {
		n.every(expireBrokersEvery, func(tick <-chan time.Time) { n.namesrv.Run(ctx, tick) })
	}
	n.background.Go(func() {
		select {
		case <-n.failed:
			n.withdraw()
		case <-ctx.Done():
		}
	})
}

func (n *Node) every(d time.Duration, run func(tick <-chan time.Time)) {
	tick, stop := n.clock.Tick(d)
	n.background.Go(func() {
		defer stop()
		run(tick)
	})
}

// Stop ends the node: producers are sent elsewhere, what is owed is finished, everything is flushed.
// Where ctx ends first, the rest is cut short and said in the error; what was acknowledged is safe
// in any case. Nothing of the node runs afterwards, unless a request hangs: it may still write, so the
// directory stays locked until the process ends or a second Stop finds the request served.
func (n *Node) Stop(ctx context.Context) error {
	n.ready.Store(false)
	n.rpc.RefuseSends()
	n.leave()
	if n.registrar != nil {
		n.registrar.Stop(ctx)
	}
	return n.shut(ctx)
}

// abandonWait is how long a failed start waits for the few who were served already.
const abandonWait = time.Second

// abandon ends what start had started.
func (n *Node) abandon() error {
	ctx, cancel := context.WithTimeout(context.Background(), abandonWait)
	defer cancel()
	if n.registrar != nil {
		n.registrar.Stop(ctx)
	}
	return n.shut(ctx)
}

// shut ends the layers from the network down to the store.
func (n *Node) shut(ctx context.Context) error {
	var errs []error
	if broker := n.broker.Load(); broker != nil {
		errs = append(errs, broker.Stop(ctx))
	}
	var hangs error
	if n.rpc != nil {
		hangs = n.rpc.Stop(ctx)
	}
	if n.namesrvNet != nil {
		errs = append(errs, n.namesrvNet.Stop(ctx))
	}
	if n.cancel != nil {
		n.cancel()
	}
	n.background.Wait()
	errs = append(errs, hangs)
	if n.store != nil && hangs == nil {
		// Whatever was delivered is durable after Drain. Where that fails, and Close tells why, some of it comes again.
		if n.store.Drain() == nil && n.delayed != nil {
			errs = append(errs, n.delayed.Persist(n.store.Marks().Durable))
		}
		errs = append(errs, n.store.Close())
	}
	if n.admin != nil {
		errs = append(errs, n.admin.Stop(ctx))
	}
	return errors.Join(errs...)
}

// Addrs tells where the broker listens, the main address first.
func (n *Node) Addrs() []netip.AddrPort { return n.broker.Load().Addrs() }

// NamesrvAddr tells where the embedded name server listens; false if it is off.
func (n *Node) NamesrvAddr() (netip.AddrPort, bool) {
	if n.namesrvNet == nil {
		return netip.AddrPort{}, false
	}
	return n.namesrvNet.Addrs()[0], true
}

// AdminAddr tells where the administration page is; empty if it is off.
func (n *Node) AdminAddr() string {
	if n.admin == nil {
		return ""
	}
	return n.admin.Addr().String()
}

// Stats tells what the request handlers have counted.
func (n *Node) Stats() rpc.Stats { return n.rpc.Stats() }

// Err tells why nothing can be stored any more, or nil.
func (n *Node) Err() error { return n.store.Err() }
