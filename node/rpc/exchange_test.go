package rpc_test

import (
	"bufio"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
	"ringmq/store/record"
)

// exchange is one line of testdata/*.jsonl.gz: what a stock client asked a stock broker
// 5.5.0, and its answer. testdata/README.md tells more.
type exchange struct {
	File       string    `json:"file"`
	Scenario   string    `json:"scenario"`
	Code       wire.Code `json:"code"`
	Dir        string    `json:"dir"`
	Oneway     bool      `json:"oneway"`
	NoResponse bool      `json:"no_response"`
	Request    string    `json:"request_hex"`
	Response   string    `json:"response_hex"`

	req, ans wire.Command
}

// exempt tells why the answer to an exchange may differ; the first match counts.
var exempt = []struct {
	matches func(e *exchange) bool
	why     string
}{
	{func(e *exchange) bool { return string(e.ans.Remark) == "OFFSET_RESET" },
		"a reset by code 222 was pending, which is not served yet"},
	{func(e *exchange) bool { return e.ans.Code == wire.SystemBusy },
		"the stock broker was too slow at that moment"},
	{func(e *exchange) bool { return e.Scenario == "pull bad expression" },
		"an illegal expression is refused here, there it matches everything"},
	{func(e *exchange) bool { return e.Scenario == "heart beat lenient" },
		"the stock JSON parser refuses keys without quotes; they are read here"},
	{func(e *exchange) bool { return e.Scenario == "send no body" },
		"an empty body is MESSAGE_ILLEGAL here, a null pointer there"},
	{func(e *exchange) bool { return e.Code == wire.UnregisterClient && len(e.req.Fields) == 0 },
		"leaving without a client id is an error here"},
	{func(e *exchange) bool { return e.Code == wire.CheckClientConfig && len(e.req.Body) == 0 },
		"asking about nothing is an error here"},
	{func(e *exchange) bool { return e.Code == wire.HeartBeat && e.NoResponse },
		"the client had hung up before the answer"},
}

// TestExchanges brings a node into the state that an exchange rests on, asks it the same, and
// compares the code, the names and kinds of the fields, and a pull's status.
func TestExchanges(t *testing.T) {
	seen, used := 0, make([]int, len(exempt))
	for _, e := range readExchanges(t) {
		if e.Dir != "c2b" {
			continue
		}
		seen++
		name := fmt.Sprintf("%s/%s/%d/%d", e.File, e.Scenario, e.Code, e.ans.Code)
		t.Run(name, func(t *testing.T) {
			for i, x := range exempt {
				if x.matches(&e) {
					used[i]++
					t.Log("differs from stock on purpose: " + x.why)
					return
				}
			}
			e.replay(t)
		})
	}
	for i, x := range exempt {
		if used[i] == 0 {
			t.Errorf("no exchange needs the exemption %q", x.why)
		}
	}
	if seen < 100 {
		t.Errorf("only %d exchanges", seen)
	}
}

func readExchanges(t *testing.T) (all []exchange) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.jsonl.gz")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		all = append(all, readFile(t, file)...)
	}
	return all
}

