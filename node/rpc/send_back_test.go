package rpc_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
	"ringmq/node/topic"
	"ringmq/store/record"
	"ringmq/store/vfs/memfs"
)

// backHeader sends a message back for group G, with nothing special about it.
func backHeader(r *record.Record) *wire.SendBackRequest {
	return &wire.SendBackRequest{Offset: r.PhysOffset, Group: []byte("G"), MaxReconsumeTimes: -1}
}

// TestSendBackStory: a message fails until it is dead. Its delay grows with the number of tries, and the first
// topic and id that it had stay known (values of the golden store "retry" of the stock broker 5.5.0).
func TestSendBackStory(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	c := n.Client()
	newTopic(t, c, "T", "")
	h := nodetest.SendHeader("T", 0)
	h.Flag, h.Properties = 5, props("TAGS", "a", "KEYS", "k", "UNIQ_KEY", "u1", "WAIT", "true")
	c.Must(wire.SendMessageV2, h, []byte("fails"))
	first := await(t, c, "T", 0, 0, 1)[0]
	origin := string(record.AppendMsgID(nil, n.Config.StoreHost, first.PhysOffset))
	want := map[string]string{
		"TAGS": "a", "KEYS": "k", "UNIQ_KEY": "u1", "WAIT": "false", "RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": origin,
		"REAL_TOPIC": "%RETRY%G", "REAL_QID": "0", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster",
	}
	last := first
	for tries, level := range []string{"3", "4", "5"} {
		if ans := c.Must(wire.ConsumerSendMsgBack, backHeader(&last), nil); len(ans.Fields) != 0 || len(ans.Body) != 0 {
			t.Errorf("answer %+v, want nothing in it", ans)
		}
		if waiting, _ := c.Pull("G", "%RETRY%G", 0, int64(tries)); len(waiting) != 0 {
			t.Fatalf("try %d is there at once", tries+1)
		}
		n.Clock.Advance([]time.Duration{10 * time.Second, 30 * time.Second, time.Minute}[tries] + time.Millisecond)
		last = await(t, c, "%RETRY%G", 0, int64(tries), 1)[0]
		want["DELAY"] = level
		if got := propMap(last.Props); !maps.Equal(got, want) {
			t.Errorf("try %d: properties %v, want %v", tries+1, got, want)
		}
		if last.ReconsumeTimes != int32(tries+1) || string(last.Body) != "fails" || last.Flag != 5 || last.BornMs != first.BornMs || last.Born != first.Born {
			t.Errorf("try %d: %+v", tries+1, last)
		}
	}
	dead := backHeader(&last)
	dead.DelayLevel = -1
	c.Must(wire.ConsumerSendMsgBack, dead, nil)
	want["DELAY"] = "0"
	got := await(t, c, "%DLQ%G", 0, 0, 1)[0]
	if p := propMap(got.Props); !maps.Equal(p, want) || got.ReconsumeTimes != 4 || string(got.Body) != "fails" {
		t.Errorf("dead: %+v, properties %v, want %v", got, p, want)
	}
	route := routeOf(t, n, "%DLQ%G")
	if q := route.QueueDatas[0]; q.ReadQueueNums != 1 || q.WriteQueueNums != 1 || q.Perm != 6 {
		t.Errorf("route of the dead letter topic: %+v", q)
	}
}

// TestSendBackGoesWhere: after as many tries as the group allows, or the client if it is new enough to say so, a
// message is dead; a level above the highest is the highest.
func TestSendBackGoesWhere(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	c := n.Client()
	newTopic(t, c, "T", "")
	for name, tc := range map[string]struct {
		tries   int32
		change  func(req *wire.SendBackRequest)
		version int32
		dead    bool
		level   int32
	}{
		"level as asked":         {0, func(h *wire.SendBackRequest) { h.DelayLevel = 2 }, wire.BrokerVersion, false, 2},
		"level by tries":         {15, func(*wire.SendBackRequest) {}, wire.BrokerVersion, false, 18},
		"level too high":         {0, func(h *wire.SendBackRequest) { h.DelayLevel = 99 }, wire.BrokerVersion, false, 18},
		"as often as allowed":    {16, func(*wire.SendBackRequest) {}, wire.BrokerVersion, true, 0},
		"the client's limit":     {0, func(h *wire.SendBackRequest) { h.MaxReconsumeTimes = 0 }, wire.BrokerVersion, true, 0},
		"a higher limit":         {16, func(h *wire.SendBackRequest) { h.MaxReconsumeTimes = 17 }, wire.BrokerVersion, false, 18},
		"limit of an old client": {0, func(h *wire.SendBackRequest) { h.MaxReconsumeTimes = 0 }, wire.V3_4_9 - 1, false, 3},
	} {
		t.Run(name, func(t *testing.T) {
			send := nodetest.SendHeader("T", 1)
			send.ReconsumeTimes = tc.tries
			at := sentAt(t, c, send)
			h := &wire.SendBackRequest{Offset: at, Group: []byte("G"), MaxReconsumeTimes: -1}
			tc.change(h)
			req := nodetest.NewRequest(wire.ConsumerSendMsgBack, h, nil)
			req.Version = tc.version
			where, queue := "%DLQ%G", int32(0)
			if !tc.dead {
				where, queue = topic.Schedule, tc.level-1
			}
			from := maxOffset(c, where, queue)
			if ans, err := c.Try(req); err != nil || ans.Code != wire.Success {
				t.Fatalf("%+v, %v", ans, err)
			}
			if r := await(t, c, where, queue, from, 1)[0]; r.ReconsumeTimes != tc.tries+1 {
				t.Errorf("%d tries", r.ReconsumeTimes)
			}
		})
	}
}

