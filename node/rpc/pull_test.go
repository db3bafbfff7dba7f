package rpc_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
	"ringmq/store/record"
)

// pullAnswer parses the header of a pull's answer.
func pullAnswer(t *testing.T, ans *wire.Command) (h wire.PullAnswer) {
	t.Helper()
	if err := h.Parse(ans); err != nil {
		t.Fatalf("%d %s: %v", ans.Code, ans.Remark, err)
	}
	return h
}

// beat sends a heartbeat of one consumer.
func beat(t *testing.T, c *nodetest.Client, id, group string, change func(*wire.ConsumerData)) *wire.Command {
	t.Helper()
	d := wire.ConsumerData{
		GroupName: group, ConsumeType: wire.ConsumePassively, MessageModel: wire.Clustering, ConsumeFromWhere: wire.FromLastOffset,
		SubscriptionDataSet: []wire.SubscriptionData{{Topic: "T", SubString: "*", SubVersion: 10}},
	}
	if change != nil {
		change(&d)
	}
	body, err := json.Marshal(wire.HeartbeatBody{ClientID: id, ConsumerDataSet: []wire.ConsumerData{d}})
	if err != nil {
		t.Fatal(err)
	}
	return c.Must(wire.HeartBeat, nil, body)
}

// TestPullStatus is the protocol's table of what a look into a queue finds.
func TestPullStatus(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	newTopic(t, c, "T", "")
	for range 3 {
		c.Send("T", 0, "x")
	}
	for _, tc := range []struct {
		queue    int32
		from     int64
		code     wire.Code
		remark   string
		next     int64
		min, max int64
	}{
		{0, 0, wire.Success, "FOUND", 3, 0, 3},
		{0, 2, wire.Success, "FOUND", 3, 0, 3},
		{0, 3, wire.PullNotFound, "OFFSET_OVERFLOW_ONE", 3, 0, 3},
		{0, 4, wire.PullOffsetMoved, "OFFSET_OVERFLOW_BADLY", 3, 0, 3},
		{0, 1 << 62, wire.PullOffsetMoved, "OFFSET_OVERFLOW_BADLY", 3, 0, 3},
		{0, -1, wire.PullOffsetMoved, "OFFSET_TOO_SMALL", 0, 0, 3},
		{1, 0, wire.PullNotFound, "NO_MESSAGE_IN_QUEUE", 0, 0, 0},
		{1, 7, wire.PullOffsetMoved, "NO_MESSAGE_IN_QUEUE", 0, 0, 0},
	} {
		t.Run(fmt.Sprintf("queue=%d/from=%d", tc.queue, tc.from), func(t *testing.T) {
			_, ans := c.Pull("G", "T", tc.queue, tc.from)
			h := pullAnswer(t, ans)
			if ans.Code != tc.code || string(ans.Remark) != tc.remark || h.NextBeginOffset != tc.next || h.MinOffset != tc.min || h.MaxOffset != tc.max {
				t.Errorf("answered %d %s %+v, want %+v", ans.Code, ans.Remark, h, tc)
			}
		})
	}
}

