package rpc_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
	"ringmq/node/topic"
	"ringmq/store/record"
)

// newTopic makes a topic with four queues.
func newTopic(t *testing.T, c *nodetest.Client, name string, attributes string) {
	t.Helper()
	c.Must(wire.UpdateAndCreateTopic, &wire.CreateTopicRequest{
		Topic: name, DefaultTopic: topic.Default, ReadQueueNums: 4, WriteQueueNums: 4, Perm: 6,
		TopicFilterType: topic.SingleTag, Attributes: attributes,
	}, nil)
}

// props are properties as the clients send them.
func props(pairs ...string) (p []byte) {
	for i := 0; i < len(pairs); i += 2 {
		p = record.AppendProp(p, pairs[i], pairs[i+1])
	}
	return p
}

// propMap is stored properties as a map.
func propMap(p []byte) map[string]string {
	m := map[string]string{}
	for name, value := range record.Props(p) {
		m[string(name)] = string(value)
	}
	return m
}

// TestSendAnswer looks at all that clients unbox from the answer to a send.
func TestSendAnswer(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	c := n.Client()
	newTopic(t, c, "T", "")
	for i, form := range []struct {
		name     string
		code     wire.Code
		encoding wire.Encoding
	}{
		{"long names", wire.SendMessage, wire.JSON},
		{"short names", wire.SendMessageV2, wire.JSON},
		{"batch code without the batch flag", wire.SendBatchMessage, wire.JSON},
		{"binary header", wire.SendMessageV2, wire.RocketMQ},
	} {
		t.Run(form.name, func(t *testing.T) {
			h := nodetest.SendHeader("T", 2)
			h.Properties = props("UNIQ_KEY", "ABC", "TAGS", "a")
			req := nodetest.NewRequest(form.code, h, []byte("hello"))
			req.Encoding = form.encoding
			ans, err := c.Try(req)
			if err != nil {
				t.Fatal(err)
			}
			if ans.Code != wire.Success || ans.Encoding != form.encoding || ans.Version != wire.BrokerVersion {
				t.Fatalf("answer %+v, remark %s", ans, ans.Remark)
			}
			var got wire.SendAnswer
			if err := got.Parse(ans); err != nil {
				t.Fatal(err)
			}
			host, at, err := record.ParseMsgID(string(got.MsgID))
			if err != nil || host != n.Config.StoreHost || at < 0 {
				t.Errorf("msgId %s: %v %d %v, want the host %v", got.MsgID, host, at, err, n.Config.StoreHost)
			}
			if got.QueueID != 2 || got.QueueOffset != int64(i) || string(got.TransactionID) != "ABC" {
				t.Errorf("answer %+v, want queue 2, offset %d, transaction ABC", got, i)
			}
			if string(got.Region) != "DefaultRegion" || !got.TraceOn {
				t.Errorf("region %s trace %v", got.Region, got.TraceOn)
			}
		})
	}
}

// TestSendStores reads back what was sent, with what the broker adds and takes away.
func TestSendStores(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	c := n.Client()
	newTopic(t, c, "T", "")
	h := nodetest.SendHeader("T", 1)
	h.Flag, h.SysFlag, h.ReconsumeTimes = 7, record.SysCompressed|record.SysBornIPv6, 3
	h.Properties = []byte("TAGS\x01a\x02POP_CK\x01x\x02MSG_REGION\x01elsewhere\x02UNIQ_KEY\x01u1")
	c.Must(wire.SendMessage, h, []byte("hello"))
	records, _ := c.Pull("G", "T", 1, 0)
	if len(records) != 1 {
		t.Fatalf("%d records, want 1", len(records))
	}
	r := records[0]
	if string(r.Body) != "hello" || string(r.Topic) != "T" || r.QueueID != 1 || r.Flag != 7 || r.ReconsumeTimes != 3 ||
		r.SysFlag != record.SysCompressed || r.BornMs != h.BornTimestamp || r.BodyCRC != 907060870 {
		t.Errorf("record %+v", r)
	}
	if r.Store != n.Config.StoreHost || r.Born.Addr() != n.Config.StoreHost.Addr() || r.StoreMs != n.Clock.Now().UnixMilli() {
		t.Errorf("stored by %v at %d, born at %v", r.Store, r.StoreMs, r.Born)
	}
	want := map[string]string{
		"TAGS": "a", "UNIQ_KEY": "u1", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster",
	}
	if got := propMap(r.Props); !maps.Equal(got, want) {
		t.Errorf("properties %v, want %v", got, want)
	}
}

