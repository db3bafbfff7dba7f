package interop

import (
	"fmt"
	"testing"
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
	swap := func(to target) {
		if err := n.stop(); err != nil {
			t.Fatal(err)
		}
		n.target.cleanup(n)
		n.target = to
		n.mustStart(t)
	}
	own := n.target
	visit("ringmq")
	swap(stock)
	visit("stock")
	swap(own)
	visit("ringmq again")
	swap(stock)
	visit("stock again")
}
