package rpc_test

import (
	"testing"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
)

// TestCreateTopic: a topic is routed when its creation is answered, can be changed, and is there
// after a restart.
func TestCreateTopic(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	c := n.Client()
	h := wire.CreateTopicRequest{
		Topic: "T", DefaultTopic: "TBW102", ReadQueueNums: 3, WriteQueueNums: 2, Perm: 6, TopicFilterType: "SINGLE_TAG",
		Attributes: "+message.type=FIFO",
	}
	for range 2 { // the second changes nothing
		if ans := c.Must(wire.UpdateAndCreateTopic, &h, nil); len(ans.Remark) != 0 {
			t.Errorf("remark %q", ans.Remark)
		}
		if q := routeOf(t, n, "T").QueueDatas[0]; q.ReadQueueNums != 3 || q.WriteQueueNums != 2 {
			t.Errorf("routed %+v", q)
		}
	}
	h.ReadQueueNums, h.Perm, h.Attributes = 5, 4, "-message.type"
	c.Must(wire.UpdateAndCreateTopic, &h, nil)
	n.Stop()
	again := nodetest.Start(t, nodetest.Setup{FS: n.FS, Clock: n.Clock})
	if q := routeOf(t, again, "T").QueueDatas[0]; q.ReadQueueNums != 5 || q.Perm != 4 {
		t.Errorf("routed %+v after a restart", q)
	}
}

func TestCreateTopicRefused(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	for name, change := range map[string]func(h *wire.CreateTopicRequest){
		"illegal name":     func(h *wire.CreateTopicRequest) { h.Topic = "a/b" },
		"system topic":     func(h *wire.CreateTopicRequest) { h.Topic = "TBW102" },
		"the broker's own": func(h *wire.CreateTopicRequest) { h.Topic = "DefaultCluster" },
		"perm":             func(h *wire.CreateTopicRequest) { h.Perm = 8 },
		"negative queues":  func(h *wire.CreateTopicRequest) { h.WriteQueueNums = -1 },
		"too many queues":  func(h *wire.CreateTopicRequest) { h.ReadQueueNums = 1 << 30 },
		"mixed messages":   func(h *wire.CreateTopicRequest) { h.Attributes = "+message.type=MIXED" },
	} {
		h := wire.CreateTopicRequest{Topic: "T", DefaultTopic: "TBW102", ReadQueueNums: 1, WriteQueueNums: 1, Perm: 6, TopicFilterType: "SINGLE_TAG"}
		change(&h)
		if ans := c.Ask(wire.UpdateAndCreateTopic, &h, nil); ans.Code != wire.InvalidParameter || len(ans.Remark) == 0 {
			t.Errorf("%s: answered %d %q, want INVALID_PARAMETER and why", name, ans.Code, ans.Remark)
		}
	}
	h := wire.CreateTopicRequest{Topic: "T", DefaultTopic: "TBW102", TopicFilterType: "SINGLE_TAG", Attributes: "+colour=red"}
	if ans := c.Ask(wire.UpdateAndCreateTopic, &h, nil); ans.Code != wire.SystemError || len(ans.Remark) == 0 {
		t.Errorf("unknown attribute: answered %d %q, want SYSTEM_ERROR and why", ans.Code, ans.Remark)
	}
}
