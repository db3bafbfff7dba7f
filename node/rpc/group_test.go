package rpc_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ringmq/netio/wire"
	"ringmq/node/group"
	"ringmq/node/nodetest"
	"ringmq/node/rpc"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// members asks who is in a group.
func members(t *testing.T, c *nodetest.Client, name string) []string {
	t.Helper()
	ans := c.Ask(wire.GetConsumerListByGroup, &wire.ConsumerListRequest{ConsumerGroup: name}, nil)
	if ans.Code == wire.SystemError {
		return nil
	}
	var body wire.ConsumerListBody
	if err := wire.Unmarshal(ans.Body, &body); err != nil {
		t.Fatal(err)
	}
	return body.ConsumerIDList
}

// told waits until the node tells the client that a group has changed.
func told(t *testing.T, c *nodetest.Client, name string) {
	t.Helper()
	req := c.Told()
	if req.Code != wire.NotifyConsumerIdsChanged || req.Text("consumerGroup") != name || !req.Oneway() {
		t.Fatalf("told %v of group %s, oneway %v", req.Code, req.Text("consumerGroup"), req.Oneway())
	}
}

// rest lets the time pass in which members are not told again.
func rest(n *nodetest.Node) { n.Clock.Advance(rpc.NoticeEvery) }

// TestGroupStory: members join and leave in each way there is, and the others hear of it at once.
func TestGroupStory(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	a, b, d := n.Client(), n.Client(), n.Client()
	newTopic(t, a, "T", "")

	beat(t, a, "a", "G", nil)
	told(t, a, "G")
	rest(n)
	if got := members(t, a, "G"); !slices.Equal(got, []string{"a"}) {
		t.Fatalf("members %v", got)
	}
	if route := routeOf(t, n, "%RETRY%G"); len(route.QueueDatas) != 1 || route.QueueDatas[0].ReadQueueNums != 1 {
		t.Errorf("route of the retry topic: %+v", route)
	}

	beat(t, b, "b", "G", nil)
	told(t, a, "G")
	told(t, b, "G")
	rest(n)
	beat(t, d, "d", "G", nil)
	told(t, a, "G")
	told(t, b, "G")
	told(t, d, "G")
	rest(n)
	if got := members(t, a, "G"); !slices.Equal(got, []string{"a", "b", "d"}) {
		t.Fatalf("members %v", got)
	}

	b.Must(wire.UnregisterClient, &wire.UnregisterRequest{ClientID: "b", ConsumerGroup: "G"}, nil)
	told(t, a, "G")
	told(t, d, "G")
	rest(n)
	d.Close()
	told(t, a, "G")
	if got := members(t, a, "G"); !slices.Equal(got, []string{"a"}) {
		t.Fatalf("members %v", got)
	}
}

// TestManyJoinAtOnce: each member of a large group was told of each that came after it, half a million times in
// all when a thousand came together. The first change is told at once; those that follow closely are told
// together, once, and whoever is there then is told.
func TestManyJoinAtOnce(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	first := n.Client()
	newTopic(t, first, "T", "")
	beat(t, first, "first", "G", nil)
	told(t, first, "G")
	var others []*nodetest.Client
	for i := range 20 {
		others = append(others, n.Client())
		beat(t, others[i], fmt.Sprint(i), "G", nil)
	}
	beat(t, first, "first", "Other", nil) // another group has its own time
	told(t, first, "Other")               // and nothing of G before
	rest(n)
	for _, c := range append(others, first) {
		told(t, c, "G")
	}
	rest(n)
	beat(t, others[0], "0", "Other", nil)
	for _, c := range []*nodetest.Client{first, others[0]} {
		told(t, c, "Other") // and G only once
	}
	others[1].Close()
	for _, c := range append(others[2:], first, others[0]) {
		told(t, c, "G") // at once again
	}
}

// TestSilentMemberExpires: who sends no heartbeat for two minutes is out.
func TestSilentMemberExpires(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	silent, c := n.Client(), n.Client()
	newTopic(t, c, "T", "")
	beat(t, silent, "silent", "G", nil)
	n.Clock.Advance(group.ExpireAfter / 2)
	beat(t, c, "c", "G", nil)
	told(t, c, "G")
	rest(n)
	n.Clock.Advance(group.ExpireAfter/2 + group.ExpireAfter/4)
	told(t, c, "G")
	if got := members(t, c, "G"); !slices.Equal(got, []string{"c"}) {
		t.Errorf("members %v", got)
	}
}

// TestUnknownGroupHasNoMembers: an error, not an empty list, which would make consumers drop all
// their queues.
func TestUnknownGroupHasNoMembers(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	ans := c.Ask(wire.GetConsumerListByGroup, &wire.ConsumerListRequest{ConsumerGroup: "Nobody"}, nil)
	if ans.Code != wire.SystemError || len(ans.Remark) == 0 {
		t.Errorf("answered %d %q", ans.Code, ans.Remark)
	}
}

// TestHeartbeatOfForbiddenGroup: a group that may not be created is left out, silently.
func TestHeartbeatOfForbiddenGroup(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{Config: map[string]string{"autoCreateSubscriptionGroup": "false"}})
	c := n.Client()
	ans := beat(t, c, "c", "G", nil)
	if got := ans.Text("IS_SUPPORT_HEART_BEAT_V2"); got != "true" {
		t.Errorf("IS_SUPPORT_HEART_BEAT_V2=%q", got)
	}
	if got := members(t, c, "G"); got != nil {
		t.Errorf("members %v", got)
	}
}

// TestHeartbeatOfManyGroups: each new group takes two durable writes, and others wait for the same worker. A client with
// many gets them with one heartbeat after the other, and is a member once all are there.
func TestHeartbeatOfManyGroups(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	c := n.Client()
	beat := &wire.HeartbeatBody{ClientID: "c"}
	for i := range int64(100) {
		beat.ConsumerDataSet = append(beat.ConsumerDataSet, wire.ConsumerData{GroupName: "G" + itoa(i)})
	}
	body, err := json.Marshal(beat)
	if err != nil {
		t.Fatal(err)
	}
	if ans := c.Ask(wire.HeartBeat, nil, body); ans.Code != wire.SystemError || !strings.Contains(string(ans.Remark), "64 groups") {
		t.Errorf("answered %d %s", ans.Code, ans.Remark)
	}
	if got := members(t, c, "G0"); len(got) != 0 {
		t.Errorf("members of the first group: %v", got)
	}
	c.Must(wire.HeartBeat, nil, body)
	if got := members(t, c, "G99"); !slices.Equal(got, []string{"c"}) {
		t.Errorf("members of the last group: %v", got)
	}
}

// TestBroadcastersAreNotTold: each reads everything, so nobody has to share anew.
func TestBroadcastersAreNotTold(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	a, b := n.Client(), n.Client()
	newTopic(t, a, "T", "")
	broadcast := func(d *wire.ConsumerData) { d.MessageModel = wire.Broadcasting }
	beat(t, a, "a", "Everyone", broadcast)
	beat(t, b, "b", "Everyone", broadcast)
	beat(t, a, "a", "G", nil)
	told(t, a, "G") // and nothing before it
}

// TestHeartbeatWithoutSense: nothing but an answer comes of it.
func TestHeartbeatWithoutSense(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	for _, body := range []string{"", "null", "{", "[]", "7", "\x00"} {
		if ans := c.Ask(wire.HeartBeat, nil, []byte(body)); ans.Code != wire.SystemError || len(ans.Remark) == 0 {
			t.Errorf("%q: answered %d %q", body, ans.Code, ans.Remark)
		}
	}
}
