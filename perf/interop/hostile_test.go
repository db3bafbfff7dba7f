package interop

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// witness is the ordinary business on a node while somebody misbehaves: a Go producer that may not see one failure,
// and a Go consumer that must get everything.
type witness struct {
	*group
	*load
}

func newWitness(t *testing.T, n *node) *witness {
	t.Helper()
	c := goClient{}
	g := newGroup(t, n, c, 4)
	g.join(t, c)
	return &witness{g, startLoad(t, g.ledger.Load(), c.producer(t, n), g.sub.topic)}
}

// unharmed returns when business went on for a while without one failure.
func (w *witness) unharmed(t *testing.T) {
	t.Helper()
	w.more(t, 100)
	if w.failed.Load() > 0 {
		t.Fatalf("others noticed: %d sends failed, the last with: %v", w.failed.Load(), w.lastErr.Load())
	}
	if err := w.n.broker.running(); err != nil {
		t.Fatal(err)
	}
}

// end checks that the consumer got all of it.
func (w *witness) end(t *testing.T) {
	t.Helper()
	w.unharmed(t)
	w.finish()
	eventually(t, patience, "all messages of the others", w.l.allHandled)
	w.l.checkFaults(t)
}

// frameOf puts lengths of the sender's choice before rest.
func frameOf(total, head uint32, rest []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, total)
	return append(binary.BigEndian.AppendUint32(b, head), rest...)
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{'h'}).Read(b)
	return b
}

// unreadable are beginnings of a connection that are no protocol: the node must close it.
var unreadable = []struct {
	name  string
	bytes []byte
	stock bool // whether the stock broker closes too
}{
	{"garbage", append([]byte{0xfe}, randomBytes(1<<20)...), true},
	{"http", []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), true},
	{"tls", append([]byte{0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03}, randomBytes(506)...), false},
	{"length 2 GiB", frameOf(1<<31-1, 20, nil), false},
	{"length over the limit", frameOf(16<<20+1, 20, nil), false},
	{"negative length", frameOf(1<<31, 20, nil), false},
	{"length 0", frameOf(0, 0, nil), false},
	{"length 3", frameOf(3, 0, nil), false},
	{"header longer than its frame", frameOf(40, 400, make([]byte, 36)), true},
	{"header length 16 MiB", frameOf(40, 0xffffff, make([]byte, 36)), true},
	{"header is no JSON", frameOf(40, 36, bytes.Repeat([]byte{'{'}, 36)), true},
	{"header of an unknown encoding", frameOf(40, 7<<24|36, make([]byte, 36)), true},
	{"binary header of zeros", frameOf(24, 1<<24|20, make([]byte, 20)), false},
	{"binary header that lies", frameOf(40, 1<<24|36, bytes.Repeat([]byte{0xff}, 36)), true},
}

// TestUnreadable sends what is no protocol to each of the node's ports; the connection is closed and nobody else
// notices.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	n := ownNode(t, nodeOptions{})
	w := newWitness(t, n)
	for _, u := range unreadable {
		if targetName == "stock" && !u.stock {
			continue
		}
		for _, port := range []int{n.ports.broker, n.ports.broker - 2, n.ports.namesrv} {
			c := mustDial(t, "127.0.0.1:"+strconv.Itoa(port))
			c.Write(u.bytes) // may fail when the node closes early
			if err := closedByPeer(c); err != nil {
				t.Errorf("%s to port %d (broker is %d): %v", u.name, port, n.ports.broker, err)
			}
		}
		w.unharmed(t)
	}
	w.end(t)
}

// closedByPeer is nil once the other side closed the connection.
func closedByPeer(c net.Conn) error {
	c.SetDeadline(time.Now().Add(60 * time.Second))
	_, err := io.Copy(io.Discard, c)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return errors.New("the node keeps the connection open")
	}
	return nil
}

