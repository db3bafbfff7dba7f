package interop

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// tries notes each time that a message is given to a consumer.
type tries struct {
	mu    sync.Mutex
	given map[string][]got // by id
	at    map[string]time.Time
	bad   []error
}

func newTries() *tries { return &tries{given: map[string][]got{}, at: map[string]time.Time{}} }

func (tr *tries) handle(g got) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	id, err := idOf(g.Body)
	if err != nil {
		tr.bad = append(tr.bad, err)
		return
	}
	tr.given[id] = append(tr.given[id], g)
	if tr.at[id].IsZero() {
		tr.at[id] = time.Now()
	}
}

// wait waits until each of the ids was given so often.
func (tr *tries) wait(t *testing.T, ids []string, often int) {
	t.Helper()
	eventually(t, patience, fmt.Sprintf("%d tries of each of %d messages", often, len(ids)), func() error {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		for _, id := range ids {
			if n := len(tr.given[id]); n < often {
				return fmt.Errorf("%s was tried %d times", id, n)
			}
		}
		return nil
	})
}

// check holds the tries of a message to their numbers, and to the first topic and place, which stay known.
func (tr *tries) check(t *testing.T, id, topic string, first ack, often int) {
	t.Helper()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, err := range tr.bad {
		t.Error(err)
	}
	var numbers []int
	for _, g := range tr.given[id] {
		numbers = append(numbers, g.Reconsumed)
		if g.Topic != topic {
			t.Errorf("%s is given as of topic %s, want %s", id, g.Topic, topic)
		}
		if g.Reconsumed > 0 && (g.Props["ORIGIN_MESSAGE_ID"] != first.OffsetMsgID || g.Props["own"] != "kept") {
			t.Errorf("%s: try %d has properties %v, want the first id %s", id, g.Reconsumed, g.Props, first.OffsetMsgID)
		}
	}
	var want []int
	for i := range often {
		want = append(want, i)
	}
	if !slices.Equal(numbers, want) {
		t.Errorf("%s: tries %v, want %v", id, numbers, want)
	}
}

// sendFailing sends some messages and returns their ids and acks.
func sendFailing(t *testing.T, c client, n *node, topic string) (ids []string, acks map[string]ack) {
	t.Helper()
	p := c.producer(t, n)
	acks = map[string]ack{}
	for i := range 5 {
		id := fmt.Sprintf("%s.%d", topic, i)
		a, err := p.send(message{Topic: topic, Body: bodyOf(id, 100), Tags: "tag", Props: map[string]string{"own": "kept"}})
		if err != nil {
			t.Fatal(err)
		}
		ids, acks[id] = append(ids, id), a
	}
	return ids, acks
}

// TestRetry: a handler fails three times and then succeeds. The message comes again each time, and no more.
func TestRetry(t *testing.T) {
	eachClient(t, func(t *testing.T, c client) {
		n := ownNode(t, nodeOptions{delays: "1s 1s 1s 1s 2s"})
		topic := unique(t, "t")
		c.createTopic(t, n, topic, 2)
		tr := newTries()
		c.consume(t, n, subscription{group: unique(t, "g"), topic: topic, fromFirst: true, failBelow: 3}, tr.handle)
		ids, acks := sendFailing(t, c, n, topic)
		tr.wait(t, ids, 4)
		for _, id := range ids {
			tr.check(t, id, topic, acks[id], 4)
		}
	})
}

// TestDeadLetters: a handler always fails. After as many tries as the consumer allows the messages are in the group's dead
// letter topic, with all that they were sent with.
func TestDeadLetters(t *testing.T) {
	eachClient(t, func(t *testing.T, c client) {
		n := ownNode(t, nodeOptions{delays: "1s 1s 1s 1s 2s"})
		topic, group := unique(t, "t"), unique(t, "g")
		c.createTopic(t, n, topic, 2)
		tr := newTries()
		c.consume(t, n, subscription{group: group, topic: topic, fromFirst: true, failBelow: 100, maxTries: 2}, tr.handle)
		ids, acks := sendFailing(t, c, n, topic)
		tr.wait(t, ids, 3)
		dlq := "%DLQ%" + group
		dead := map[string]got{}
		eventually(t, patience, "the route of "+dlq, func() error { return n.routed(dlq) })
		r := c.puller(t, n, dlq)
		for next := int64(0); len(dead) < len(ids); {
			eventually(t, patience, fmt.Sprintf("dead letters from %d on", next), func() error {
				found, after, err := r.pull(0, next)
				if err == nil && len(found) == 0 {
					err = fmt.Errorf("%d of %d are there", len(dead), len(ids))
				}
				for _, g := range found {
					id, err := idOf(g.Body)
					if err != nil {
						t.Error(err)
					}
					dead[id] = g
				}
				if err == nil {
					next = after
				}
				return err
			})
		}
		for _, id := range ids {
			tr.check(t, id, topic, acks[id], 3)
			g := dead[id]
			if g.Reconsumed != 3 || g.Props["RETRY_TOPIC"] != topic || g.Props["ORIGIN_MESSAGE_ID"] != acks[id].OffsetMsgID ||
				g.Props["own"] != "kept" || g.Props["TAGS"] != "tag" {
				t.Errorf("dead letter %s: %d tries, properties %v", id, g.Reconsumed, g.Props)
			}
		}
	})
}

// TestDelayLevels: messages of levels 1 to 3 come after 1, 5 and 10 s, never before, and once.
func TestDelayLevels(t *testing.T) {
	eachClient(t, func(t *testing.T, c client) {
		n := sharedNode(t)
		topic := unique(t, "t")
		c.createTopic(t, n, topic, 2)
		tr := newTries()
		c.consume(t, n, subscription{group: unique(t, "g"), topic: topic, fromFirst: true}, tr.handle)
		p := c.producer(t, n)
		sent := map[string]time.Time{}
		var ids []string
		levels := []time.Duration{time.Second, 5 * time.Second, 10 * time.Second}
		for i := range levels {
			id := fmt.Sprintf("%s.%d", topic, i+1)
			ids, sent[id] = append(ids, id), time.Now()
			if _, err := p.send(message{Topic: topic, Body: bodyOf(id, 100), Delay: i + 1}); err != nil {
				t.Fatal(err)
			}
		}
		tr.wait(t, ids, 1)
		tr.mu.Lock()
		defer tr.mu.Unlock()
		for i, id := range ids {
			waited := tr.at[id].Sub(sent[id])
			t.Logf("level %d: %v", i+1, waited)
			if waited < levels[i] || len(tr.given[id]) != 1 {
				t.Errorf("level %d came after %v, %d times", i+1, waited, len(tr.given[id]))
			}
		}
	})
}