// TestPullRefused goes through the checks in their order.
func TestPullRefused(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{Config: map[string]string{"litePullMessageEnable": "false"}}).Client()
	newTopic(t, c, "T", "")
	c.Must(wire.UpdateAndCreateTopic, &wire.CreateTopicRequest{
		Topic: "WriteOnly", DefaultTopic: "TBW102", ReadQueueNums: 1, WriteQueueNums: 1, Perm: 2, TopicFilterType: "SINGLE_TAG",
	}, nil)
	beat(t, c, "client", "Known", nil)
	heard := func(h *wire.PullRequest) {
		h.SysFlag, h.Subscription, h.ConsumerGroup, h.SubVersion = 0, nil, []byte("Known"), 10
	}
	type header = wire.PullRequest
	for name, tc := range map[string]struct {
		code      wire.Code
		change    func(h *header)
		want      wire.Code
		forbidden string
	}{
		"lite pull":             {wire.LitePullMessage, func(*header) {}, wire.NoPermission, "1"},
		"illegal group":         {wire.PullMessage, func(h *header) { h.ConsumerGroup = []byte("a b") }, wire.SubscriptionGroupNotExist, ""},
		"no such topic":         {wire.PullMessage, func(h *header) { h.Topic = []byte("Nowhere") }, wire.TopicNotExist, ""},
		"topic without read":    {wire.PullMessage, func(h *header) { h.Topic = []byte("WriteOnly") }, wire.NoPermission, "3"},
		"queue too high":        {wire.PullMessage, func(h *header) { h.QueueID = 4 }, wire.InvalidParameter, ""},
		"queue negative":        {wire.PullMessage, func(h *header) { h.QueueID = -1 }, wire.InvalidParameter, ""},
		"tags without a tag":    {wire.PullMessage, func(h *header) { h.Subscription = []byte("||") }, wire.SubscriptionParseFailed, ""},
		"sql":                   {wire.PullMessage, func(h *header) { h.ExpressionType = []byte("SQL92") }, wire.SystemError, ""},
		"group not heard":       {wire.PullMessage, func(h *header) { heard(h); h.ConsumerGroup = []byte("G") }, wire.SubscriptionNotExist, ""},
		"topic not subscribed":  {wire.PullMessage, func(h *header) { heard(h); h.Topic = []byte("TBW102") }, wire.SubscriptionNotExist, ""},
		"newer than heartbeats": {wire.PullMessage, func(h *header) { heard(h); h.SubVersion = 11 }, wire.SubscriptionNotLatest, ""},
		"as the heartbeats say": {wire.PullMessage, heard, wire.PullNotFound, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := nodetest.PullHeader("G", "T", 0, 0)
			tc.change(h)
			ans := c.Ask(tc.code, h, nil)
			if ans.Code != tc.want || ans.Text("forbiddenType") != tc.forbidden {
				t.Errorf("answered %d %s, forbidden %q; want %d, %q", ans.Code, ans.Remark, ans.Text("forbiddenType"), tc.want, tc.forbidden)
			}
		})
	}
}

// TestPullLimits: at most 32 messages or 256 KiB, but always one; also fewer if the client says so.
func TestPullLimits(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	newTopic(t, c, "T", "")
	for i := range 40 {
		c.Send("T", 0, fmt.Sprint("m", i))
	}
	big := strings.Repeat("x", 100<<10)
	for range 3 {
		c.Send("T", 1, big)
	}
	for _, tc := range []struct {
		queue, most int32
		want        int
	}{{0, 32, 32}, {0, 1000, 32}, {0, 5, 5}, {0, 0, 1}, {1, 32, 2}} {
		h := nodetest.PullHeader("G", "T", tc.queue, 0)
		h.MaxMsgNums = tc.most
		ans := c.Must(wire.PullMessage, h, nil)
		records := nodetest.Records(t, ans.Body)
		if len(records) != tc.want || pullAnswer(t, ans).NextBeginOffset != int64(tc.want) {
			t.Errorf("queue %d, at most %d: %d records, next %d; want %d", tc.queue, tc.most, len(records),
				pullAnswer(t, ans).NextBeginOffset, tc.want)
		}
		for i, r := range records {
			if r.QueueOffset != int64(i) || tc.queue == 1 && string(r.Body) != big {
				t.Errorf("record %d: offset %d, %d bytes", i, r.QueueOffset, len(r.Body))
			}
		}
	}
}

// TestPullTags: only what matches is returned, and what was skipped is not looked at again.
func TestPullTags(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	newTopic(t, c, "T", "")
	for _, tag := range []string{"a", "b", "c", "a", "d"} {
		sendTagged(c, tag)
	}
	for _, tc := range []struct {
		expr string
		want string
		code wire.Code
		next int64
	}{
		{"*", "abcad", wire.Success, 5},
		{"", "abcad", wire.Success, 5},
		{"a", "aa", wire.Success, 5},
		{" b || c ", "bc", wire.Success, 5},
		{"none", "", wire.PullRetryImmediately, 5},
	} {
		h := nodetest.PullHeader("G", "T", 0, 0)
		h.Subscription = []byte(tc.expr)
		ans := c.Ask(wire.PullMessage, h, nil)
		var tags string
		for _, r := range nodetest.Records(t, ans.Body) {
			tags += propMap(r.Props)["TAGS"]
		}
		if ans.Code != tc.code || tags != tc.want || pullAnswer(t, ans).NextBeginOffset != tc.next {
			t.Errorf("%q: %d, tags %q, next %d; want %+v", tc.expr, ans.Code, tags, pullAnswer(t, ans).NextBeginOffset, tc)
		}
	}
}