// TestSilentStart: connections that begin with part of a frame and then say nothing do not disturb others, however
// many; a ringmq node ends them after a while.
func TestSilentStart(t *testing.T) {
	t.Parallel()
	n := ownNode(t, nodeOptions{})
	w := newWitness(t, n)
	whole := frame(header{Code: codeSend, Opaque: 1, ExtFields: sendFields("nobody")}, []byte("body"))
	var all []*raw
	for i := range 300 {
		c := mustDial(t, n.brokerAddr())
		if _, err := c.Write(whole[:i%(len(whole)-1)]); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	w.unharmed(t)
	for i, c := range all {
		if i%3 == 0 {
			c.close() // in the middle of a frame
		} else if targetName == "ringmq" {
			if err := closedByPeer(c); err != nil {
				t.Fatalf("connection %d, %d bytes of a frame: %v", i, i%(len(whole)-1), err)
			}
		}
	}
	w.end(t)
}

// TestBadRequests: frames that can be read, but ask for nonsense, get an error code with a remark, and the connection
// goes on working.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	n := ownNode(t, nodeOptions{})
	w := newWitness(t, n)
	topic := w.sub.topic
	without := func(f fields, key string) fields { delete(f, key); return f }
	with := func(f fields, key, value string) fields { f[key] = value; return f }
	pull := func() fields {
		return fields{
			"consumerGroup": "raw", "topic": topic, "queueId": "0", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4",
			"commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0", "expressionType": "TAG",
		}
	}
	body := []byte("body")
	for _, bad := range []struct {
		name   string
		code   int
		fields fields
		body   []byte
		want   int // 0 for any error
	}{
		{"unknown code", codeUnknown, nil, nil, codeNotSupported},
		{"negative code", -1, nil, nil, 0},
		{"send without fields", codeSend, nil, body, 0},
		{"send without topic", codeSend, without(sendFields(topic), "topic"), body, 0},
		{"send without queue", codeSend, without(sendFields(topic), "queueId"), body, 0},
		{"send to queue x", codeSend, with(sendFields(topic), "queueId", "x"), body, 0},
		{"send to queue 2^40", codeSend, with(sendFields(topic), "queueId", "1099511627776"), body, 0},
		{"send to queue 1000", codeSend, with(sendFields(topic), "queueId", "1000"), body, 0},
		{"send to a bad topic name", codeSend, with(sendFields(topic), "topic", "../../etc/passwd"), body, 0},
		{"send to a topic of 300 characters", codeSend, with(sendFields(topic), "topic", strings.Repeat("t", 300)), body, 0},
		{"send without body", codeSend, sendFields(topic), nil, 0},
		{"send with long properties", codeSend, with(sendFields(topic), "properties", "k\x01"+strings.Repeat("v", 40_000)+"\x02"), body, 0},
		{"pull without fields", codePull, nil, nil, 0},
		{"pull from a missing topic", codePull, with(pull(), "topic", "no-such-topic"), nil, 17},
		{"pull from queue 1000", codePull, with(pull(), "queueId", "1000"), nil, 0},
		{"pull from offset x", codePull, with(pull(), "queueOffset", "x"), nil, 0},
		{"heartbeat that is no JSON", codeHeartbeat, nil, []byte("}{"), 0},
		{"create topic with a bad name", codeCreateTopic, fields{
			"topic": "a/../b", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
			"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
		}, nil, 0},
	} {
		c := mustDial(t, n.brokerAddr())
		a, err := c.call(bad.code, bad.fields, bad.body)
		switch {
		case err != nil:
			t.Errorf("%s: %v", bad.name, err)
			continue
		case a.Code == 0 || bad.want != 0 && a.Code != bad.want:
			t.Errorf("%s: code %d %q, want %d (0: any error)", bad.name, a.Code, a.Remark, bad.want)
		case a.Remark == "":
			t.Errorf("%s: code %d without a remark", bad.name, a.Code)
		}
		// One-way, the same gets no answer: the next thing on the wire is the answer to the next request.
		oneway := header{Code: bad.code, Opaque: 77, Flag: 2, ExtFields: bad.fields}
		if _, err := c.Write(frame(oneway, bad.body)); err != nil {
			t.Errorf("%s, one-way: %v", bad.name, err)
			continue
		}
		if a, err = c.call(codeSend, sendFields(topic), []byte(bad.name+"\n")); err != nil || a.Code != 0 {
			t.Errorf("%s: a good send after it: code %d %q, %v", bad.name, a.Code, a.Remark, err)
		}
	}
	w.end(t)
}

