package rpc_test

import (
	"testing"
	"time"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
)

// committed asks for the offset of a group.
func committed(c *nodetest.Client, group, name string, queue int32) (int64, wire.Code) {
	ans := c.Ask(wire.QueryConsumerOffset, &wire.QueryOffsetRequest{
		ConsumerGroup: []byte(group), Topic: []byte(name), QueueID: queue, SetZeroIfNotFound: true,
	}, nil)
	var h wire.OffsetAnswer
	if ans.Code != wire.Success || h.Parse(ans) != nil {
		return -1, ans.Code
	}
	return h.Offset, ans.Code
}

func commitHeader(group, name string, queue int32, at int64) *wire.UpdateOffsetRequest {
	return &wire.UpdateOffsetRequest{ConsumerGroup: []byte(group), Topic: []byte(name), QueueID: queue, CommitOffset: at}
}

// TestFirstOffset is the 0-or-not-found rule: a new group begins at 0 of a young queue, and decides
// itself where the queue is empty or does not exist.
func TestFirstOffset(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	newTopic(t, c, "T", "")
	c.Send("T", 0, "x")
	if at, code := committed(c, "New", "T", 0); code != wire.Success || at != 0 {
		t.Errorf("young queue: %d (code %d), want 0", at, code)
	}
	for name, queue := range map[string]int32{"T": 1, "Nowhere": 0} {
		if _, code := committed(c, "New", name, queue); code != wire.QueryNotFound {
			t.Errorf("queue %d of %s: code %d, want QUERY_NOT_FOUND", queue, name, code)
		}
	}
	ans := c.Ask(wire.QueryConsumerOffset, &wire.QueryOffsetRequest{ConsumerGroup: []byte("New"), Topic: []byte("T")}, nil)
	if ans.Code != wire.QueryNotFound {
		t.Errorf("setZeroIfNotFound=false: code %d, want QUERY_NOT_FOUND", ans.Code)
	}
}

// TestFirstOffsetOfOldQueue: once the first message is farther back than what counts as in memory, a
// new group decides itself.
func TestFirstOffsetOfOldQueue(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{MemoryBytes: 2500}).Client()
	newTopic(t, c, "T", "")
	for range 20 {
		c.Send("T", 0, "x")
	}
	if _, code := committed(c, "New", "T", 0); code != wire.QueryNotFound {
		t.Errorf("code %d, want QUERY_NOT_FOUND", code)
	}
}

func TestCommit(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	newTopic(t, c, "T", "")
	beat(t, c, "client", "G", nil)
	for _, at := range []int64{5, 3} { // also backwards
		c.Must(wire.UpdateConsumerOffset, commitHeader("G", "T", 1, at), nil)
		if got, _ := committed(c, "G", "T", 1); got != at {
			t.Errorf("stored %d, want %d", got, at)
		}
	}
	for name, tc := range map[string]struct {
		h    *wire.UpdateOffsetRequest
		drop string
		want wire.Code
	}{
		"unknown group":           {commitHeader("Nobody", "T", 0, 1), "", wire.SubscriptionGroupNotExist},
		"unknown group, no queue": {commitHeader("Nobody", "T", 0, 1), "queueId", wire.SubscriptionGroupNotExist},
		"no group":                {commitHeader("G", "T", 0, 1), "consumerGroup", wire.SystemError},
		"unknown topic":           {commitHeader("G", "Nowhere", 0, 1), "", wire.TopicNotExist},
		"no queue":                {commitHeader("G", "T", 0, 1), "queueId", wire.InvalidParameter},
		"no offset":               {commitHeader("G", "T", 0, 1), "commitOffset", wire.InvalidParameter},
		"negative offset":         {commitHeader("G", "T", 0, -1), "", wire.InvalidParameter},
		"queue too high":          {commitHeader("G", "T", 4, 1), "", wire.InvalidParameter},
	} {
		req := nodetest.NewRequest(wire.UpdateConsumerOffset, tc.h, nil)
		req.Fields = without(req.Fields, tc.drop)
		ans, err := c.Try(req)
		if err != nil {
			t.Fatal(err)
		}
		if ans.Code != tc.want || len(ans.Remark) == 0 {
			t.Errorf("%s: %d %q, want %d and why", name, ans.Code, ans.Remark, tc.want)
		}
	}
}

// TestOffsetsSurviveRestart: a clean stop writes what was committed since the last tick.
func TestOffsetsSurviveRestart(t *testing.T) {
	first := nodetest.Start(t, nodetest.Setup{})
	c := first.Client()
	newTopic(t, c, "T", "")
	beat(t, c, "client", "G", nil)
	c.Send("T", 0, "x")
	c.Must(wire.UpdateConsumerOffset, commitHeader("G", "T", 0, 1), nil)
	first.Stop()
	second := nodetest.Start(t, nodetest.Setup{FS: first.FS, Clock: first.Clock})
	if at, code := committed(second.Client(), "G", "T", 0); at != 1 {
		t.Errorf("stored %d (code %d), want 1", at, code)
	}
}

// TestOffsetQueries covers 29 to 32, also for what does not exist: then they answer 0, or -1 for a
// time, and make nothing.
func TestOffsetQueries(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	c := n.Client()
	newTopic(t, c, "T", "")
	begin := n.Clock.Now().UnixMilli()
	for range 3 { // at 0 s, 10 s, 20 s
		c.Send("T", 0, "x")
		n.Clock.Advance(10 * time.Second)
	}
	queue := func(name string) *wire.QueueRequest { return &wire.QueueRequest{Topic: name, Committed: true} }
	search := func(name string, at time.Duration, upper bool) *wire.SearchOffsetRequest {
		return &wire.SearchOffsetRequest{Topic: name, Timestamp: begin + at.Milliseconds(), Upper: upper}
	}
	for name, tc := range map[string]struct {
		code  wire.Code
		h     nodetest.Fields
		field string
		want  int64
	}{
		"max":                 {wire.GetMaxOffset, queue("T"), "offset", 3},
		"max of nothing":      {wire.GetMaxOffset, queue("Nowhere"), "offset", 0},
		"min":                 {wire.GetMinOffset, queue("T"), "offset", 0},
		"min of nothing":      {wire.GetMinOffset, queue("Nowhere"), "offset", 0},
		"earliest":            {wire.GetEarliestMsgStoretime, queue("T"), "timestamp", begin},
		"earliest of nothing": {wire.GetEarliestMsgStoretime, queue("Nowhere"), "timestamp", -1},
		"at":                  {wire.SearchOffsetByTimestamp, search("T", 10*time.Second, false), "offset", 1},
		"after":               {wire.SearchOffsetByTimestamp, search("T", 11*time.Second, false), "offset", 2},
		"before":              {wire.SearchOffsetByTimestamp, search("T", 19*time.Second, true), "offset", 1},
		"beyond":              {wire.SearchOffsetByTimestamp, search("T", time.Hour, false), "offset", 3},
		"search in nothing":   {wire.SearchOffsetByTimestamp, search("Nowhere", 0, false), "offset", 0},
	} {
		ans := c.Must(tc.code, tc.h, nil)
		if got := ans.Text(tc.field); got != itoa(tc.want) {
			t.Errorf("%s: %s=%s, want %d", name, tc.field, got, tc.want)
		}
	}
	if entries, err := n.FS.List("/data/consumequeue"); err == nil && len(entries) > 1 {
		t.Errorf("queries made directories: %v", entries)
	}
}
