// Package lock knows which client of a consumer group may handle which queue right now: the locks that
// orderly consumers ask for (LOCK_BATCH_MQ, 41) and give back (42).
//
//	group --> queue --> lock: client id, when it was last asked for
//	client id    --> its locks, and how many connections it was heard on
//	connection   --> the client ids that were heard on it
//
// A lock ends when its holder gives it back, leaves the group, is silent for Live, or has no connection any
// more, whichever comes first. It lives in memory alone: after a restart whoever asks first has it, as on a
// stock broker.
package lock

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"ringmq/netio/wire"
)

// ErrFull means that the table has no room for another lock. What the client already holds stays.
var ErrFull = errors.New("lock: no room for more queue locks")

// Conn is one connection of a client. Its dynamic type must be comparable: the value is the identity.
type Conn any

// Options says how a Table works; the zero value of a field means "choose for me".
type Options struct {
	Live     time.Duration // how long a lock lives after it was last asked for; default 60 s (stock broker 5.5.0)
	MaxBytes int64         // memory for all locks; default 64 MiB, more than 100,000 locks
	Now      func() time.Time
}

// Fill sets defaults.
func (o *Options) Fill() {
	if o.Live == 0 {
		o.Live = 60 * time.Second
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 64 << 20
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Table holds the locks of all groups. Any goroutine may use it.
type Table struct {
	opts Options // constant

	// mu guards what follows. Leaf lock: map work only.
	mu      sync.Mutex
	groups  map[string]*group // with a lock at least
	count   int               // locks of all groups
	clients map[string]*client
	conns   map[Conn]map[string]*client // who was heard there, by client id
	bytes   int64                       // about what the maps take
}

// place is what is locked. Queues of the same number under another broker name are others, as on a stock
// broker.
type place struct {
	group string
	queue wire.MessageQueue
}

// group is the locks of one consumer group.
type group struct {
	locks map[wire.MessageQueue]*held
}

// held is one lock.
type held struct {
	by    *client
	asked time.Time
}

// client is one client id with at least one open connection.
type client struct {
	id     string
	conns  int
	places map[place]struct{}
}

// New returns an empty Table.
func New(o Options) *Table {
	o.Fill()
	return &Table{opts: o, groups: map[string]*group{}, clients: map[string]*client{}, conns: map[Conn]map[string]*client{}}
}

// What the maps take for one entry, beside the texts.
const (
	lockBytes   = 384
	clientBytes = 384
)

func (p *place) bytes() int64 {
	return lockBytes + int64(len(p.group)+len(p.queue.BrokerName)+len(p.queue.Topic))
}

// maxClients bounds the client ids of one connection. Stock clients have one; a proxy has one for each of its
// clients.
const maxClients = 4096

// Heard notes that a client is there, by a connection: its locks last as long as one of its connections. It
// is called for each heartbeat; what finds no room is not noted.
func (t *Table) Heard(conn Conn, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = t.heardLocked(conn, id) // without room the client is noted with its first lock, or refused then
}

func (t *Table) heardLocked(conn Conn, id string) (*client, error) {
	here := t.conns[conn]
	if c := here[id]; c != nil {
		return c, nil
	}
	bytes := clientBytes + int64(len(id))
	if len(here) >= maxClients || t.bytes+bytes > t.opts.MaxBytes {
		return nil, fmt.Errorf("%w: %d clients are known by this connection, %d bytes are used of %d", ErrFull, len(here), t.bytes, t.opts.MaxBytes)
	}
	t.bytes += bytes
	c := t.clients[id]
	if c == nil {
		c = &client{id: id, places: map[place]struct{}{}}
		t.clients[id] = c
	}
	c.conns++
	if here == nil {
		here = map[string]*client{}
		t.conns[conn] = here
	}
	here[id] = c
	return c, nil
}

// Lock gives a client the locks of the queues that nobody else holds, and renews those that it has. It
// returns the queues that the client holds now, in the order of the list. Whether they exist is not asked:
// the stock broker 5.5.0 locks any name. ErrFull may come after some were locked; asking again does no harm.
func (t *Table) Lock(conn Conn, id, group string, queues []wire.MessageQueue) (granted []wire.MessageQueue, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, err := t.heardLocked(conn, id)
	if err != nil {
		return nil, err
	}
	now := t.opts.Now()
	granted = make([]wire.MessageQueue, 0, len(queues))
	for _, q := range queues {
		ok, err := t.lockLocked(c, place{group, q}, now)
		if err != nil {
			return nil, err
		}
		if ok {
			granted = append(granted, q)
		}
	}
	return granted, nil
}

// lockLocked tells whether c holds the place afterwards.
func (t *Table) lockLocked(c *client, p place, now time.Time) (bool, error) {
	g := t.groups[p.group]
	var h *held
	if g != nil {
		h = g.locks[p.queue]
	}
	if h == nil {
		if t.bytes+p.bytes() > t.opts.MaxBytes {
			return false, fmt.Errorf("%w: %d locks use %d bytes of %d", ErrFull, t.count, t.bytes, t.opts.MaxBytes)
		}
		t.bytes += p.bytes()
		t.count++
		h = &held{by: c}
		if g == nil {
			g = &group{locks: map[wire.MessageQueue]*held{}}
			t.groups[p.group] = g
		}
		g.locks[p.queue] = h
		c.places[p] = struct{}{}
	}
	if h.by != c {
		if now.Sub(h.asked) <= t.opts.Live {
			return false, nil
		}
		delete(h.by.places, p)
		h.by = c
		c.places[p] = struct{}{}
	}
	h.asked = now
	return true, nil
}

// Unlock gives back what the client holds of the queues; others' locks stay.
func (t *Table) Unlock(id, group string, queues []wire.MessageQueue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.clients[id]
	if c == nil {
		return
	}
	for _, q := range queues {
		t.releaseLocked(c, place{group, q})
	}
}

// Leave gives back all that the client holds in a group.
func (t *Table) Leave(id, group string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.clients[id]
	if c == nil {
		return
	}
	for p := range c.places {
		if p.group == group {
			t.releaseLocked(c, p)
		}
	}
}

func (t *Table) releaseLocked(c *client, p place) {
	if _, ok := c.places[p]; !ok {
		return
	}
	delete(c.places, p)
	g := t.groups[p.group]
	delete(g.locks, p.queue)
	if len(g.locks) == 0 {
		delete(t.groups, p.group)
	}
	t.count--
	t.bytes -= p.bytes()
}

// Gone takes a closed connection out. Clients that have no other one lose their locks.
func (t *Table) Gone(conn Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, c := range t.conns[conn] {
		t.bytes -= clientBytes + int64(len(id))
		if c.conns--; c.conns > 0 {
			continue
		}
		for p := range c.places {
			t.releaseLocked(c, p)
		}
		delete(t.clients, id)
	}
	delete(t.conns, conn)
}

// Orderly tells whether a group consumes in order: some client of it holds a lock whose time is not over. Locks
// whose time is over are taken away as they are met, so that none is looked at twice.
func (t *Table) Orderly(group string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.groups[group]
	if g == nil {
		return false
	}
	now := t.opts.Now()
	for q, h := range g.locks {
		if now.Sub(h.asked) <= t.opts.Live {
			return true
		}
		t.releaseLocked(h.by, place{group, q})
	}
	return false
}

// Len returns how many locks there are, those among them whose time is over but that nobody else has asked
// for.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}
