package interop

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// sample are messages whose every field is to be read back.
func sample(topic, mode string) []message {
	base := func(id string, bytes int) message {
		return message{Topic: topic, Body: bodyOf(topic+"."+mode+"."+id, bytes)}
	}
	plain := base("plain", 20)
	tagged := base("tagged", 100)
	tagged.Tags, tagged.Keys = "TagA", []string{"order-1", "order-2"}
	props := base("props", 1000)
	props.Props = map[string]string{"a": "1", "region": "eu west", "json": `{"k":["v",1]}`, "sym": "=&;:|,/\\\"'"}
	unicode := base("ünïcödé-漢字-🙂", 300)
	unicode.Tags, unicode.Keys = "täg", []string{"schlüssel", "鍵", "🔑"}
	unicode.Props = map[string]string{"größe": "fünf", "数": "五", "emoji": "🙂🚀"}
	flagged := base("flagged", 60)
	flagged.Flag = 12345
	large := base("large", 200<<10) // random bytes, over the limit from which the libraries compress
	zeros := base("zeros", 0)
	zeros.Body = append(zeros.Body, make([]byte, 50<<10)...) // shrinks to almost nothing
	return []message{plain, tagged, props, unicode, flagged, large, zeros}
}

// TestSendReadBack sends in every way that a library has, and reads every field back with both libraries.
func TestSendReadBack(t *testing.T) {
	eachClient(t, func(t *testing.T, c client) { sendReadBack(t, sharedNode(t), c) })
}

// TestSendBinaryHeaders is TestSendReadBack with headers in the protocol's binary form, which the Java client uses
// when told so.
func TestSendBinaryHeaders(t *testing.T) {
	t.Parallel()
	n := sharedNode(t)
	j := needJVM(t, "-Drocketmq.serialize.type=ROCKETMQ")
	sendReadBack(t, n, &javaClient{own: j, label: "java-binary"})
}

func sendReadBack(t *testing.T, n *node, c client) {
	const queues = 4
	topic := unique(t, "t")
	c.createTopic(t, n, topic, queues)
	p := c.producer(t, n)

	want := map[string]message{} // by body
	acks := map[string]ack{}     // by body; none of one-way messages
	single := func(mode string, send func(m message) (ack, error)) {
		for i, m := range sample(topic, mode) {
			m.Queue = new(int)
			*m.Queue = i % queues
			a, err := send(m)
			if err != nil {
				t.Fatalf("%s of message %d: %v", mode, i, err)
			}
			want[string(m.Body)] = m
			if mode == "oneway" {
				continue
			}
			if a.Status != "SEND_OK" || a.Queue != *m.Queue || a.MsgID == "" || a.OffsetMsgID == "" {
				t.Errorf("%s of message %d to queue %d: %+v", mode, i, *m.Queue, a)
			}
			acks[string(m.Body)] = a
		}
	}
	single("sync", p.send)
	single("async", p.sendAsync)
	single("oneway", func(m message) (ack, error) { return ack{}, p.sendOneway(m) })

	batch := sample(topic, "batch")
	first, err := p.sendBatch(batch)
	if err != nil || first.Status != "SEND_OK" {
		t.Fatalf("batch: %+v, %v", first, err)
	}
	for i, m := range batch {
		want[string(m.Body)] = m
		acks[string(m.Body)] = ack{Queue: first.Queue, Offset: first.Offset + int64(i)}
	}

	waitForCount(t, n, topic, queues, len(want))
	for _, reader := range clients {
		checkSample(t, readAll(t, n, reader, topic), want, acks, "read by "+reader.name())
	}
}

// waitForCount returns when all queues of topic together hold count messages: one-way sends are not answered.
func waitForCount(t *testing.T, n *node, topic string, queues, count int) {
	t.Helper()
	r := mustDial(t, n.brokerAddr())
	eventually(t, patience, "all messages of "+topic, func() error {
		total := int64(0)
		for q := range queues {
			end, err := r.maxOffset(topic, q)
			if err != nil {
				return err
			}
			total += end
		}
		if total != int64(count) {
			return fmt.Errorf("%d stored, sent were %d", total, count)
		}
		return nil
	})
}

