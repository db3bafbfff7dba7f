package interop

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSwapWithStock: one data directory is served by ringmq, by the stock broker, and by both again, with orderly
// stops between. So each opens what the other wrote, and what the other has appended to its own. Each finds all
// messages, topics and committed offsets, and goes on where the other stopped.
func TestSwapWithStock(t *testing.T) {
	t.Parallel()
	if targetName == "stock" {
		t.Skip("needs ringmq as the target")
	}
	n := ownNode(t, nodeOptions{segmentBytes: 8 << 20})
	stock := &stockTarget{}
	need(t, stock.prepare())
	t.Cleanup(func() { stock.cleanup(n) })

	const queues = 3
	type track struct {
		client
		topic, group string
		l            *ledger
	}
	var tracks []track
	for _, c := range clients {
		tr := track{c, unique(t, "t"), unique(t, "g"), newLedger()}
		c.createTopic(t, n, tr.topic, queues)
		tracks = append(tracks, tr)
	}
	// visit sends to the node, consumes what was sent since the last visit, once each, and reads everything back.
	visit := func(who string) {
		fresh := make([]*ledger, len(tracks))
		consumers := make([]consumer, len(tracks))
		for i, tr := range tracks {
			fresh[i] = newLedger()
			consumers[i] = tr.consume(t, n, subscription{group: tr.group, topic: tr.topic, fromFirst: true}, fresh[i].handle)
			sendAll(t, fresh[i], tr.producer(t, n), tr.topic, 1000, 2000)
		}
		for i, tr := range tracks {
			eventually(t, patience, fmt.Sprintf("%s: all messages at the %s consumer", who, tr.name()), fresh[i].allHandled)
			r := mustDial(t, n.brokerAddr())
			eventually(t, patience, "the group's commits", func() error { return r.allCommitted(tr.group, tr.topic, queues) })
			consumers[i].stop()
			fresh[i].checkOnce(t)
			for id, a := range fresh[i].acked {
				tr.l.ack(id, a)
			}
			tr.l.checkReadBack(t, readAll(t, n, tr.client, tr.topic))
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	swap := func(to target) { n.swap(t, to) }
	own := n.target
	visit("ringmq")
	swap(stock)
	visit("stock")
	swap(own)
	visit("ringmq again")
	swap(stock)
	visit("stock again")
}

// swap stops the node and has another kind of broker serve its directory.
func (n *node) swap(t *testing.T, to target) {
	t.Helper()
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	n.target.cleanup(n)
	n.target = to
	n.mustStart(t)
}

// TestDelayedMessagesMove: messages wait in ringmq, which is stopped orderly; a stock broker opens the directory and
// delivers them, and the same the other way. What one has delivered the other does not deliver again, and none comes early.
func TestDelayedMessagesMove(t *testing.T) {
	t.Parallel()
	if targetName == "stock" {
		t.Skip("needs ringmq as the target")
	}
	const wait = 8 * time.Second
	n := ownNode(t, nodeOptions{segmentBytes: 8 << 20, delays: "1s 8s"})
	own, stock := n.target, &stockTarget{}
	need(t, stock.prepare())
	t.Cleanup(func() { stock.cleanup(n) })
	var c client = goClient{}
	topic := unique(t, "t")
	c.createTopic(t, n, topic, 2)
	sent := map[string]time.Time{}
	send := func(who string, level int) {
		p := c.producer(t, n)
		for i := range 20 {
			id := fmt.Sprintf("%s.%s.%d.%d", topic, who, level, i)
			sent[id] = time.Now()
			if _, err := p.send(message{Topic: topic, Body: bodyOf(id, 100), Tags: "tag", Delay: level, Props: map[string]string{"own": "kept"}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	// arrive waits at a consumer that reads the topic from its beginning for all that was sent so far.
	arrive := func() {
		tr := newTries()
		cons := c.consume(t, n, subscription{group: unique(t, "g"), topic: topic, fromFirst: true}, tr.handle)
		tr.wait(t, slices.Collect(maps.Keys(sent)), 1)
		cons.stop()
		tr.mu.Lock()
		defer tr.mu.Unlock()
		for id, given := range tr.given {
			if g := given[0]; len(given) != 1 || g.Props["own"] != "kept" || g.Props["TAGS"] != "tag" {
				t.Errorf("%s came %d times, properties %v", id, len(given), g.Props)
			}
			if waited := tr.at[id].Sub(sent[id]); strings.Contains(id, ".2.") && waited < wait {
				t.Errorf("%s came after %v", id, waited)
			}
		}
	}
	send("ringmq", 1)
	arrive()
	send("ringmq", 2)
	n.swap(t, stock)
	arrive()
	send("stock", 2)
	n.swap(t, own)
	arrive()
}