// TestSendWithoutUniqKey: the broker gives the message an id of the clients' form and says so.
func TestSendWithoutUniqKey(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	newTopic(t, c, "T", "")
	first, second := c.Send("T", 0, "x"), c.Send("T", 0, "y")
	records, _ := c.Pull("G", "T", 0, 0)
	for i, ans := range []wire.SendAnswer{first, second} {
		id := string(ans.TransactionID)
		if len(id) != 32 || strings.ToUpper(id) != id || !strings.HasPrefix(id, "7F000001") {
			t.Errorf("id %q, want 32 upper-case hex digits that begin with the address", id)
		}
		if got := propMap(records[i].Props)["UNIQ_KEY"]; got != id {
			t.Errorf("stored UNIQ_KEY %q, answered %q", got, id)
		}
	}
	if string(first.TransactionID) == string(second.TransactionID) {
		t.Errorf("two messages have the id %s", first.TransactionID)
	}
}

// TestSendRefused goes through the checks in their order.
func TestSendRefused(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{Config: map[string]string{"maxMessageSize": "65536"}}).Client()
	newTopic(t, c, "T", "")
	newTopic(t, c, "Compact", "+cleanup.policy=COMPACTION")
	newTopic(t, c, "Inner", "+queue.type=BatchCQ")
	element := func(p []byte, body string) string {
		return string((&record.Element{Body: []byte(body), Props: p}).Append(nil))
	}
	type header = wire.SendRequest
	for name, tc := range map[string]struct {
		change func(h *header)
		body   string
		code   wire.Code
		remark string
	}{
		"illegal name":              {func(h *header) { h.Topic = []byte("../T") }, "x", wire.InvalidParameter, "illegal characters"},
		"blank name":                {func(h *header) { h.Topic = []byte(" ") }, "x", wire.InvalidParameter, "blank"},
		"long name":                 {func(h *header) { h.Topic = []byte(strings.Repeat("x", 128)) }, "x", wire.InvalidParameter, "127"},
		"system topic":              {func(h *header) { h.Topic = []byte("SCHEDULE_TOPIC_XXXX") }, "x", wire.NoPermission, "SCHEDULE_TOPIC_XXXX"},
		"no such template":          {func(h *header) { h.Topic, h.DefaultTopic = []byte("New"), []byte("Nowhere") }, "x", wire.TopicNotExist, "New"},
		"template without right":    {func(h *header) { h.Topic, h.DefaultTopic = []byte("New"), []byte("T") }, "x", wire.TopicNotExist, "New"},
		"queue too high":            {func(h *header) { h.QueueID = 4 }, "x", wire.InvalidParameter, "queueId[4]"},
		"compaction without a key":  {func(h *header) { h.Topic = []byte("Compact") }, "x", wire.MessageIllegal, "key"},
		"half message":              {func(h *header) { h.Properties = props("TRAN_MSG", "true") }, "x", wire.MessageIllegal, "transactional"},
		"half message by flag":      {func(h *header) { h.SysFlag = record.SysPrepared }, "x", wire.MessageIllegal, "transactional"},
		"delayed half message":      {func(h *header) { h.Properties = props("DELAY", "3", "TRAN_MSG", "true") }, "x", wire.MessageIllegal, "transactional"},
		"garbled delay level":       {func(h *header) { h.Properties = props("DELAY", "soon") }, "x", wire.MessageIllegal, "delay"},
		"timer seconds":             {func(h *header) { h.Properties = props("TIMER_DELAY_SEC", "1") }, "x", wire.MessageIllegal, "timer"},
		"timer ms":                  {func(h *header) { h.Properties = props("TIMER_DELAY_MS", "1") }, "x", wire.MessageIllegal, "timer"},
		"timer deliver":             {func(h *header) { h.Properties = props("TIMER_DELIVER_MS", "1") }, "x", wire.MessageIllegal, "timer"},
		"inner batch":               {func(h *header) { h.Properties = props("INNER_NUM", "2") }, "x", wire.MessageIllegal, "inner batch"},
		"no body":                   {func(*header) {}, "", wire.MessageIllegal, "0 bytes"},
		"body too large":            {func(*header) {}, strings.Repeat("x", 65537), wire.MessageIllegal, "65537"},
		"properties too long":       {func(h *header) { h.Properties = props("a", strings.Repeat("x", 32760)) }, "x", wire.MessageIllegal, "properties"},
		"batch to a retry topic":    {func(h *header) { h.Topic, h.Batch = []byte("%RETRY%G"), true }, element(nil, "x"), wire.MessageIllegal, "retry"},
		"batch tried too often":     {func(h *header) { h.Topic, h.Batch, h.ReconsumeTimes = []byte("%RETRY%G"), true, 17 }, element(nil, "x"), wire.MessageIllegal, "retry"},
		"batch with a delay":        {func(h *header) { h.Batch, h.Properties = true, props("DELAY", "1") }, element(nil, "x"), wire.MessageIllegal, "delay"},
		"element with a delay":      {func(h *header) { h.Batch = true }, element(nil, "x") + element(props("DELAY", "1"), "y"), wire.MessageIllegal, "delay"},
		"element of a transaction":  {func(h *header) { h.Batch = true }, element(props("TRAN_MSG", "true"), "y"), wire.MessageIllegal, "transactional"},
		"element with a timer":      {func(h *header) { h.Batch = true }, element(props("TIMER_DELAY_MS", "1"), "y"), wire.MessageIllegal, "timer"},
		"element without body":      {func(h *header) { h.Batch = true }, element(nil, ""), wire.MessageIllegal, "no body"},
		"empty batch":               {func(h *header) { h.Batch = true }, "", wire.MessageIllegal, "empty"},
		"garbled batch":             {func(h *header) { h.Batch = true }, element(nil, "x") + "half", wire.MessageIllegal, "batch"},
		"batch too large":           {func(h *header) { h.Batch = true }, element(nil, strings.Repeat("x", 65536)), wire.SystemError, "exceeded"},
		"batch for an inner batch":  {func(h *header) { h.Batch, h.Topic = true, []byte("Inner") }, element(nil, "x"), wire.MessageIllegal, "inner batch"},
		"element without a key":     {func(h *header) { h.Batch, h.Topic = true, []byte("Compact") }, element(nil, "x"), wire.MessageIllegal, "key"},
		"retry topic of no group":   {func(h *header) { h.Topic = []byte("%RETRY%" + strings.Repeat("g", 121)) }, "x", wire.SubscriptionGroupNotExist, "longer"},
		"unknown batch not created": {func(h *header) { h.Batch, h.Topic, h.DefaultTopic = true, []byte("New"), nil }, element(nil, "x"), wire.SystemError, "c: missing"},
	} {
		t.Run(name, func(t *testing.T) {
			h := nodetest.SendHeader("T", 0)
			tc.change(h)
			req := nodetest.NewRequest(wire.SendMessageV2, h, []byte(tc.body))
			if h.DefaultTopic == nil {
				req.Fields = without(req.Fields, "c")
			}
			ans, err := c.Try(req)
			if err != nil {
				t.Fatal(err)
			}
			if ans.Code != tc.code || !strings.Contains(string(ans.Remark), tc.remark) {
				t.Errorf("answered %d %s, want %d with %q", ans.Code, ans.Remark, tc.code, tc.remark)
			}
		})
	}
	for id := range int32(4) {
		if records, ans := c.Pull("G", "T", id, 0); len(records) != 0 {
			t.Errorf("queue %d holds %d refused messages: %s", id, len(records), ans.Remark)
		}
	}
}

