package rpc_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
)

// stats asks how far group G is.
func stats(t *testing.T, c *nodetest.Client, h wire.ConsumeStatsRequest) map[wire.MessageQueue]wire.OffsetWrapper {
	t.Helper()
	if h.ConsumerGroup == "" {
		h.ConsumerGroup = "G"
	}
	var body wire.ConsumeStatsBody
	if err := wire.Unmarshal(c.Must(wire.GetConsumeStats, &h, nil).Body, &body); err != nil {
		t.Fatal(err)
	}
	return body.OffsetTable
}

// statsOf returns the topics that the answer is about.
func statsOf(t *testing.T, c *nodetest.Client, h wire.ConsumeStatsRequest) []string {
	t.Helper()
	names := map[string]bool{}
	for q := range stats(t, c, h) {
		names[q.Topic] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// TestConsumeStats: what there is, what was given and what is done, for each queue of the topics that the group has
// committed offsets of.
func TestConsumeStats(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	c, m := n.Client(), n.Client()
	newTopic(t, c, "T", "")
	beat(t, m, "member", "G", nil)
	begin := n.Clock.Now().UnixMilli()
	for range 5 { // at 0 s, 10 s, ...
		c.Send("T", 1, "x")
		n.Clock.Advance(10 * time.Second)
	}
	c.Send("%RETRY%G", 0, "x")
	h := nodetest.PullHeader("G", "T", 1, 0)
	h.MaxMsgNums = 4
	c.Must(wire.PullMessage, h, nil)
	n.Clock.Advance(2 * time.Second)
	if ans := c.Ask(wire.GetConsumeStats, &wire.ConsumeStatsRequest{ConsumerGroup: "G", Topic: "T"}, nil); !strings.HasPrefix(string(ans.Body), `{"consumeTps":2,`) {
		t.Errorf("four messages within two seconds: %s", ans.Body)
	}
	c.Must(wire.UpdateConsumerOffset, commitHeader("G", "T", 1, 3), nil)
	c.Must(wire.UpdateConsumerOffset, commitHeader("G", "%RETRY%G", 0, 0), nil)
	want := map[wire.MessageQueue]wire.OffsetWrapper{
		{BrokerName: "b", QueueID: 0, Topic: "T"}: {},
		{BrokerName: "b", QueueID: 1, Topic: "T"}: {BrokerOffset: 5, ConsumerOffset: 3, PullOffset: 4, LastTimestamp: begin + 20_000},
		{BrokerName: "b", QueueID: 2, Topic: "T"}: {},
		{BrokerName: "b", QueueID: 3, Topic: "T"}: {},

		{BrokerName: "b", QueueID: 0, Topic: "%RETRY%G"}: {BrokerOffset: 1},
	}
	m.Close()
	nodetest.Until(t, "the group is offline", func() bool { return len(members(t, c, "G")) == 0 })
	if got := stats(t, c, wire.ConsumeStatsRequest{}); !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	c.Must(wire.UpdateConsumerOffset, commitHeader("G", "T", 1, 5), nil)
	if got := stats(t, c, wire.ConsumeStatsRequest{Topic: "T"})[wire.MessageQueue{BrokerName: "b", QueueID: 1, Topic: "T"}]; got.PullOffset != 5 {
		t.Errorf("done up to 5, pulled up to %d", got.PullOffset)
	}
}

// TestConsumeStatsTopics: which topics an answer is about.
func TestConsumeStatsTopics(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	c, m := n.Client(), n.Client()
	for _, name := range []string{"T", "U", "V"} {
		newTopic(t, c, name, "")
	}
	beat(t, m, "member", "G", func(d *wire.ConsumerData) {
		d.SubscriptionDataSet = []wire.SubscriptionData{{Topic: "T", SubString: "*"}, {Topic: "V", SubString: "*"}}
	})
	for _, name := range []string{"T", "U"} {
		c.Must(wire.UpdateConsumerOffset, commitHeader("G", name, 0, 0), nil)
	}
	check := func(name string, h wire.ConsumeStatsRequest, want ...string) {
		t.Helper()
		if got := statsOf(t, c, h); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	check("online: subscribed and committed", wire.ConsumeStatsRequest{}, "T")
	check("online: one that is not committed", wire.ConsumeStatsRequest{Topic: "V"}, "V")
	check("online: one that is not subscribed to", wire.ConsumeStatsRequest{Topic: "U"})
	check("a list", wire.ConsumeStatsRequest{TopicList: []string{"U", "T", "U", "Nowhere"}, Topic: "V"}, "T", "U")
	check("nothing that is there", wire.ConsumeStatsRequest{Topic: "Nowhere"})
	check("an unknown group", wire.ConsumeStatsRequest{ConsumerGroup: "Nobody"})
	m.Close()
	nodetest.Until(t, "the group is offline", func() bool { return len(members(t, c, "G")) == 0 })
	check("offline: committed", wire.ConsumeStatsRequest{}, "T", "U")
	check("offline: one that is not committed", wire.ConsumeStatsRequest{Topic: "V"}, "V")
}

// TestConsumeStatsBounds: who asks for more than an answer holds is told what to do.
func TestConsumeStatsBounds(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	for _, name := range []string{"T", "U"} {
		c.Must(wire.UpdateAndCreateTopic, &wire.CreateTopicRequest{
			Topic: name, DefaultTopic: "TBW102", ReadQueueNums: 1 << 16, WriteQueueNums: 1, Perm: 6, TopicFilterType: "SINGLE_TAG",
		}, nil)
	}
	ans := c.Ask(wire.GetConsumeStats, &wire.ConsumeStatsRequest{ConsumerGroup: "G", TopicList: []string{"T", "U"}}, nil)
	wantRefused(t, ans, wire.SystemError, "fewer topics")
}

// TestTopicsOfGroup: those that it has committed offsets of.
func TestTopicsOfGroup(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	newTopic(t, c, "T", "")
	beat(t, c, "member", "G", nil)
	for _, name := range []string{"T", "%RETRY%G"} {
		c.Must(wire.UpdateConsumerOffset, commitHeader("G", name, 0, 0), nil)
	}
	for name, want := range map[string][]string{"G": {"%RETRY%G", "T"}, "Nobody": {}} {
		var list wire.TopicList
		if err := wire.Unmarshal(c.Must(wire.QueryTopicsByConsumer, &wire.GroupRequest{Group: name}, nil).Body, &list); err != nil {
			t.Fatal(err)
		}
		if list.TopicList == nil || !slices.Equal(list.TopicList, want) || list.BrokerAddr == "" {
			t.Errorf("%s: %+v, want %v", name, list, want)
		}
	}
}

// TestCheckClientConfig: tags are always served; of other filters it says what a pull would.
func TestCheckClientConfig(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	for _, kind := range []string{`,"expressionType":"TAG"`, `,"expressionType":""`, ""} {
		c.Must(wire.CheckClientConfig, nil, []byte(`{"clientId":"a","group":"G","subscriptionData":{"topic":"T","subString":"a || b"`+kind+`}}`))
	}
	for body, want := range map[string]string{
		"":                             "no value",
		"{":                            "JSON",
		`{"clientId":"a","group":"G"}`: "subscriptionData: missing",
		`{"clientId":"a","group":"G","subscriptionData":{"topic":"T","subString":"a","expressionType":"Moon"}}`: "Moon",
	} {
		wantRefused(t, c.Ask(wire.CheckClientConfig, nil, []byte(body)), wire.SystemError, want)
	}
}