func checkSample(t *testing.T, stored map[int][]got, want map[string]message, acks map[string]ack, how string) {
	t.Helper()
	seen := map[string]bool{}
	for queue, gs := range stored {
		for _, g := range gs {
			m, known := want[string(g.Body)]
			if !known || seen[string(g.Body)] {
				t.Errorf("%s: queue %d at %d: unknown or twice: %.60q", how, queue, g.Offset, g.Body)
				continue
			}
			seen[string(g.Body)] = true
			if a, ok := acks[string(g.Body)]; ok && (a.Queue != queue || a.Offset != g.Offset) {
				t.Errorf("%s: %.60q: acknowledged as queue %d at %d, found in queue %d at %d", how, g.Body, a.Queue, a.Offset, queue, g.Offset)
			}
			checkFields(t, g, m, how)
		}
	}
	if len(seen) != len(want) {
		t.Errorf("%s: %d messages, sent were %d", how, len(seen), len(want))
	}
}

// addedProps are the properties that the libraries add when they send or receive, and the last three that a broker
// adds when it stores.
var addedProps = map[string]bool{
	"UNIQ_KEY": true, "WAIT": true, "MIN_OFFSET": true, "MAX_OFFSET": true,
	"MSG_REGION": true, "TRACE_ON": true, "CLUSTER": true,
}

// checkFields compares all that the sender set, and finds properties that nobody set.
func checkFields(t *testing.T, g got, m message, how string) {
	t.Helper()
	props := map[string]string{}
	for k, v := range m.Props {
		props[k] = v
	}
	if m.Tags != "" {
		props["TAGS"] = m.Tags
	}
	if len(m.Keys) > 0 {
		props["KEYS"] = strings.Join(m.Keys, " ")
	}
	for k, v := range props {
		if g.Props[k] != v {
			t.Errorf("%s: %.60q: property %q is %q, want %q", how, g.Body, k, g.Props[k], v)
		}
	}
	for k, v := range g.Props {
		if _, sent := props[k]; !sent && !addedProps[k] {
			t.Errorf("%s: %.60q: property %q=%q, which nobody sent", how, g.Body, k, v)
		}
	}
	if g.Flag != m.Flag || g.Reconsumed != 0 || g.Topic != m.Topic {
		t.Errorf("%s: %.60q: topic %s flag %d reconsumed %d, want %s %d 0", how, g.Body, g.Topic, g.Flag, g.Reconsumed, m.Topic, m.Flag)
	}
}

// TestOversized: a message over the node's limit is refused with MESSAGE_ILLEGAL, one just below it is taken, and the
// connection goes on working.
func TestOversized(t *testing.T) {
	eachClient(t, func(t *testing.T, c client) {
		n := sharedNode(t)
		topic := unique(t, "t")
		c.createTopic(t, n, topic, 1)
		p := c.producer(t, n)
		random := func(bytes int) []byte { // does not shrink when compressed
			b := make([]byte, bytes)
			rand.NewChaCha8([32]byte{1}).Read(b)
			return b
		}
		_, err := p.send(message{Topic: topic, Body: random(5 << 20)})
		if code := codeOf(err); code != 13 {
			t.Errorf("5 MiB: %v; want code 13", err)
		}
		a, err := p.send(message{Topic: topic, Body: random(4<<20 - 64<<10)})
		if err != nil || a.Offset != 0 {
			t.Errorf("just below 4 MiB: %+v, %v", a, err)
		}
		a, err = p.send(message{Topic: topic, Body: []byte("small")})
		if err != nil || a.Offset != 1 {
			t.Errorf("after it: %+v, %v", a, err)
		}
	})
}

// codeOf is the response code in a library's error, -1 if it holds none.
func codeOf(err error) int {
	if err == nil {
		return 0
	}
	var j *javaError
	if errors.As(err, &j) {
		return j.code
	}
	var code int
	if _, scan := fmt.Sscanf(err.Error(), "CODE: %d", &code); scan == nil {
		return code
	}
	return -1
}

// TestSecondPort: old clients and clients with vipChannelEnabled use the broker's listener at listenPort − 2.
func TestSecondPort(t *testing.T) {
	t.Parallel()
	n := sharedNode(t)
	c := &javaClient{}
	topic := unique(t, "t")
	c.createTopic(t, n, topic, 1)
	p := javaProducer{c.openProducer(t, n, true)}
	a, err := p.send(message{Topic: topic, Body: []byte("by the second port")})
	if err != nil || a.Status != "SEND_OK" {
		t.Fatalf("%+v, %v", a, err)
	}
	r := mustDial(t, "127.0.0.1:"+strconv.Itoa(n.ports.broker-2))
	if end, err := r.maxOffset(topic, 0); err != nil || end != a.Offset+1 {
		t.Errorf("max offset asked there: %d, %v; want %d", end, err, a.Offset+1)
	}
}