func sendTagged(c *nodetest.Client, tag string) {
	h := nodetest.SendHeader("T", 0)
	h.Properties = props("TAGS", tag)
	c.Must(wire.SendMessageV2, h, []byte("x"))
}

// heldPull starts a pull that waits, and returns where its answer comes.
func heldPull(t *testing.T, n *nodetest.Node, c *nodetest.Client, expr string, from int64, wait time.Duration) <-chan *wire.Command {
	t.Helper()
	return heldRequest(t, n, c, suspended(expr, from, wait))
}

// suspended is a pull that may be held.
func suspended(expr string, from int64, wait time.Duration) *wire.PullRequest {
	h := nodetest.PullHeader("G", "T", 0, from)
	h.SysFlag |= wire.PullSuspend
	h.SuspendTimeoutMillis = wait.Milliseconds()
	h.Subscription = []byte(expr)
	return h
}

// heldRequest sends a pull and waits until it is held.
func heldRequest(t *testing.T, n *nodetest.Node, c *nodetest.Client, h nodetest.Fields) <-chan *wire.Command {
	t.Helper()
	waiting := n.Stats().Waiting
	out := make(chan *wire.Command, 1)
	go func() {
		ans, err := c.Try(nodetest.NewRequest(wire.PullMessage, h, nil))
		if err != nil {
			t.Log(err)
		}
		out <- ans
	}()
	nodetest.Until(t, "the pull is held", func() bool { return n.Stats().Waiting == waiting+1 })
	return out
}

// TestHeldPullWakes: a message that matches ends the wait at once, with the message.
func TestHeldPullWakes(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	c, producer := n.Client(), n.Client()
	newTopic(t, c, "T", "")
	c.Pull("G", "T", 0, 0) // makes the group
	for i := range int64(5) {
		held := heldPull(t, n, c, "*", i, time.Minute)
		producer.Send("T", 0, fmt.Sprint("m", i))
		ans := <-held
		records := nodetest.Records(t, ans.Body)
		if ans.Code != wire.Success || len(records) != 1 || string(records[0].Body) != fmt.Sprint("m", i) {
			t.Fatalf("answered %d %s with %d records", ans.Code, ans.Remark, len(records))
		}
	}
}

// TestHeldPullIgnoresOtherTags: messages that do not match leave the pull asleep; when one matches,
// they are skipped.
func TestHeldPullIgnoresOtherTags(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	c, producer := n.Client(), n.Client()
	newTopic(t, c, "T", "")
	c.Pull("G", "T", 0, 0)
	held := heldPull(t, n, c, "mine", 0, time.Minute)
	for range 3 {
		sendTagged(producer, "other")
	}
	sendTagged(producer, "mine")
	ans := <-held
	records := nodetest.Records(t, ans.Body)
	if ans.Code != wire.Success || len(records) != 1 || records[0].QueueOffset != 3 || pullAnswer(t, ans).NextBeginOffset != 4 {
		t.Fatalf("answered %d %s with %d records", ans.Code, ans.Remark, len(records))
	}
}

// TestHeldPullTimesOut: exactly when the client said, with PULL_NOT_FOUND, and further on if what
// came did not match.
func TestHeldPullTimesOut(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	c, producer := n.Client(), n.Client()
	newTopic(t, c, "T", "")
	c.Pull("G", "T", 0, 0)
	late := heldPull(t, n, n.Client(), "mine", 0, 20*time.Second)
	held := heldPull(t, n, c, "mine", 0, 15*time.Second)
	sendTagged(producer, "other")
	n.Clock.Advance(15*time.Second - time.Millisecond)
	select {
	case ans := <-held:
		t.Fatalf("answered early: %d %s", ans.Code, ans.Remark)
	default:
	}
	n.Clock.Advance(time.Millisecond)
	ans := <-held
	if ans.Code != wire.PullNotFound || pullAnswer(t, ans).NextBeginOffset != 1 {
		t.Errorf("answered %d %s %+v, want PULL_NOT_FOUND, next 1", ans.Code, ans.Remark, pullAnswer(t, ans))
	}
	n.Clock.Advance(5 * time.Second)
	if ans := <-late; ans.Code != wire.PullNotFound {
		t.Errorf("the later one was answered %d %s", ans.Code, ans.Remark)
	}
}

