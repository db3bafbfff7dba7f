package interop

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
)

// group is a consumer group under test: its members hand what they get to one ledger, which a story may change.
type group struct {
	n      *node
	sub    subscription
	queues int
	ledger atomic.Pointer[ledger]

	// The story's goroutine only.
	members []*member
}

// member is one consumer and how much it handled.
type member struct {
	consumer
	library string
	handled atomic.Int64
}

// busy is nil once the member handled something.
func (m *member) busy() error {
	if m.handled.Load() == 0 {
		return errors.New("it handled nothing")
	}
	return nil
}

func newGroup(t *testing.T, n *node, by client, queues int) *group {
	t.Helper()
	// From the first offset: a group that begins at the last one may miss what is sent while it finds out which that is.
	g := &group{n: n, queues: queues, sub: subscription{group: unique(t, "g"), topic: unique(t, "t"), fromFirst: true}}
	by.createTopic(t, n, g.sub.topic, queues)
	g.ledger.Store(newLedger())
	return g
}

func (g *group) join(t *testing.T, c client) *member {
	t.Helper()
	m := &member{library: c.name()}
	m.consumer = c.consume(t, g.n, g.sub, func(x got) {
		m.handled.Add(1)
		g.ledger.Load().handle(x)
	})
	g.members = append(g.members, m)
	return m
}

func (g *group) leave(m *member) {
	m.stop()
	g.members = slices.DeleteFunc(g.members, func(x *member) bool { return x == m })
}

// settle returns when the members share the queues among them and a message to each queue came through: whoever
// held a queue before has let it go by then.
func (g *group) settle(t *testing.T, p producer) {
	t.Helper()
	eventually(t, patience, "an assignment of the queues", g.assigned)
	probe := newLedger()
	g.ledger.Store(probe)
	for q := range g.queues {
		id := fmt.Sprintf("probe.%s.%d.%d", g.sub.topic, len(g.members), q)
		a, err := p.send(message{Topic: g.sub.topic, Body: bodyOf(id, 50), Queue: &q})
		if err != nil {
			t.Fatal(err)
		}
		probe.ack(id, a)
	}
	eventually(t, patience, "a message in each queue", probe.allHandled)
	if err := g.assigned(); err != nil {
		t.Fatal("the assignment did not last: ", err)
	}
}

// assigned is nil when each queue has exactly one holder and each member holds at least one.
func (g *group) assigned() error {
	var all []int
	for i, m := range g.members {
		held, err := m.queues()
		if err != nil {
			return err
		}
		if len(held) == 0 {
			return fmt.Errorf("member %d (%s) holds no queue", i, m.library)
		}
		all = append(all, held...)
	}
	slices.Sort(all)
	for q := range g.queues {
		if len(all) != g.queues || all[q] != q {
			return fmt.Errorf("the %d members hold the queues %v of %d", len(g.members), all, g.queues)
		}
	}
	return nil
}

// exactlyOnce sends count messages to the settled group; each must be handled once, and every member must take part.
func (g *group) exactlyOnce(t *testing.T, p producer, count int) {
	t.Helper()
	l := newLedger()
	g.ledger.Store(l)
	for _, m := range g.members {
		m.handled.Store(0)
	}
	sendAll(t, l, p, g.sub.topic, count, 200)
	eventually(t, patience, fmt.Sprintf("%d messages at %d consumers", count, len(g.members)), l.allHandled)
	r := mustDial(t, g.n.brokerAddr())
	eventually(t, patience, "the group's commits", func() error { return r.allCommitted(g.sub.group, g.sub.topic, g.queues) })
	l.checkOnce(t)
	for i, m := range g.members {
		if err := m.busy(); err != nil {
			t.Errorf("member %d (%s): %v", i, m.library, err)
		}
	}
}

// TestGroup: of 10,000 messages sent after the assignment settled each is handled exactly once, by one consumer and
// then by three.
func TestGroup(t *testing.T) {
	eachClient(t, func(t *testing.T, c client) {
		n := sharedNode(t)
		g := newGroup(t, n, c, 8)
		p := c.producer(t, n)
		g.join(t, c)
		g.settle(t, p)
		g.exactlyOnce(t, p, 10_000)
		g.join(t, c)
		g.join(t, c)
		g.settle(t, p)
		g.exactlyOnce(t, p, 10_000)
	})
}

// TestMixedGroup: Java and Go consumers in one group share the queues.
func TestMixedGroup(t *testing.T) {
	t.Parallel()
	n := sharedNode(t)
	g := newGroup(t, n, clients[0], 8)
	p := clients[0].producer(t, n)
	for _, c := range clients {
		g.join(t, c)
		g.join(t, c)
	}
	g.settle(t, p)
	g.exactlyOnce(t, p, 4_000)
	// The rest take over the queues of those who leave, of either kind.
	g.leave(g.members[0])
	g.leave(g.members[len(g.members)-1])
	g.settle(t, p)
	g.exactlyOnce(t, p, 4_000)
}

// TestJoinsAndLeaves: while messages are being sent and consumers come and go, orderly and by a crash, none is lost.
func TestJoinsAndLeaves(t *testing.T) {
	eachClient(t, func(t *testing.T, c client) {
		n := sharedNode(t)
		g := newGroup(t, n, c, 8)
		l := g.ledger.Load()
		b := startLoad(t, l, c.producer(t, n), g.sub.topic)
		joinAndWork := func(c client) *member {
			m := g.join(t, c)
			eventually(t, patience, "work for the new "+m.library+" consumer", m.busy)
			b.more(t, 300)
			return m
		}
		first := joinAndWork(c)
		second := joinAndWork(c)
		g.leave(first)
		b.more(t, 300)
		third := joinAndWork(c)
		crashing := &javaClient{own: needJVM(t), label: "crashing java"}
		joinAndWork(crashing)
		crashing.own.p.kill()
		b.more(t, 300)
		g.leave(second)
		b.more(t, 300)
		g.leave(third)
		joinAndWork(c)
		b.finish()
		eventually(t, patience, "all messages", l.allHandled)
		l.checkFaults(t)
		if b.failed.Load() > 0 {
			t.Errorf("%d sends failed, the last with: %v", b.failed.Load(), b.lastErr.Load())
		}
	})
}

// TestMembers: the broker lists who is in a group while its connection lives, and no longer: after an orderly stop
// and after a crash alike.
func TestMembers(t *testing.T) {
	t.Parallel()
	n := sharedNode(t)
	g := newGroup(t, n, clients[0], 4)
	listed := func(want int) {
		t.Helper()
		r := mustDial(t, n.brokerAddr())
		eventually(t, patience, fmt.Sprintf("%d members", want), func() error {
			ids, err := r.members(g.sub.group)
			if err != nil && want > 0 {
				return err
			}
			if len(ids) != want {
				return fmt.Errorf("the broker lists %v", ids)
			}
			return nil
		})
	}
	crashing := &javaClient{own: needJVM(t), label: "crashing java"}
	for _, c := range clients {
		g.join(t, c)
	}
	g.join(t, crashing)
	listed(3)
	crashing.own.p.kill()
	listed(2)
	g.leave(g.members[0])
	listed(1)
	g.leave(g.members[0])
	listed(0) // an empty list or an error, which is what the stock broker answers
}