// TestSendBackRefused goes through the checks in their order.
func TestSendBackRefused(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{Config: map[string]string{"autoCreateSubscriptionGroup": "false"}})
	c := n.Client()
	const known = "TOOLS_CONSUMER" // a group that every broker has
	at := sentAt(t, c, nodetest.SendHeader("T", 0))
	c.Must(wire.UpdateAndCreateTopic, &wire.CreateTopicRequest{Topic: "%RETRY%SELF_TEST_C_GROUP", DefaultTopic: topic.Default, ReadQueueNums: 1, WriteQueueNums: 1, Perm: 4, TopicFilterType: topic.SingleTag}, nil)
	for name, tc := range map[string]struct {
		h      *wire.SendBackRequest
		code   wire.Code
		remark string
	}{
		"unknown group":      {&wire.SendBackRequest{Group: []byte("G"), Offset: at}, wire.SubscriptionGroupNotExist, "G"},
		"illegal group":      {&wire.SendBackRequest{Group: []byte("../G"), Offset: at}, wire.SubscriptionGroupNotExist, "../G"},
		"retry topic closed": {&wire.SendBackRequest{Group: []byte("SELF_TEST_C_GROUP"), Offset: at}, wire.NoPermission, "%RETRY%SELF_TEST_C_GROUP"},
		"inside a message":   {&wire.SendBackRequest{Group: []byte(known), Offset: at + 1}, wire.SystemError, "look message by offset failed, "},
		"beyond the log":     {&wire.SendBackRequest{Group: []byte(known), Offset: 999999999}, wire.SystemError, "look message by offset failed, 999999999"},
		"before the log":     {&wire.SendBackRequest{Group: []byte(known), Offset: -1}, wire.SystemError, "look message by offset failed, -1"},
	} {
		if ans := c.Ask(wire.ConsumerSendMsgBack, tc.h, nil); ans.Code != tc.code || !strings.Contains(string(ans.Remark), tc.remark) {
			t.Errorf("%s: %d %s, want %d with %q", name, ans.Code, ans.Remark, tc.code, tc.remark)
		}
	}
	if ans := c.Ask(wire.ConsumerSendMsgBack, nil, nil); ans.Code != wire.SystemError || !strings.Contains(string(ans.Remark), "offset") {
		t.Errorf("nothing in it: %d %s", ans.Code, ans.Remark)
	}
	closed := nodetest.Start(t, nodetest.Setup{Config: map[string]string{"brokerPermission": "4"}}).Client()
	if ans := closed.Ask(wire.ConsumerSendMsgBack, &wire.SendBackRequest{Group: []byte("G")}, nil); ans.Code != wire.NoPermission {
		t.Errorf("broker that may not be written: %d %s", ans.Code, ans.Remark)
	}
}

// TestSendBackIsOnTheDisk: the consumer forgets the message with the answer, so that comes after the flush.
func TestSendBackIsOnTheDisk(t *testing.T) {
	disk := memfs.New(1)
	n := nodetest.Start(t, nodetest.Setup{FS: disk})
	c := n.Client()
	newTopic(t, c, "T", "")
	h := &wire.SendBackRequest{Offset: sentAt(t, c, nodetest.SendHeader("T", 0)), Group: []byte("G"), DelayLevel: -1, MaxReconsumeTimes: -1}
	c.Must(wire.ConsumerSendMsgBack, h, nil) // makes group and topics
	disk.HoldFlushes()
	answered := make(chan *wire.Command, 1)
	go func() {
		ans, err := c.Try(nodetest.NewRequest(wire.ConsumerSendMsgBack, h, nil))
		if err != nil {
			t.Error(err)
		}
		answered <- ans
	}()
	disk.WaitHeld(1)
	other := n.Client()
	if _, ans := other.Pull("G", "%DLQ%G", 0, 1); ans.Code != wire.PullNotFound {
		t.Errorf("it is shown before it is on the disk: %d", ans.Code)
	}
	select {
	case ans := <-answered:
		t.Errorf("answered %+v before it is on the disk", ans)
	default:
	}
	disk.ReleaseAll()
	if ans := <-answered; ans == nil || ans.Code != wire.Success {
		t.Errorf("answered %+v", ans)
	}
	await(t, other, "%DLQ%G", 0, 1, 1)
}

// sentAt sends a message and returns where it is in the log.
func sentAt(t *testing.T, c *nodetest.Client, h *wire.SendRequest) int64 {
	t.Helper()
	var ans wire.SendAnswer
	if err := ans.Parse(c.Must(wire.SendMessageV2, h, []byte("x"))); err != nil {
		t.Fatal(err)
	}
	_, at, err := record.ParseMsgID(string(ans.MsgID))
	if err != nil {
		t.Fatal(err)
	}
	return at
}
