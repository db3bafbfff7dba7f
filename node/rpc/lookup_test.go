package rpc_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
	"ringmq/store/record"
)

// sendKeyed stores a message with properties and returns its physical offset.
func sendKeyed(t *testing.T, c *nodetest.Client, topic, body string, props ...string) int64 {
	t.Helper()
	h := nodetest.SendHeader(topic, 0)
	for i := 0; i < len(props); i += 2 {
		h.Properties = record.AppendProp(h.Properties, props[i], props[i+1])
	}
	var ans wire.SendAnswer
	if err := ans.Parse(c.Must(wire.SendMessageV2, h, []byte(body))); err != nil {
		t.Fatal(err)
	}
	_, at, err := record.ParseMsgID(string(ans.MsgID))
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func byKey(topic, key, kind string) *wire.QueryMessageRequest {
	return &wire.QueryMessageRequest{Topic: topic, Key: key, MaxNum: 64, EndTimestamp: math.MaxInt64, IndexType: kind}
}

// lookUp asks for messages and returns their physical offsets.
func lookUp(t *testing.T, c *nodetest.Client, h *wire.QueryMessageRequest) (found []int64) {
	t.Helper()
	ans := c.Ask(wire.QueryMessage, h, nil)
	var head wire.QueryMessageAnswer
	if err := head.Parse(ans); err != nil {
		t.Fatalf("%d %s: %v", ans.Code, ans.Remark, err)
	}
	for _, r := range nodetest.Records(t, ans.Body) {
		found = append(found, r.PhysOffset)
	}
	if want := (len(found) > 0); want != (ans.Code == wire.Success) || !want && ans.Code != wire.QueryNotFound || want != (head.IndexLastUpdateTimestamp > 0) {
		t.Errorf("%d %s %+v with %d messages", ans.Code, ans.Remark, head, len(found))
	}
	return found
}

// indexed waits until the newest message can be found by its key; the index works on its own time.
func indexed(t *testing.T, c *nodetest.Client, topic, key string) {
	t.Helper()
	nodetest.Until(t, "the index has the last message", func() bool { return len(lookUp(t, c, byKey(topic, key, "K"))) > 0 })
}

// TestLookUp: by each of its keys, by the client's id and by its tags; of one topic only; the newest, in the order of
// the log; within a time. "Aa" and "BB" have one hash.
func TestLookUp(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	c := n.Client()
	newTopic(t, c, "T", "")
	newTopic(t, c, "U", "")
	begin := n.Clock.Now().UnixMilli()
	var a []int64
	for i := range 3 { // at 0 s, 10 s, 20 s
		a = append(a, sendKeyed(t, c, "T", "a", "KEYS", "Aa two", "UNIQ_KEY", fmt.Sprint("id", i), "TAGS", "blue"))
		n.Clock.Advance(10 * time.Second)
	}
	twin := sendKeyed(t, c, "T", "b", "KEYS", "BB", "TAGS", "Aa")
	twice := sendKeyed(t, c, "T", "b", "KEYS", "again again")
	other := sendKeyed(t, c, "U", "c", "KEYS", "Aa last")
	indexed(t, c, "U", "last")
	for name, tc := range map[string]struct {
		change func(h *wire.QueryMessageRequest)
		want   []int64
	}{
		"a key":           {func(h *wire.QueryMessageRequest) {}, a},
		"old clients":     {func(h *wire.QueryMessageRequest) { h.IndexType = "" }, a},
		"its other key":   {func(h *wire.QueryMessageRequest) { h.Key = "two" }, a},
		"of equal hash":   {func(h *wire.QueryMessageRequest) { h.Key = "BB" }, []int64{twin}},
		"twice":           {func(h *wire.QueryMessageRequest) { h.Key = "again" }, []int64{twice}},
		"another topic":   {func(h *wire.QueryMessageRequest) { h.Topic = "U" }, []int64{other}},
		"tags":            {func(h *wire.QueryMessageRequest) { h.Key, h.IndexType = "blue", "T" }, a},
		"tags like a key": {func(h *wire.QueryMessageRequest) { h.IndexType = "T" }, []int64{twin}},
		"no such topic":   {func(h *wire.QueryMessageRequest) { h.Topic = "Nowhere" }, nil},
		"no such key":     {func(h *wire.QueryMessageRequest) { h.Key = "none" }, nil},
		"empty key":       {func(h *wire.QueryMessageRequest) { h.Key = "" }, nil},
		"the newest":      {func(h *wire.QueryMessageRequest) { h.MaxNum = 2 }, a[1:]},
		"the id":          {func(h *wire.QueryMessageRequest) { h.Key, h.UniqueKey, h.IndexType = "id1", true, "U" }, a[1:2]},
		"the id, any max": {func(h *wire.QueryMessageRequest) { h.Key, h.UniqueKey, h.MaxNum = "id1", true, 0 }, a[1:2]},
		"from then on":    {func(h *wire.QueryMessageRequest) { h.BeginTimestamp = begin + 5000 }, a[1:]},
		"up to then":      {func(h *wire.QueryMessageRequest) { h.EndTimestamp = begin + 15000 }, a[:2]},
		"never":           {func(h *wire.QueryMessageRequest) { h.BeginTimestamp, h.EndTimestamp = begin+15000, begin+5000 }, nil},
	} {
		h := byKey("T", "Aa", "K")
		tc.change(h)
		if got := lookUp(t, c, h); !slices.Equal(got, tc.want) {
			t.Errorf("%s: found %v, want %v", name, got, tc.want)
		}
	}
	h := byKey("T", "Aa", "K")
	h.MaxNum = 0
	wantRefused(t, c.Ask(wire.QueryMessage, h, nil), wire.InvalidParameter, "maxNum=0")
}

// TestLookUpBounds: however many messages have the key, an answer has the 64 newest, and of large ones as many as fit
// into 8 MiB.
func TestLookUpBounds(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{Config: map[string]string{"mappedFileSizeCommitLog": strconv.Itoa(64 << 20)}})
	c := n.Client()
	newTopic(t, c, "T", "")
	var small, large []int64
	for range 70 {
		small = append(small, sendKeyed(t, c, "T", "x", "KEYS", "small"))
	}
	body := strings.Repeat("x", 3<<20)
	for range 4 {
		large = append(large, sendKeyed(t, c, "T", body, "KEYS", "large"))
	}
	sendKeyed(t, c, "T", "x", "KEYS", "last")
	indexed(t, c, "T", "last")
	h := byKey("T", "small", "K")
	h.MaxNum = math.MaxInt32
	if got := lookUp(t, c, h); !slices.Equal(got, small[6:]) {
		t.Errorf("found %d small ones, %v", len(got), got)
	}
	if got := lookUp(t, c, byKey("T", "large", "K")); !slices.Equal(got, large[2:]) {
		t.Errorf("found the large ones at %v, want %v", got, large[2:])
	}
}

