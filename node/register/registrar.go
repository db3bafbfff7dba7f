// Package register keeps a broker registered with name servers elsewhere, stock ones too.
//
// One goroutine resolves the configured names again and again and keeps a worker for each address behind
// them; a name server that is down delays nobody but its own worker. What a worker tells its server is in
// server.go: as little as that server lacks.
package register

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"ringmq/netio/wire"
	"ringmq/node/topic"
)

// Topics is what is registered; *topic.Table fits.
type Topics interface {
	// Snapshot returns all topics and their version as of one moment. A topic that has changed is another
	// pointer.
	Snapshot() (map[string]*topic.Config, wire.DataVersion)
}

// Options sets up a Registrar. A zero field means "choose for me", as far as that makes sense.
type Options struct {
	Servers []string            // host:port; a name stands for all its addresses
	Broker  wire.BrokerIdentity // who registers
	HAAddr  string              // for slaves
	Perm    topic.Perm          // the broker's own; topics are registered with what both allow
	Topics  Topics

	Period    time.Duration // between two looks at names and at servers that have everything; default 30 s
	Timeout   time.Duration // of one request and of connecting; default 3 s
	Leave     time.Duration // of unregistering, while what comes after it at a stop waits; default 3 s
	Retry     time.Duration // after a failure; default 2 s: until then no client of that server finds the broker
	PartBytes int           // larger registrations are sent in parts; default 4 MiB

	Resolve func(ctx context.Context, host string) ([]string, error) // default: the system's resolver
	Now     func() time.Time
	Log     *slog.Logger
}

func (o *Options) fill() {
	if o.Period == 0 {
		o.Period = 30 * time.Second
	}
	if o.Timeout == 0 {
		o.Timeout = 3 * time.Second
	}
	if o.Leave == 0 {
		o.Leave = 3 * time.Second
	}
	if o.Retry == 0 {
		o.Retry = 2 * time.Second
	}
	if o.PartBytes == 0 {
		o.PartBytes = 4 << 20
	}
	if o.Resolve == nil {
		o.Resolve = net.DefaultResolver.LookupHost
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
}

// Registrar registers one broker. Any goroutine may use it.
type Registrar struct {
	// Set by Start, constant afterwards.
	opts     Options
	stopping context.Context // ends when Stop is called: nothing is registered any more
	stop     context.CancelFunc
	calls    context.Context // ends when Stop may wait no longer
	cut      context.CancelFunc
	done     chan struct{} // closed when all goroutines have ended

	registered atomic.Bool // stored by the workers, loaded by anyone

	// mu guards what follows. Leaf lock.
	mu      sync.Mutex
	perm    permission
	servers map[string]*server // by address
}

// permission is the broker's own, and how often it was changed. Name servers take topics over only with a new
// version, so each change of the permission counts as one more change of the topics.
type permission struct {
	perm    topic.Perm
	changes int64
	at      int64 // ms, of the last change
}

// Start begins to register and returns at once, whether a name server can be reached or not.
func Start(o Options) *Registrar {
	o.fill()
	r := &Registrar{opts: o, done: make(chan struct{}), perm: permission{perm: o.Perm}, servers: map[string]*server{}}
	r.stopping, r.stop = context.WithCancel(context.Background())
	r.calls, r.cut = context.WithCancel(context.Background())
	go r.run()
	return r
}

// Changed says that topics have changed: the name servers learn of it at once. Calls in quick succession
// become one registration. It does not wait; topic.Table.OnChange is for it.
func (r *Registrar) Changed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.servers {
		select {
		case s.kick <- struct{}{}:
		default: // one is waiting already, and will see the newest state
		}
	}
}

// Registered reports whether a name server has had the topics since Start: clients can find the broker.
func (r *Registrar) Registered() bool { return r.registered.Load() }

// SetPerm changes the broker's permission and registers it at once. It does not wait.
func (r *Registrar) SetPerm(p topic.Perm) {
	r.mu.Lock()
	if r.perm.perm != p {
		r.perm = permission{p, r.perm.changes + 1, r.opts.Now().UnixMilli()}
	}
	r.mu.Unlock()
	r.Changed()
}

// Stop unregisters from all name servers that can be reached before ctx ends, and ends all goroutines.
func (r *Registrar) Stop(ctx context.Context) {
	defer context.AfterFunc(ctx, r.cut)()
	r.stop()
	<-r.done
	r.cut()
}

// run keeps one worker for each address behind the configured names.
func (r *Registrar) run() {
	defer close(r.done)
	tick := time.NewTicker(r.opts.Period)
	defer tick.Stop()
	var workers sync.WaitGroup
	known := map[string][]string{} // addresses by name
	for {
		r.adjust(r.resolve(known), &workers)
		select {
		case <-tick.C:
			r.Changed() // also keeps the registration alive
		case <-r.stopping.Done():
			workers.Wait()
			return
		}
	}
}

// adjust starts a worker for each address that is new and ends those whose address is gone.
func (r *Registrar) adjust(addrs map[string]bool, workers *sync.WaitGroup) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for addr := range addrs {
		if r.servers[addr] == nil {
			ctx, leave := context.WithCancel(r.stopping)
			s := &server{r: r, addr: addr, leave: leave, kick: make(chan struct{}, 1)}
			r.servers[addr] = s
			workers.Go(func() { s.run(ctx) })
		}
	}
	for addr, s := range r.servers {
		if !addrs[addr] {
			s.leave()
			delete(r.servers, addr)
		}
	}
}

// resolve returns the addresses of all configured servers. A name that cannot be resolved now keeps the
// addresses that it had.
func (r *Registrar) resolve(known map[string][]string) map[string]bool {
	addrs := map[string]bool{}
	for _, configured := range r.opts.Servers {
		host, port, err := net.SplitHostPort(configured)
		if err != nil {
			continue // judged with the configuration
		}
		ctx, cancel := context.WithTimeout(r.stopping, r.opts.Timeout)
		found, err := r.opts.Resolve(ctx, host)
		cancel()
		if err == nil && len(found) > 0 {
			known[host] = found
		} else if r.stopping.Err() == nil {
			r.opts.Log.Warn("register: a name server's name does not resolve", "name", host, "error", err, "still", known[host])
		}
		for _, a := range known[host] {
			addrs[net.JoinHostPort(a, port)] = true
		}
	}
	return addrs
}

// current is what name servers shall know now.
func (r *Registrar) current() state {
	topics, version := r.opts.Topics.Snapshot()
	r.mu.Lock()
	defer r.mu.Unlock()
	version.Counter += r.perm.changes
	version.Timestamp = max(version.Timestamp, r.perm.at)
	return state{topics, version, r.perm.perm}
}