func readFile(t *testing.T, file string) (all []exchange) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		var e exchange
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		parseHex(t, e.Request, &e.req)
		parseHex(t, e.Response, &e.ans)
		all = append(all, e)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func parseHex(t *testing.T, text string, c *wire.Command) {
	t.Helper()
	frame, err := hex.DecodeString(text)
	if err == nil && len(frame) > 0 {
		err = c.Parse(frame)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (e *exchange) replay(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{Clock: e.clock(), Config: map[string]string{"brokerName": "broker-a", "maxMessageSize": "65536", "enablePropertyFilter": "true"}})
	c := n.Client()
	e.prepare(t, c)
	req := e.req.Clone()
	if e.Oneway {
		if err := c.Oneway(req); err != nil {
			t.Fatal(err)
		}
		c.Ask(9999, nil, nil) // its answer is the next one
		return
	}
	if e.NoResponse && e.Code == wire.PullMessage {
		go func() { _, _ = c.Try(req) }() // ends with the connection
		nodetest.Until(t, "the pull is held", func() bool { return n.Stats().Waiting == 1 })
		return
	}
	held := e.ans.Code == wire.PullNotFound
	answers := make(chan *wire.Command, 1)
	go func() {
		ans, err := c.Try(req)
		if err != nil {
			t.Error(err)
		}
		answers <- ans
	}()
	if held {
		nodetest.Until(t, "the pull is held", func() bool { return n.Stats().Waiting == 1 })
		n.Clock.Advance(20 * time.Second) // as the stock broker held it to the end
	}
	ans := <-answers
	if ans == nil || e.NoResponse {
		return
	}
	if ans.Code != e.ans.Code {
		t.Fatalf("answered %d %q, stock %d %q", ans.Code, ans.Remark, e.ans.Code, e.ans.Remark)
	}
	if got, want := kinds(ans), kinds(&e.ans); !maps.Equal(got, want) {
		t.Errorf("fields %v, stock %v", got, want)
	}
	if e.Code == wire.PullMessage && e.ans.Text("maxOffset") != "" && string(ans.Remark) != string(e.ans.Remark) {
		t.Errorf("status %s, stock %s", ans.Remark, e.ans.Remark)
	}
	if (len(ans.Body) == 0) != (len(e.ans.Body) == 0) {
		t.Errorf("body of %d bytes, stock %d", len(ans.Body), len(e.ans.Body))
	}
	e.compareBody(t, ans.Body)
}

// compareBody compares what a body says, for codes whose state prepare has made as it was at the stock broker.
func (e *exchange) compareBody(t *testing.T, body []byte) {
	if len(body) == 0 {
		return
	}
	switch e.Code {
	case wire.LockBatchMQ:
		got, want := decoded[wire.LockAnswerBody](t, body), decoded[wire.LockAnswerBody](t, e.ans.Body)
		if !sameSet(got.LockOKMQSet, want.LockOKMQSet) {
			t.Errorf("granted %v, stock %v", got.LockOKMQSet, want.LockOKMQSet)
		}
	case wire.QueryTopicsByConsumer:
		got, want := decoded[wire.TopicList](t, body), decoded[wire.TopicList](t, e.ans.Body)
		if !sameSet(got.TopicList, want.TopicList) {
			t.Errorf("topics %v, stock %v", got.TopicList, want.TopicList)
		}
	case wire.GetConsumeStats:
		got, want := decoded[wire.ConsumeStatsBody](t, body).OffsetTable, decoded[wire.ConsumeStatsBody](t, e.ans.Body).OffsetTable
		same := func(a, b wire.OffsetWrapper) bool {
			timed := (a.LastTimestamp > 0) == (b.LastTimestamp > 0)
			a.LastTimestamp = b.LastTimestamp
			return timed && a == b
		}
		if !maps.EqualFunc(got, want, same) {
			t.Errorf("got   %v\nstock %v", got, want)
		}
	}
}

func decoded[T any](t *testing.T, body []byte) (v T) {
	t.Helper()
	if err := wire.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func sameSet[E comparable](a, b []E) bool {
	for _, e := range a {
		if !slices.Contains(b, e) {
			return false
		}
	}
	return len(a) == len(b)
}

// kinds maps each field of an answer to what its value is.
func kinds(c *wire.Command) map[string]string {
	m := map[string]string{}
	for _, f := range c.Fields {
		v := string(f.Value)
		switch _, err := strconv.ParseInt(v, 10, 64); {
		case err == nil:
			m[string(f.Key)] = "integer"
		case v == "true" || v == "false":
			m[string(f.Key)] = "boolean"
		default:
			m[string(f.Key)] = "text"
		}
	}
	return m
}

// clock shows a time that the request asks for messages of.
func (e *exchange) clock() *nodetest.Clock {
	clock := nodetest.NewClock()
	if end, err := strconv.ParseInt(e.req.Text("endTimestamp"), 10, 64); err == nil && end < clock.Now().UnixMilli() {
		clock.Advance(time.UnixMilli(end - 1000).Sub(clock.Now()))
	}
	return clock
}

// prepare makes the topics, messages, members and offsets that the request relies on.
func (e *exchange) prepare(t *testing.T, c *nodetest.Client) {
	name, group := e.req.Text("topic"), e.req.Text("consumerGroup")
	if name == "" {
		name = e.req.Text("b")
	}
	missing := e.ans.Code == wire.TopicNotExist || strings.HasPrefix(e.Scenario, "update offset") || strings.HasSuffix(e.Scenario, "missing topic")
	if default_ := e.req.Text("c"); default_ == "OnT" {
		newTopic(t, c, default_, "")
	}
	if !missing && e.Code != wire.UpdateAndCreateTopic {
		e.makeTopic(t, c, name)
	}
	switch e.Code {
	case wire.PullMessage, wire.LitePullMessage:
		e.preparePull(t, c, name, group)
	case wire.QueryConsumerOffset:
		e.prepareOffset(t, c, name, group)
	case wire.UpdateConsumerOffset:
		if !missing && group != "" {
			beat(t, c, "c", group, nil)
		}
	case wire.GetConsumerListByGroup:
		if e.ans.Code == wire.Success {
			beat(t, c, "c", group, nil)
		}
	case wire.ConsumerSendMsgBack:
		if e.ans.Code == wire.Success {
			e.prepareBack(t, c)
		}
	case wire.QueryMessage:
		if e.ans.Code == wire.Success {
			e.prepareLookUp(t, c, name)
		}
	case wire.ViewMessageByID:
		if e.ans.Code == wire.Success {
			e.prepareView(t, c)
		}
	case wire.GetConsumeStats:
		if e.ans.Code == wire.Success {
			e.prepareProgress(t, c, decoded[wire.ConsumeStatsBody](t, e.ans.Body).OffsetTable)
		}
	case wire.QueryTopicsByConsumer:
		if e.ans.Code == wire.Success {
			progress := map[wire.MessageQueue]wire.OffsetWrapper{}
			for _, name := range decoded[wire.TopicList](t, e.ans.Body).TopicList {
				progress[wire.MessageQueue{Topic: name}] = wire.OffsetWrapper{}
			}
			e.prepareProgress(t, c, progress)
		}
	case wire.LockBatchMQ:
		if e.Scenario == "lock by another" {
			c.Must(wire.LockBatchMQ, nil, []byte(`{"clientId":"c1","consumerGroup":"GID_raw","mqSet":[{"topic":"OnT","brokerName":"broker-a","queueId":0}]}`))
		}
	case wire.GetMaxOffset, wire.GetMinOffset, wire.GetEarliestMsgStoretime, wire.SearchOffsetByTimestamp:
		if !missing && name != "" {
			fill(c, name, 0, 3)
		}
	}
}

// makeTopic makes a topic that clients may make; retry topics come with their group.
func (e *exchange) makeTopic(t *testing.T, c *nodetest.Client, name string) {
	switch {
	case name == "" || strings.ContainsAny(name, "% .") || name == "broker-a" || name == "SELF_TEST_TOPIC":
	default:
		newTopic(t, c, name, "")
	}
}

// prepareBack puts a message where the request says that the failed one is.
func (e *exchange) prepareBack(t *testing.T, c *nodetest.Client) {
	var h wire.SendBackRequest
	if err := h.Parse(&e.req); err != nil {
		t.Fatal(err)
	}
	send := func(bytes int64) int64 {
		ans := c.Send("Failing", 0, strings.Repeat("x", int(bytes)))
		_, at, err := record.ParseMsgID(string(ans.MsgID))
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	send(1)
	if h.Offset == 0 {
		return
	}
	bare := send(1) - 1 // what a record takes without its body
	send(h.Offset - 2*(bare+1) - bare)
	if at := send(1); at != h.Offset {
		t.Fatalf("the message is at %d, want %d", at, h.Offset)
	}
}

// preparePull fills the queue up to the maximum that the stock broker answered, or up to the offset
// of a pull that it held, and lets the group be heard as the stock broker had heard it.
func (e *exchange) preparePull(t *testing.T, c *nodetest.Client, name, group string) {
	var h wire.PullRequest
	if h.Parse(&e.req) != nil {
		return
	}
	upTo := h.QueueOffset
	if most, err := strconv.ParseInt(e.ans.Text("maxOffset"), 10, 64); err == nil {
		upTo = most
	}
	codes := []wire.Code{wire.Success, wire.PullNotFound, wire.PullRetryImmediately, wire.PullOffsetMoved}
	if slices.Contains(codes, e.ans.Code) {
		fill(c, name, h.QueueID, upTo)
	}
	if h.SysFlag&wire.PullSubscription != 0 || e.ans.Code == wire.SubscriptionNotExist {
		return
	}
	beat(t, c, "c", group, func(d *wire.ConsumerData) {
		d.SubscriptionDataSet = []wire.SubscriptionData{{Topic: name, SubString: "*", SubVersion: h.SubVersion}}
		sub := &d.SubscriptionDataSet[0]
		if e.ans.Code == wire.PullRetryImmediately {
			sub.SubString, sub.TagsSet = "OtherTag", []string{"OtherTag"}
		}
		if e.ans.Code == wire.SubscriptionNotLatest {
			sub.SubVersion--
		}
	})
}

// prepareLookUp sends the message that is asked for, and waits for the index.
func (e *exchange) prepareLookUp(t *testing.T, c *nodetest.Client, name string) {
	prop := map[string]string{"K": "KEYS", "U": "UNIQ_KEY", "T": "TAGS"}[e.req.Text("indexType")]
	sendKeyed(t, c, name, "x", prop, e.req.Text("key"))
	sendKeyed(t, c, name, "x", "KEYS", "last")
	indexed(t, c, name, "last")
}

// prepareView sends messages until one begins where the stock broker had one.
func (e *exchange) prepareView(t *testing.T, c *nodetest.Client) {
	at, err := strconv.Atoi(e.req.Text("offset"))
	if err != nil {
		t.Fatal(err)
	}
	newTopic(t, c, "Filler", "")
	if at > 0 {
		sendKeyed(t, c, "Filler", "x")
		size := int(sendKeyed(t, c, "Filler", "x")) // of each
		sendKeyed(t, c, "Filler", strings.Repeat("x", at-3*size+1))
	}
	if got := sendKeyed(t, c, "Filler", "x"); got != int64(at) {
		t.Fatalf("a message stands at %d, want %d", got, at)
	}
}

// prepareProgress brings a group to where it was, and then offline.
func (e *exchange) prepareProgress(t *testing.T, c *nodetest.Client, progress map[wire.MessageQueue]wire.OffsetWrapper) {
	group := e.req.Text("consumerGroup") + e.req.Text("group")
	beat(t, c, "c", group, nil)
	queues := map[string]int32{}
	for q := range progress {
		queues[q.Topic] = max(queues[q.Topic], q.QueueID+1)
	}
	for name, n := range queues {
		if name != "%RETRY%"+group { // which the group has
			c.Must(wire.UpdateAndCreateTopic, &wire.CreateTopicRequest{
				Topic: name, DefaultTopic: "TBW102", ReadQueueNums: n, WriteQueueNums: n, Perm: 6, TopicFilterType: "SINGLE_TAG",
			}, nil)
		}
	}
	for q, p := range progress {
		fill(c, q.Topic, q.QueueID, p.BrokerOffset)
		c.Must(wire.UpdateConsumerOffset, commitHeader(group, q.Topic, q.QueueID, p.ConsumerOffset), nil)
		if p.PullOffset > 0 {
			h := nodetest.PullHeader(group, q.Topic, q.QueueID, 0)
			h.MaxMsgNums = int32(p.PullOffset)
			c.Must(wire.PullMessage, h, nil)
		}
	}
	c.Must(wire.UnregisterClient, &wire.UnregisterRequest{ClientID: "c", ConsumerGroup: group}, nil)
}

// prepareOffset commits what the stock broker answered, or sends the message that makes it 0.
func (e *exchange) prepareOffset(t *testing.T, c *nodetest.Client, name, group string) {
	at, err := strconv.ParseInt(e.ans.Text("offset"), 10, 64)
	var h wire.QueryOffsetRequest
	if err != nil || h.Parse(&e.req) != nil {
		return
	}
	fill(c, name, h.QueueID, max(at, 1))
	if at > 0 {
		beat(t, c, "c", group, nil)
		c.Must(wire.UpdateConsumerOffset, commitHeader(group, name, h.QueueID, at), nil)
	}
}

// fill sends messages until the queue has that many; each has a property for the pull that filters by it.
func fill(c *nodetest.Client, name string, queue int32, upTo int64) {
	for maxOffset(c, name, queue) < upTo {
		h := nodetest.SendHeader(name, queue)
		h.Properties = props("a", "5")
		c.Must(wire.SendMessageV2, h, []byte("x"))
	}
}