// TestLookUpWithoutIndex: "not found" would be a lie.
func TestLookUpWithoutIndex(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{Config: map[string]string{"messageIndexEnable": "false"}}).Client()
	wantRefused(t, c.Ask(wire.QueryMessage, byKey("T", "k", "K"), nil), wire.SystemError, "messageIndexEnable")
}

// TestView: the message that a message id names, and nothing at any other offset.
func TestView(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	newTopic(t, c, "T", "")
	first, second := sendKeyed(t, c, "T", "one"), sendKeyed(t, c, "T", "two", "KEYS", "k")
	for at, body := range map[int64]string{first: "one", second: "two"} {
		for _, topic := range []string{"T", "", "Other"} {
			found := nodetest.Records(t, c.Must(wire.ViewMessageByID, &wire.ViewMessageRequest{Topic: topic, Offset: at}, nil).Body)
			if len(found) != 1 || string(found[0].Body) != body || found[0].PhysOffset != at {
				t.Errorf("at %d: %+v", at, found)
			}
		}
	}
	for _, at := range []int64{-1, first + 1, second - 1, second + 1, 1 << 20, math.MaxInt64} {
		ans := c.Ask(wire.ViewMessageByID, &wire.ViewMessageRequest{Topic: "T", Offset: at}, nil)
		wantRefused(t, ans, wire.SystemError, "can not find message by the offset, "+itoa(at))
	}
}
