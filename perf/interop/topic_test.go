package interop

import (
	"fmt"
	"testing"
)

// TestCreateTopic: a topic made by a library's administration has the queues that were asked for; making it again
// with more of them widens it and keeps what is stored.
func TestCreateTopic(t *testing.T) {
	eachClient(t, func(t *testing.T, c client) {
		n := sharedNode(t)
		topic := unique(t, "t")
		c.createTopic(t, n, topic, 3) // checks the route
		l := newLedger()
		sendAll(t, l, c.producer(t, n), topic, 60, 100)
		c.createTopic(t, n, topic, 5)
		sendAll(t, l, c.producer(t, n), topic, 100, 100)
		l.waitVisible(t, n, topic)
		stored := readAll(t, n, c, topic)
		if len(stored) != 5 {
			t.Errorf("%d queues, want 5", len(stored))
		}
		for id, gs := range stored {
			if len(gs) == 0 {
				t.Errorf("queue %d got nothing", id)
			}
		}
		l.checkReadBack(t, stored)
	})
}

// TestAutoCreate: a send to a topic that nobody made creates it with the queues that the client asks for by default,
// and consumers find it.
func TestAutoCreate(t *testing.T) {
	eachClient(t, func(t *testing.T, c client) {
		n := sharedNode(t)
		topic := unique(t, "auto")
		l := newLedger()
		sendAll(t, l, c.producer(t, n), topic, 40, 100)
		p := c.puller(t, n, topic)
		eventually(t, patience, "the route of "+topic, func() error {
			queues, err := p.queues()
			if err == nil && len(queues) != 4 {
				err = fmt.Errorf("%d queues, want the 4 of the libraries' default", len(queues))
			}
			return err
		})
		for _, reader := range clients {
			r := newLedger()
			reader.consume(t, n, subscription{group: unique(t, "g"), topic: topic, fromFirst: true}, r.handle)
			r.expect(l)
			eventually(t, patience, "all of them at a "+reader.name()+" consumer", r.allHandled)
			r.checkOnce(t)
		}
	})
}
