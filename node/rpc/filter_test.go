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

// filtering is a node that filters by properties.
func filtering(t *testing.T) (*nodetest.Node, *nodetest.Client) {
	t.Helper()
	n := nodetest.Start(t, nodetest.Setup{Config: map[string]string{"enablePropertyFilter": "true"}})
	c := n.Client()
	newTopic(t, c, "T", "")
	c.Pull("G", "T", 0, 0) // makes the group
	return n, c
}

// sendPriced sends a message with a property price, and one of 10 KiB if it is dear.
func sendPriced(c *nodetest.Client, price int) {
	h := nodetest.SendHeader("T", 0)
	h.Properties = props("price", fmt.Sprint(price), "color", []string{"red", "blue"}[price%2])
	c.Must(wire.SendMessageV2, h, []byte(strings.Repeat("x", 1+price*100)))
}

// sqlPull is a pull by an expression.
func sqlPull(expr string, from int64) *wire.PullRequest {
	h := nodetest.PullHeader("G", "T", 0, from)
	h.ExpressionType, h.Subscription = []byte("SQL92"), []byte(expr)
	return h
}

func prices(t *testing.T, ans *wire.Command) (all string) {
	t.Helper()
	for _, r := range nodetest.Records(t, ans.Body) {
		all += propMap(r.Props)["price"] + " "
	}
	return all
}

// TestPullBySQL: the messages that match, and what was skipped is not looked at again.
func TestPullBySQL(t *testing.T) {
	_, c := filtering(t)
	for _, price := range []int{5, 120, 7, 200, 9} {
		sendPriced(c, price)
	}
	sendTagged(c, "no price")
	for expr, want := range map[string]string{
		"price > 100":                       "120 200 ",
		"price < 10 AND color = 'blue'":     "5 7 9 ",
		"price IS NOT NULL":                 "5 120 7 200 9 ",
		"TRUE":                              "5 120 7 200 9  ",
		"TAGS = 'no price'":                 " ",
		"price > 100 OR color = 'blue'":     "5 120 7 200 9 ",
		"color IN ('green') OR price > 500": "",
	} {
		ans := c.Ask(wire.PullMessage, sqlPull(expr, 0), nil)
		code := wire.Success
		if want == "" {
			code = wire.PullRetryImmediately
		}
		if got := prices(t, ans); ans.Code != code || got != want || pullAnswer(t, ans).NextBeginOffset != 6 {
			t.Errorf("%q: %d %s, prices %q, next %d; want %q", expr, ans.Code, ans.Remark, got, pullAnswer(t, ans).NextBeginOffset, want)
		}
	}
}

// TestIllegalExpressions are refused with 23 and the place, by a pull, a check (46) and a heartbeat; a stock broker would answer such
// a pull with all messages.
func TestIllegalExpressions(t *testing.T) {
	n, c := filtering(t)
	sendPriced(c, 5)
	for expr, why := range map[string]string{
		"price LIKE '5%'": "at character 7",
		"price >":         "at character 8",
		"":                "at character 1",
		"*":               "at character 1",
	} {
		ans := c.Ask(wire.PullMessage, sqlPull(expr, 0), nil)
		if ans.Code != wire.SubscriptionParseFailed || !strings.Contains(string(ans.Remark), why) {
			t.Errorf("%q: %d %s, want 23 and %q", expr, ans.Code, ans.Remark, why)
		}
	}
	h := sqlPull("price > 1", 0)
	h.ExpressionType = []byte("SQL99")
	if ans := c.Ask(wire.PullMessage, h, nil); ans.Code != wire.SubscriptionParseFailed || !strings.Contains(string(ans.Remark), "SQL99") {
		t.Errorf("type SQL99: %d %s", ans.Code, ans.Remark)
	}

	for expr, want := range map[string]wire.Code{"price > 1": wire.Success, "price LIKE '5%'": wire.SubscriptionParseFailed} {
		ans := c.Ask(wire.CheckClientConfig, nil, jsonOf(t, map[string]any{"subscriptionData": consumer("G", expr).SubscriptionDataSet[0]}))
		if ans.Code != want || want != wire.Success && !strings.Contains(string(ans.Remark), "at character 7") {
			t.Errorf("check of %q: %d %s", expr, ans.Code, ans.Remark)
		}
	}

	both := []wire.ConsumerData{consumer("Bad", "price LIKE '5%'"), consumer("Good", "price > 1")}
	ans := n.Client().Ask(wire.HeartBeat, nil, jsonOf(t, wire.HeartbeatBody{ClientID: "bad", ConsumerDataSet: both}))
	if ans.Code != wire.SubscriptionParseFailed || !strings.Contains(string(ans.Remark), "group Bad, topic T") {
		t.Errorf("heartbeat: %d %s", ans.Code, ans.Remark)
	}
	if got := members(t, c, "Bad"); len(got) != 0 {
		t.Errorf("members of the group with the illegal expression: %q", got)
	}
	if got := members(t, c, "Good"); len(got) != 1 {
		t.Errorf("members of the other group: %q", got)
	}
}

// consumer is a heartbeat's part about a group that filters T.
func consumer(group, expr string) wire.ConsumerData {
	return wire.ConsumerData{
		GroupName: group, ConsumeType: wire.ConsumePassively, MessageModel: wire.Clustering, ConsumeFromWhere: wire.FromLastOffset,
		SubscriptionDataSet: []wire.SubscriptionData{{Topic: "T", SubString: expr, ExpressionType: "SQL92", SubVersion: 10}},
	}
}

