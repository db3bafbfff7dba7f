package interop

import (
	"fmt"
	"strings"
	"testing"
)

// TestStockNameServer: a ringmq node registers with a stock name server, again after that one was restarted, and takes
// itself out when it stops; clients find it there.
func TestStockNameServer(t *testing.T) {
	t.Parallel()
	if targetName == "stock" {
		t.Skip("a stock broker is always run with a stock name server")
	}
	_, err := stockClasspath()
	need(t, err)
	n := unstartedNode(t, nodeOptions{foreignNamesrv: true})
	namesrv, err := startStockNamesrv(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { namesrv.kill() })
	n.mustStart(t)

	topics := map[client]string{}
	for _, c := range clients {
		topics[c] = unique(t, "t")
		c.createTopic(t, n, topics[c], 3)
		l := newLedger()
		c.consume(t, n, subscription{group: unique(t, "g"), topic: topics[c], fromFirst: true}, l.handle)
		sendAll(t, l, c.producer(t, n), topics[c], 100, 100)
		eventually(t, patience, "all messages at a "+c.name()+" consumer", l.allHandled)
		l.checkOnce(t)
	}

	namesrv.kill() // it keeps nothing on disk: whatever it knows afterwards was registered again
	if namesrv, err = startStockNamesrv(n); err != nil {
		t.Fatal(err)
	}
	for c, topic := range topics {
		eventually(t, patience, "the route of "+topic, func() error { return n.routed(topic) })
		l := newLedger()
		sendAll(t, l, c.producer(t, n), topic, 100, 100)
		l.waitVisible(t, n, topic)
		l.checkReadBack(t, readAll(t, n, c, topic))
	}

	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	for _, topic := range topics {
		if err := n.routed(topic); err == nil {
			t.Errorf("%s is still routed to the node that has stopped", topic)
		}
	}
}

// routed is nil when the name server routes topic to this node.
func (n *node) routed(topic string) error {
	r, err := dialRaw(n.namesrvAddr())
	if err != nil {
		return err
	}
	defer r.close()
	a, err := r.call(codeGetRoute, fields{"topic": topic}, nil)
	if err != nil {
		return err
	}
	if a.Code != 0 || !strings.Contains(string(a.Body), n.brokerAddr()) {
		return fmt.Errorf("route of %s: code %d, %s", topic, a.Code, a.Remark)
	}
	return nil
}