func without(fields []wire.Field, key string) (left []wire.Field) {
	for _, f := range fields {
		if string(f.Key) != key {
			left = append(left, f)
		}
	}
	return left
}

// TestSendBatch: each element is a record of its own, with its own properties only, and all get
// consecutive places.
func TestSendBatch(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	newTopic(t, c, "T", "")
	c.Send("T", 3, "before")
	var body []byte
	for i := range 3 {
		e := record.Element{Flag: int32(i), Body: fmt.Append(nil, "b", i), Props: props("TAGS", fmt.Sprint("t", i))}
		body = e.Append(body)
	}
	h := nodetest.SendHeader("T", 3)
	h.Batch = true
	ans := c.Must(wire.SendBatchMessage, h, body)
	var got wire.SendAnswer
	if err := got.Parse(ans); err != nil {
		t.Fatal(err)
	}
	ids := strings.Split(string(got.MsgID), ",")
	if len(ids) != 3 || got.QueueOffset != 1 || got.QueueID != 3 {
		t.Fatalf("answer %+v, want three ids from offset 1 of queue 3", got)
	}
	records, _ := c.Pull("G", "T", 3, 1)
	if len(records) != 3 {
		t.Fatalf("%d records, want 3", len(records))
	}
	for i, r := range records {
		if string(r.Body) != fmt.Sprint("b", i) || r.Flag != int32(i) || r.QueueOffset != int64(1+i) {
			t.Errorf("record %d: %+v", i, r)
		}
		if p := propMap(r.Props); !maps.Equal(p, map[string]string{"TAGS": fmt.Sprint("t", i)}) {
			t.Errorf("record %d has the properties %v", i, p)
		}
		if _, at, _ := record.ParseMsgID(ids[i]); at != r.PhysOffset {
			t.Errorf("record %d at %d has the id of %d", i, r.PhysOffset, at)
		}
	}
}