// TestFlood: one connection sends as fast as it can and reads no answer, then one asks for far more than it reads;
// others go on as before.
func TestFlood(t *testing.T) {
	t.Parallel()
	if targetName == "stock" {
		t.Skip("a stock broker with a heap of 512 MiB runs out of memory here")
	}
	n := ownNode(t, nodeOptions{})
	topic := unique(t, "flood")
	goClient{}.createTopic(t, n, topic, 1)
	w := newWitness(t, n)

	send := frame(header{Code: codeSend, Opaque: 1, ExtFields: sendFields(topic)}, randomBytes(64<<10))
	w.during(t, func() { flood(t, n, send, 256<<20) })

	pull := frame(header{Code: codePull, Opaque: 1, ExtFields: fields{
		"consumerGroup": "raw", "topic": topic, "queueId": "0", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4",
		"commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0", "expressionType": "TAG",
	}}, nil)
	w.during(t, func() { flood(t, n, pull, 4<<20) }) // each answer is about 256 KiB
	w.end(t)
	t.Logf("memory of the node at its highest: %s", peakMemory(n.broker.pid()))
}

// during runs act beside the ordinary business and checks that this took no harm.
func (w *witness) during(t *testing.T, act func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		act()
	}()
	for {
		w.unharmed(t)
		select {
		case <-done:
			w.unharmed(t)
			return
		default:
		}
	}
}

// flood writes the same request again and again on one connection without reading, up to bytes in total. It ends
// early when the node closes the connection or stops reading for a while, as it may.
func flood(t *testing.T, n *node, request []byte, most int) {
	c, err := dialRaw(n.brokerAddr())
	if err != nil {
		t.Error(err)
		return
	}
	defer c.close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	sent := 0
	for sent < most && err == nil {
		var k int
		k, err = c.Write(request)
		sent += k
	}
	t.Logf("flooded with %d MiB; at the end: %v", sent>>20, err)
}

// TestHoarders: many connections each send nearly all of a frame of the largest size and keep the rest. The node's
// memory stays far below the sum of what they sent, and others go on as before.
func TestHoarders(t *testing.T) {
	t.Parallel()
	if targetName == "stock" {
		t.Skip("a stock broker keeps all of it in memory")
	}
	n := ownNode(t, nodeOptions{})
	w := newWitness(t, n)
	const hoarders, each = 120, 15 << 20 // 1.8 GiB
	hello := frame(header{Code: codeMaxOffset, Opaque: 1, ExtFields: fields{"topic": w.sub.topic, "queueId": "0"}}, nil)
	part := frameOf(rawFrameLimitBytes-4, 300, make([]byte, each))
	w.during(t, func() {
		var all []*raw
		for range hoarders {
			c, err := dialRaw(n.brokerAddr())
			if err != nil {
				t.Error(err)
				break
			}
			all = append(all, c)
			c.SetDeadline(time.Now().Add(10 * time.Second))
			c.Write(hello) // a first good frame, so that the connection is no silent start
			c.Write(part)  // may fail: the node need not take it
		}
		for _, c := range all {
			c.close()
		}
	})
	w.end(t)
	const most = 1 << 30
	if peak, err := peakBytes(n.broker.pid()); err != nil || peak > most {
		t.Errorf("the node's memory reached %d MiB, want at most %d; %v", peak>>20, most>>20, err)
	}
	t.Logf("memory of the node: %s", peakMemory(n.broker.pid()))
}

// peakBytes is the highest resident size that a process had.
func peakBytes(pid int) (int64, error) {
	status, err := procStatus(pid)
	if err != nil {
		return 0, err
	}
	kb, err := strconv.ParseInt(strings.TrimSuffix(status["VmHWM"], " kB"), 10, 64)
	return kb << 10, err
}

// peakMemory is the highest resident size of a process, as the kernel tells it.
func peakMemory(pid int) string {
	status, err := procStatus(pid)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("VmHWM %s, now RssAnon %s, RssShmem %s", status["VmHWM"], status["RssAnon"], status["RssShmem"])
}