// TestHeldPullDiesWithItsConnection: nothing of it stays behind.
func TestHeldPullDiesWithItsConnection(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	c, gone := n.Client(), n.Client()
	newTopic(t, c, "T", "")
	c.Pull("G", "T", 0, 0)
	heldPull(t, n, gone, "*", 0, 15*time.Second)
	gone.Close()
	nodetest.Until(t, "the poll is gone", func() bool { return n.Stats().Waiting == 0 })
	c.Send("T", 0, "x")
	n.Clock.Advance(time.Minute)
	if records, _ := c.Pull("G", "T", 0, 0); len(records) != 1 {
		t.Errorf("%d records", len(records))
	}
}

// TestHeldPullsAreBounded: pulls that take much memory are refused when there are too many, and
// find room again when those are gone.
func TestHeldPullsAreBounded(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	c := n.Client()
	newTopic(t, c, "T", "")
	c.Pull("G", "T", 0, 0)
	large := padded{suspended("*", 0, time.Minute), strings.Repeat("x", 12<<20)}
	for range 10 { // 12 MiB each, of 128
		heldRequest(t, n, c, large)
	}
	if ans := c.Ask(wire.PullMessage, large, nil); ans.Code != wire.SystemBusy || len(ans.Remark) == 0 {
		t.Errorf("answered %d %q, want SYSTEM_BUSY and why", ans.Code, ans.Remark)
	}
	c.Close()
	nodetest.Until(t, "they are gone", func() bool { return n.Stats().Waiting == 0 })
	held := heldRequest(t, n, n.Client(), large)
	n.Clock.Advance(time.Minute)
	if ans := <-held; ans.Code != wire.PullNotFound {
		t.Errorf("answered %d %q", ans.Code, ans.Remark)
	}
}

// padded is a pull with a field that nobody knows.
type padded struct {
	*wire.PullRequest
	padding string
}

func (p padded) Append(c *wire.Command) {
	p.PullRequest.Append(c)
	c.Set("padding", p.padding)
}

// TestShortPolling: without long polling a pull waits for a second at most.
func TestShortPolling(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{Config: map[string]string{"longPollingEnable": "false"}})
	c := n.Client()
	newTopic(t, c, "T", "")
	c.Pull("G", "T", 0, 0)
	held := heldPull(t, n, c, "*", 0, 15*time.Second)
	n.Clock.Advance(time.Second)
	if ans := <-held; ans.Code != wire.PullNotFound {
		t.Errorf("answered %d %s", ans.Code, ans.Remark)
	}
}

// TestPullCommits: the commit bit stores the offset, without it the field is noise.
func TestPullCommits(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	newTopic(t, c, "T", "")
	c.Send("T", 0, "x")
	h := nodetest.PullHeader("G", "T", 0, 1)
	h.SysFlag |= wire.PullCommitOffset
	h.CommitOffset = 1
	c.Ask(wire.PullMessage, h, nil)
	h.SysFlag &^= wire.PullCommitOffset
	h.CommitOffset = 0
	c.Ask(wire.PullMessage, h, nil)
	if at, code := committed(c, "G", "T", 0); code != wire.Success || at != 1 {
		t.Errorf("stored %d (code %d), want 1", at, code)
	}
}

// TestPullLongRunFromFile: a run that is long enough for sendfile has the bytes that were sent.
func TestPullLongRunFromFile(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	newTopic(t, c, "T", "")
	var body []byte
	for i := range 20 {
		body = (&record.Element{Body: []byte(strings.Repeat(string(rune('a'+i)), 4<<10))}).Append(body)
	}
	h := nodetest.SendHeader("T", 0)
	h.Batch = true
	c.Must(wire.SendBatchMessage, h, body)
	records, ans := c.Pull("G", "T", 0, 0)
	if len(records) != 20 {
		t.Fatalf("%d records: %d %s", len(records), ans.Code, ans.Remark)
	}
	for i, r := range records {
		if want := strings.Repeat(string(rune('a'+i)), 4<<10); string(r.Body) != want {
			t.Errorf("record %d is not what was sent", i)
		}
	}
}