// TestSendCreatesTopic: the first message for an unknown topic makes it, after the template, before
// it is answered.
func TestSendCreatesTopic(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	c := n.Client()
	if got := c.Send("Fresh", -1, "x"); got.QueueID < 0 || got.QueueID > 3 || got.QueueOffset != 0 {
		t.Errorf("answer %+v", got)
	}
	route := routeOf(t, n, "Fresh")
	if len(route.QueueDatas) != 1 || route.QueueDatas[0].WriteQueueNums != 4 || route.QueueDatas[0].Perm != 6 {
		t.Errorf("route %+v, want four queues of perm 6", route)
	}
	if addr := route.BrokerDatas[0].BrokerAddrs[0]; addr != n.Config.Advertise {
		t.Errorf("route names %s, want %s", addr, n.Config.Advertise)
	}
}

func routeOf(t *testing.T, n *nodetest.Node, name string) (route wire.RouteData) {
	t.Helper()
	addr, _ := n.NamesrvAddr()
	ans := nodetest.Dial(t, addr.String()).Must(wire.GetRouteInfoByTopic, &wire.GetRouteRequest{Topic: name}, nil)
	if err := wire.Unmarshal(ans.Body, &route); err != nil {
		t.Fatal(err)
	}
	return route
}

// TestSendToRetryTopic: the group is made on the way, and a message that was tried too often is a
// dead letter.
func TestSendToRetryTopic(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	h := nodetest.SendHeader("%RETRY%G", 0)
	h.ReconsumeTimes = 16
	c.Must(wire.SendMessageV2, h, []byte("sixteenth"))
	h.ReconsumeTimes = 17
	h.Properties = props("DELAY", "18")
	c.Must(wire.SendMessageV2, h, []byte("last"))
	for name, want := range map[string]string{"%RETRY%G": "sixteenth", "%DLQ%G": "last"} {
		records, ans := c.Pull("G", name, 0, 0)
		if len(records) != 1 || string(records[0].Body) != want || string(records[0].Topic) != name {
			t.Errorf("%s: %d records, %s; want one, %q", name, len(records), ans.Remark, want)
		}
	}
	dead, _ := c.Pull("G", "%DLQ%G", 0, 0)
	if got := propMap(dead[0].Props)["DELAY"]; got != "-1" || dead[0].ReconsumeTimes != 17 {
		t.Errorf("the dead letter has DELAY=%s and %d tries, want -1 and 17", got, dead[0].ReconsumeTimes)
	}
}

// TestSendToRetryTopicInOrder: who consumes in order has tried as often as it may when it sends a message to
// its retry topic.
func TestSendToRetryTopicInOrder(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	c := n.Client()
	newTopic(t, c, "T", "")
	lock := func() {
		c.Must(wire.LockBatchMQ, nil, []byte(`{"clientId":"c","consumerGroup":"G","mqSet":[{"brokerName":"b","queueId":0,"topic":"T"}]}`))
	}
	send := func(group, body string) {
		h := nodetest.SendHeader("%RETRY%"+group, 0)
		h.ReconsumeTimes, h.MaxReconsumeTimes, h.Properties = 3, 3, props("DELAY", "6")
		c.Must(wire.SendMessageV2, h, []byte(body))
	}
	lock()
	send("G", "in order")
	send("Other", "of another group")
	n.Clock.Advance(61 * time.Second) // the lock is over: nobody has asked for it again
	send("G", "no longer in order")
	n.Clock.Advance(3 * time.Minute)
	for name, want := range map[string]string{"%DLQ%G": "in order", "%RETRY%G": "no longer in order", "%RETRY%Other": "of another group"} {
		if got := await(t, c, name, 0, 0, 1); len(got) != 1 || string(got[0].Body) != want {
			t.Errorf("%s: %d messages, the first %q, want %q", name, len(got), got[0].Body, want)
		}
	}
}

// TestOnewayIsSilent: neither success nor failure is answered, and the next answer belongs to the
// next request.
func TestOnewayIsSilent(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	newTopic(t, c, "T", "")
	for _, name := range []string{"T", "../T"} {
		if err := c.Oneway(nodetest.NewRequest(wire.SendMessageV2, nodetest.SendHeader(name, 0), []byte("x"))); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.Send("T", 0, "y"); got.QueueOffset != 1 {
		t.Errorf("the second message of the queue got offset %d", got.QueueOffset)
	}
}

// TestReadYourWrites: once a send is answered, the maximum offset counts it.
func TestReadYourWrites(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	newTopic(t, c, "T", "")
	for i := range int64(50) {
		c.Send("T", 0, "x")
		if got := maxOffset(c, "T", 0); got != i+1 {
			t.Fatalf("after %d sends the maximum is %d", i+1, got)
		}
	}
}

func maxOffset(c *nodetest.Client, name string, queue int32) int64 {
	ans := c.Must(wire.GetMaxOffset, &wire.QueueRequest{Topic: name, QueueID: queue, Committed: true}, nil)
	var h wire.OffsetAnswer
	if h.Parse(ans) != nil {
		return -1
	}
	return h.Offset
}
