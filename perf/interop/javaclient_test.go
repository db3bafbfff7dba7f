package interop

import (
	"fmt"
	"sync"
	"testing"
)

// javaClient is org.apache.rocketmq:rocketmq-client, driven through one JVM for the whole run, or through a JVM of its
// own with flags.
type javaClient struct {
	own   *jvm
	label string // "java" if empty
}

// sharedJVM is the one that all stories use unless they say otherwise.
var sharedJVM = sync.OnceValues(func() (*jvm, error) {
	cp, err := driverClasspath()
	if err != nil {
		return nil, err
	}
	return startJVM(cp)
})

func (c *javaClient) name() string {
	if c.label != "" {
		return c.label
	}
	return "java"
}

func (c *javaClient) jvm(t *testing.T) *jvm {
	t.Helper()
	if c.own != nil {
		return c.own
	}
	_, err := driverClasspath()
	need(t, err)
	j, err := sharedJVM()
	if err == nil {
		err = j.p.running()
	}
	if err != nil {
		t.Fatal("the shared JVM:", err)
	}
	return j
}

// javaHandle is one client object in the driver.
type javaHandle struct {
	j     *jvm
	kind  string // producer, consumer, puller: the prefix of its commands
	id    string
	topic string
	once  *sync.Once
}

func (c *javaClient) open(t *testing.T, n *node, kind, topic string, args map[string]any) javaHandle {
	t.Helper()
	h := javaHandle{j: c.jvm(t), kind: kind, id: args["name"].(string), topic: topic, once: new(sync.Once)}
	args["namesrv"] = n.namesrvAddr()
	if err := h.j.call(kind+".start", args, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.stop)
	return h
}

func (h javaHandle) stop() {
	h.once.Do(func() {
		if h.j.p.running() == nil {
			h.j.call(h.kind+".stop", map[string]any{"name": h.id}, nil)
		}
	})
}

// createTopic uses the topic template as the key, as the client's own documentation does.
func (c *javaClient) createTopic(t *testing.T, n *node, topic string, queues int) {
	t.Helper()
	p := c.openProducer(t, n, false)
	err := p.j.call("producer.createTopic", map[string]any{
		"name": p.id, "key": "TBW102", "topic": topic, "queues": queues,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := c.puller(t, n, topic)
	eventually(t, patience, "the route of "+topic, func() error {
		found, err := r.queues()
		if err == nil && len(found) != queues {
			err = fmt.Errorf("%d queues, want %d", len(found), queues)
		}
		return err
	})
}

type javaProducer struct{ javaHandle }

func (c *javaClient) producer(t *testing.T, n *node) producer {
	t.Helper()
	return javaProducer{c.openProducer(t, n, false)}
}

// openProducer: vip makes it use the broker's second port, listenPort − 2.
func (c *javaClient) openProducer(t *testing.T, n *node, vip bool) javaHandle {
	t.Helper()
	return c.open(t, n, "producer", "", map[string]any{
		"name": unique(t, "p"), "group": unique(t, "pg"), "vip": vip, "timeoutMs": sendTimeout.Milliseconds(),
	})
}

func (p javaProducer) run(mode string, ms ...message) (ack, error) {
	args := map[string]any{"name": p.id, "mode": mode, "messages": ms}
	if ms[0].Queue != nil {
		args["queue"] = *ms[0].Queue
	}
	var a ack
	err := p.j.call("send", args, &a)
	return a, err
}

func (p javaProducer) send(m message) (ack, error)         { return p.run("sync", m) }
func (p javaProducer) sendAsync(m message) (ack, error)    { return p.run("async", m) }
func (p javaProducer) sendBatch(ms []message) (ack, error) { return p.run("batch", ms...) }
func (p javaProducer) sendOneway(m message) error {
	_, err := p.run("oneway", m)
	return err
}

type javaConsumer struct{ javaHandle }

func (c *javaClient) consume(t *testing.T, n *node, s subscription, handle func(got)) consumer {
	t.Helper()
	id := unique(t, "c")
	c.jvm(t).onMessage(id, handle)
	args := map[string]any{
		"name": id, "group": s.group, "topic": s.topic, "tags": "*", "broadcast": s.broadcast, "orderly": s.orderly,
		"from": "CONSUME_FROM_LAST_OFFSET", "failBelow": s.failBelow, "maxTries": s.maxTries,
	}
	if s.tags != "" {
		args["tags"] = s.tags
	}
	if s.sql != "" {
		args["sql"] = s.sql
	}
	if s.fromFirst {
		args["from"] = "CONSUME_FROM_FIRST_OFFSET"
	}
	return javaConsumer{c.open(t, n, "consumer", s.topic, args)}
}

func (c javaConsumer) queues() ([]int, error) {
	var ids []int
	err := c.j.call("consumer.queues", map[string]any{"name": c.id, "topic": c.topic}, &ids)
	return ids, err
}

type javaPuller struct{ javaHandle }

func (c *javaClient) puller(t *testing.T, n *node, topic string) puller {
	t.Helper()
	h := c.open(t, n, "puller", topic, map[string]any{"name": unique(t, "pull"), "group": unique(t, "pull")})
	return javaPuller{h}
}

func (p javaPuller) queues() ([]int, error) {
	var ids []int
	err := p.j.call("puller.queues", map[string]any{"name": p.id, "topic": p.topic}, &ids)
	return ids, err
}

func (p javaPuller) pull(queue int, offset int64) ([]got, int64, error) {
	var r struct {
		Messages []got `json:"messages"`
		Next     int64 `json:"next"`
	}
	err := p.j.call("puller.pull", map[string]any{
		"name": p.id, "topic": p.topic, "broker": brokerName, "queue": queue, "offset": offset, "count": pullBatch,
	}, &r)
	return r.Messages, r.Next, err
}