// TestPullByHeartbeatsSQL: a pull without an expression goes by the one of its group, and a member with an illegal one does
// not take that away.
func TestPullByHeartbeatsSQL(t *testing.T) {
	n, c := filtering(t)
	for _, price := range []int{5, 120} {
		sendPriced(c, price)
	}
	c.Must(wire.HeartBeat, nil, jsonOf(t, wire.HeartbeatBody{ClientID: "a", ConsumerDataSet: []wire.ConsumerData{consumer("G", "price > 100")}}))
	worse := consumer("G", "price >> 100")
	worse.SubscriptionDataSet[0].SubVersion++
	n.Client().Ask(wire.HeartBeat, nil, jsonOf(t, wire.HeartbeatBody{ClientID: "b", ConsumerDataSet: []wire.ConsumerData{worse}}))
	h := nodetest.PullHeader("G", "T", 0, 0)
	h.SysFlag, h.Subscription, h.SubVersion = 0, nil, 10
	if ans := c.Ask(wire.PullMessage, h, nil); ans.Code != wire.Success || prices(t, ans) != "120 " {
		t.Errorf("%d %s: %q", ans.Code, ans.Remark, prices(t, ans))
	}
}

// TestPropertyFilterOff: the default. Heartbeats are taken, pulls say what to do.
func TestPropertyFilterOff(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	newTopic(t, c, "T", "")
	c.Must(wire.HeartBeat, nil, jsonOf(t, wire.HeartbeatBody{ClientID: "a", ConsumerDataSet: []wire.ConsumerData{consumer("G", "price > 100")}}))
	for _, expr := range []string{"price > 100", "price >"} {
		ans := c.Ask(wire.PullMessage, sqlPull(expr, 0), nil)
		if ans.Code != wire.SystemError || !strings.HasPrefix(string(ans.Remark), "The broker does not support consumer to filter message by SQL92") ||
			!strings.Contains(string(ans.Remark), "enablePropertyFilter") {
			t.Errorf("%q: %d %s", expr, ans.Code, ans.Remark)
		}
	}
}

// TestHeldPullBySQL: messages that do not match leave the pull asleep; one that matches wakes it.
func TestHeldPullBySQL(t *testing.T) {
	n, c := filtering(t)
	producer := n.Client()
	h := sqlPull("price > 100", 0)
	h.SysFlag |= wire.PullSuspend
	h.SuspendTimeoutMillis = time.Minute.Milliseconds()
	held := heldRequest(t, n, c, h)
	for range 3 {
		sendPriced(producer, 5)
	}
	sendPriced(producer, 120)
	if ans := <-held; ans.Code != wire.Success || prices(t, ans) != "120 " || pullAnswer(t, ans).NextBeginOffset != 4 {
		t.Fatalf("%d %s: %q", ans.Code, ans.Remark, prices(t, ans))
	}
	h.QueueOffset = 4
	held = heldRequest(t, n, c, h)
	sendPriced(producer, 5)
	n.Clock.Advance(time.Minute)
	if ans := <-held; ans.Code != wire.PullNotFound || pullAnswer(t, ans).NextBeginOffset != 5 {
		t.Errorf("at its end: %d %s, next %d, want PULL_NOT_FOUND and 5", ans.Code, ans.Remark, pullAnswer(t, ans).NextBeginOffset)
	}
}

// TestTagsOfEqualHash: "Aa" and "BB" have one hash. The queue entry cannot tell them apart; both are returned, as by a stock
// broker, the client takes its own, and the offset moves on.
func TestTagsOfEqualHash(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	newTopic(t, c, "T", "")
	for _, tag := range []string{"BB", "BB", "other", "Aa"} {
		sendTagged(c, tag)
	}
	h := nodetest.PullHeader("G", "T", 0, 0)
	h.Subscription = []byte("Aa")
	ans := c.Ask(wire.PullMessage, h, nil)
	var tags string
	for _, r := range nodetest.Records(t, ans.Body) {
		tags += propMap(r.Props)["TAGS"]
	}
	if ans.Code != wire.Success || tags != "BBBBAa" || pullAnswer(t, ans).NextBeginOffset != 4 {
		t.Errorf("%d %s: tags %q, next %d", ans.Code, ans.Remark, tags, pullAnswer(t, ans).NextBeginOffset)
	}
}

// TestLongWayToAMatch: a pull looks at a slice of what does not match and says where to go on; the client comes to the
// match in a bounded number of pulls.
func TestLongWayToAMatch(t *testing.T) {
	_, c := filtering(t)
	const dull = 2000
	h := nodetest.SendHeader("T", 0)
	for sent := 0; sent < dull; sent += 500 {
		h.Batch = true
		c.Must(wire.SendBatchMessage, h, batchOf(500))
	}
	sendPriced(c, 120)
	pulls := 0
	for at := int64(0); ; pulls++ {
		ans := c.Ask(wire.PullMessage, sqlPull("price > 100", at), nil)
		if ans.Code == wire.Success {
			if got := prices(t, ans); got != "120 " {
				t.Errorf("prices %q", got)
			}
			break
		}
		next := pullAnswer(t, ans).NextBeginOffset
		if ans.Code != wire.PullRetryImmediately || next <= at || next > at+800 {
			t.Fatalf("at %d: %d %s, next %d", at, ans.Code, ans.Remark, next)
		}
		at = next
	}
	if pulls < dull/800 {
		t.Errorf("%d pulls without a match", pulls)
	}
}

// batchOf is the body of a batch of small messages.
func batchOf(n int) (body []byte) {
	for range n {
		body = (&record.Element{Body: []byte("x")}).Append(body)
	}
	return body
}

func jsonOf(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
