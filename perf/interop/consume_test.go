package interop

import (
	"fmt"
	"testing"
)

// TestConsumeFrom: a topic's first messages find a group that came before them; a new group on a topic whose first
// message is still there reads from the beginning, whichever place its consumer asks to begin at.
func TestConsumeFrom(t *testing.T) {
	eachClient(t, func(t *testing.T, c client) {
		n := sharedNode(t)
		topic := unique(t, "t")
		c.createTopic(t, n, topic, 2)
		early := newLedger()
		c.consume(t, n, subscription{group: unique(t, "early"), topic: topic, fromFirst: true}, early.handle)
		sendAll(t, early, c.producer(t, n), topic, 50, 100)
		eventually(t, patience, "the group that came first", early.allHandled)
		for _, fromFirst := range []bool{true, false} {
			late := newLedger()
			late.expect(early)
			c.consume(t, n, subscription{group: unique(t, "late"), topic: topic, fromFirst: fromFirst}, late.handle)
			eventually(t, patience, fmt.Sprintf("a late group (fromFirst=%v)", fromFirst), late.allHandled)
			late.checkOnce(t)
		}
		early.checkOnce(t)
	})
}

// TestTagFilter: consumers get the tags that they subscribed to and no others.
func TestTagFilter(t *testing.T) {
	eachClient(t, func(t *testing.T, c client) {
		n := sharedNode(t)
		topic := unique(t, "t")
		c.createTopic(t, n, topic, 2)
		p := c.producer(t, n)
		tags := []string{"apple", "pear", "plum", ""}
		wants := map[string][]string{"apple": {"apple"}, "pear || plum": {"pear", "plum"}, "": tags}
		ledgers := map[string]*ledger{}
		for expression := range wants {
			l := newLedger()
			ledgers[expression] = l
			c.consume(t, n, subscription{group: unique(t, "g"), topic: topic, tags: expression, fromFirst: true}, l.handle)
		}
		for i := range 200 {
			tag := tags[i%len(tags)]
			id := fmt.Sprintf("%s.%s.%d", topic, tag, i)
			a, err := p.send(message{Topic: topic, Body: bodyOf(id, 50), Tags: tag})
			if err != nil {
				t.Fatal(err)
			}
			for expression, wanted := range wants {
				for _, w := range wanted {
					if w == tag {
						ledgers[expression].ack(id, a)
					}
				}
			}
		}
		for expression, l := range ledgers {
			eventually(t, patience, fmt.Sprintf("tags %q", expression), l.allHandled)
			l.checkOnce(t)
		}
	})
}

// TestSQLFilter: consumers get the messages whose properties match their expression and no others, those that came before
// them and those that come while they wait.
func TestSQLFilter(t *testing.T) {
	eachClient(t, func(t *testing.T, c client) {
		n := sharedNode(t)
		topic := unique(t, "t")
		c.createTopic(t, n, topic, 2)
		p := c.producer(t, n)
		wants := map[string]func(price int, color string) bool{
			"price > 100 AND color IN ('red', 'blue')": func(price int, color string) bool { return price > 100 && color != "" },
			"color IS NULL OR price BETWEEN 0 AND 40":  func(price int, color string) bool { return color == "" || price <= 40 },
			"color STARTSWITH 'bl'":                    func(_ int, color string) bool { return color == "blue" },
		}
		ledgers := map[string]*ledger{}
		listen := func() {
			for expression, l := range ledgers {
				c.consume(t, n, subscription{group: unique(t, "g"), topic: topic, sql: expression, fromFirst: true}, l.handle)
			}
		}
		for expression := range wants {
			ledgers[expression] = newLedger()
		}
		for i := range 200 {
			if i == 100 {
				listen()
			}
			price, color := i, []string{"red", "blue", ""}[i%3]
			m := message{Topic: topic, Body: bodyOf(fmt.Sprintf("%s.%d", topic, i), 50), Props: map[string]string{"price": fmt.Sprint(price)}}
			if color != "" {
				m.Props["color"] = color
			}
			a, err := p.send(m)
			if err != nil {
				t.Fatal(err)
			}
			for expression, match := range wants {
				if match(price, color) {
					ledgers[expression].ack(fmt.Sprintf("%s.%d", topic, i), a)
				}
			}
		}
		for expression, l := range ledgers {
			eventually(t, patience, expression, l.allHandled)
			l.checkOnce(t)
		}
	})
}

// TestBroadcast: each consumer of a broadcast group gets every message.
func TestBroadcast(t *testing.T) {
	eachClient(t, func(t *testing.T, c client) {
		n := sharedNode(t)
		topic, group := unique(t, "t"), unique(t, "g")
		c.createTopic(t, n, topic, 4)
		sent := newLedger()
		seen := []*ledger{newLedger(), newLedger(), newLedger()}
		for _, l := range seen {
			c.consume(t, n, subscription{group: group, topic: topic, broadcast: true, fromFirst: true}, l.handle)
		}
		sendAll(t, sent, c.producer(t, n), topic, 500, 100)
		for i, l := range seen {
			l.expect(sent)
			eventually(t, patience, fmt.Sprintf("consumer %d", i), l.allHandled)
			l.checkOnce(t)
		}
	})
}

// TestResume: a consumer that is closed and started again goes on where it was.
func TestResume(t *testing.T) {
	eachClient(t, func(t *testing.T, c client) {
		resume(t, sharedNode(t), c, func() {})
	})
}

// resume closes a consumer, lets between happen, and starts another one of the same group.
func resume(t *testing.T, n *node, c client, between func()) {
	const queues = 4
	topic, group := unique(t, "t"), unique(t, "g")
	c.createTopic(t, n, topic, queues)
	before := newLedger()
	first := c.consume(t, n, subscription{group: group, topic: topic, fromFirst: true}, before.handle)
	sendAll(t, before, c.producer(t, n), topic, 1000, 100)
	eventually(t, patience, "the first consumer", before.allHandled)
	// A library commits every few seconds; closing it before the last commit would make it read twice.
	r := mustDial(t, n.brokerAddr())
	eventually(t, patience, "the group's commits", func() error { return r.allCommitted(group, topic, queues) })
	first.stop()
	between()

	after := newLedger()
	sendAll(t, after, c.producer(t, n), topic, 1000, 100)
	c.consume(t, n, subscription{group: group, topic: topic}, after.handle)
	eventually(t, patience, "the second consumer", after.allHandled)
	after.checkOnce(t)
	before.checkOnce(t)
}
