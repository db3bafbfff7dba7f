package wire

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
)

// full holds every typed header with all its fields set, and under which code it travels.
var full = []struct {
	code Code
	h    header
}{
	{SendMessage, &fullSend}, {SendMessageV2, &fullSend}, {SendBatchMessage, &fullSend},
	{Success, &SendAnswer{[]byte("id"), 3, 1 << 40, []byte("tx"), []byte("bu"), []byte("rh"), []byte("r"), true}},
	{PullMessage, &PullRequest{[]byte("g"), []byte("T"), 3, 1 << 40, 32, 7, 1 << 41, 15000, []byte("A||B"), 1 << 42,
		[]byte("TAG"), 1 << 20, 2, []byte("me"), []byte("b")}},
	{Success, &PullAnswer{1, 2, 3, 4, 5, 6}},
	{QueryConsumerOffset, &QueryOffsetRequest{[]byte("g"), []byte("T"), 3, false}},
	{UpdateConsumerOffset, &UpdateOffsetRequest{[]byte("g"), []byte("T"), 3, 1 << 40}},
	{ConsumerSendMsgBack, &SendBackRequest{1 << 40, []byte("g"), -1, []byte("id"), []byte("T"), true, 16}},
	{ConsumerSendMsgBack, &SendBackRequest{Group: []byte("g"), MaxReconsumeTimes: -1}},
	{GetMaxOffset, &QueueRequest{"T", 3, false}}, {GetMinOffset, &QueueRequest{"T", 3, true}},
	{SearchOffsetByTimestamp, &SearchOffsetRequest{"T", 3, 1 << 40, true}},
	{SearchOffsetByTimestamp, &SearchOffsetRequest{"T", 3, 1 << 40, false}},
	{Success, &OffsetAnswer{math.MaxInt64}}, {Success, &StoreTimeAnswer{-1}},
	{UnregisterClient, &UnregisterRequest{"c", "p", "g"}},
	{GetConsumerListByGroup, &ConsumerListRequest{"g"}},
	{NotifyConsumerIdsChanged, &NotifyIdsChanged{"g"}},
	{Success, &HeartbeatAnswer{true, true}},
	{UpdateAndCreateTopic, &CreateTopicRequest{"T", "TBW102", 4, 5, 6, "MULTI_TAG", 1, true, "+a=b", true}},
	{GetRouteInfoByTopic, &GetRouteRequest{"T", true}},
	{UnregisterBroker, &UnregisterBrokerRequest{identity}},
	{QueryDataVersion, &QueryDataVersionRequest{identity}},
	{Success, &QueryDataVersionAnswer{true}},
	{RegisterBroker, &RegisterBrokerRequest{identity, "h:1", 10000, true, true, 5, "z"}},
	{Success, &RegisterBrokerAnswer{"h:1", "m:1"}},
}

var identity = BrokerIdentity{"b", "h:2", "c", 1}

var fullSend = SendRequest{[]byte("p"), []byte("T"), []byte("TBW102"), 4, -1, 1, 1 << 40, 2, []byte("K\x01v\x02"), 3, true, 16, true, []byte("b")}

func fresh(h header) header { return reflect.New(reflect.TypeOf(h).Elem()).Interface().(header) }

// TestHeadersRoundTrip: what Append sets, Parse takes, by itself and through a frame of either form.
func TestHeadersRoundTrip(t *testing.T) {
	for _, c := range full {
		for _, form := range []Encoding{JSON, RocketMQ} {
			cmd := Command{Code: c.code, Encoding: form}
			c.h.Append(&cmd)
			got := fresh(c.h)
			if err := got.Parse(parsed(t, cmd.Append(nil))); err != nil || !reflect.DeepEqual(got, c.h) {
				t.Errorf("%T %v form %d: %v\n got %+v\nwant %+v", c.h, c.code, form, err, got, c.h)
			}
		}
	}
}

// TestHeadersNameTheField: without any one of its fields a header either parses or says which one it
// misses; with rubbish in its place it parses (a text) or says so with the name and the value.
func TestHeadersNameTheField(t *testing.T) {
	const rubbish = "1x"
	for _, c := range full {
		all := Command{Code: c.code}
		c.h.Append(&all)
		for i, f := range all.Fields {
			name := string(f.Key)

			without := all.Clone()
			without.Fields[i].Value = nil
			checkFieldError(t, fmt.Sprintf("%T without %s", c.h, name), fresh(c.h).Parse(without), name+": missing")

			wrong := all.Clone()
			wrong.Fields[i].Value = []byte(rubbish)
			checkFieldError(t, fmt.Sprintf("%T with wrong %s", c.h, name), fresh(c.h).Parse(wrong), name+`="1x": want `)
		}
	}
}

func checkFieldError(t *testing.T, where string, err error, want string) {
	t.Helper()
	if err == nil {
		return
	}
	var fe *FieldError
	if !errors.As(err, &fe) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%s: %v, want %s…", where, err, want)
	}
}

// TestRequiredFields lists what each request cannot do without. All other fields may be absent.
func TestRequiredFields(t *testing.T) {
	for _, c := range []struct {
		code     Code
		h        header
		required string
	}{
		{SendMessage, &SendRequest{}, "producerGroup topic defaultTopic defaultTopicQueueNums queueId sysFlag bornTimestamp flag"},
		{SendMessageV2, &SendRequest{}, "a b c d e f g h"},
		{SendBatchMessage, &SendRequest{}, "a b c d e f g h"},
		{PullMessage, &PullRequest{}, "consumerGroup topic queueId queueOffset maxMsgNums sysFlag commitOffset suspendTimeoutMillis subVersion"},
		{QueryConsumerOffset, &QueryOffsetRequest{}, "consumerGroup topic queueId"},
		{UpdateConsumerOffset, &UpdateOffsetRequest{}, "consumerGroup topic queueId commitOffset"},
		{ConsumerSendMsgBack, &SendBackRequest{}, "offset group delayLevel"},
		{GetMaxOffset, &QueueRequest{}, "topic queueId"},
		{SearchOffsetByTimestamp, &SearchOffsetRequest{}, "topic queueId timestamp"},
		{UnregisterClient, &UnregisterRequest{}, "clientID"},
		{GetConsumerListByGroup, &ConsumerListRequest{}, "consumerGroup"},
		{NotifyConsumerIdsChanged, &NotifyIdsChanged{}, "consumerGroup"},
		{UpdateAndCreateTopic, &CreateTopicRequest{}, "topic defaultTopic readQueueNums writeQueueNums perm topicFilterType"},
		{GetRouteInfoByTopic, &GetRouteRequest{}, "topic"},
		{UnregisterBroker, &UnregisterBrokerRequest{}, "brokerName brokerAddr clusterName brokerId"},
		{QueryDataVersion, &QueryDataVersionRequest{}, "brokerName brokerAddr clusterName brokerId"},
		{RegisterBroker, &RegisterBrokerRequest{}, "brokerName brokerAddr clusterName brokerId haServerAddr"},
	} {
		cmd := Command{Code: c.code}
		for name := range strings.FieldsSeq(c.required) {
			if err := c.h.Parse(&cmd); err == nil || err.Error() != name+": missing" {
				t.Errorf("%v: %v, want %s: missing", c.code, err, name)
			}
			value := "1"
			if name == "topicFilterType" {
				value = "SINGLE_TAG"
			}
			cmd.Set(name, value)
		}
		if err := c.h.Parse(&cmd); err != nil {
			t.Errorf("%v: %v with all that is required", c.code, err)
		}
	}
}

// TestAbsentFields: what stands for an optional field that is not there.
func TestAbsentFields(t *testing.T) {
	send, pull := Command{Code: SendMessageV2}, Command{Code: PullMessage}
	for _, name := range sendShort[:sendFlag+1] {
		send.Set(name, "1")
	}
	for _, name := range pullNames[:pullSubVersion+1] {
		pull.Set(name, "1")
	}
	s := fullSend // of an earlier request
	if err := s.Parse(&send); err != nil || s.MaxReconsumeTimes != -1 || s.ReconsumeTimes != 0 || s.Batch || s.Properties != nil {
		t.Errorf("send: %+v, %v", s, err)
	}
	var p PullRequest
	if err := p.Parse(&pull); err != nil || p.MaxMsgBytes != -1 || p.RequestSource != -1 || p.Subscription != nil {
		t.Errorf("pull: %+v, %v", p, err)
	}
	var q QueueRequest
	queue := Command{Code: GetMaxOffset}
	queue.Set("topic", "T")
	queue.Set("queueId", "0")
	if err := q.Parse(&queue); err != nil || !q.Committed {
		t.Errorf("queue: %+v, %v", q, err)
	}
}

// TestIntegers: the rules of Java's Integer.parseInt and Long.parseLong.
func TestIntegers(t *testing.T) {
	for _, c := range []struct {
		text string
		n32  any // int64, or nil for an error
		n64  any
	}{
		{"0", 0, 0}, {"-0", 0, 0}, {"+7", 7, 7}, {"-7", -7, -7}, {"007", 7, 7}, {"-00000000000000000000000000000000012", -12, -12}, {"00000000000000000009223372036854775808", nil, nil},
		{"2147483647", 2147483647, 2147483647}, {"2147483648", nil, 2147483648},
		{"-2147483648", -2147483648, -2147483648}, {"-2147483649", nil, -2147483649},
		{"9223372036854775807", nil, 9223372036854775807}, {"9223372036854775808", nil, nil},
		{"-9223372036854775808", nil, -9223372036854775808}, {"-9223372036854775809", nil, nil},
		{"18446744073709551616", nil, nil}, {"99999999999999999999999999", nil, nil},
		{"", nil, nil}, {"-", nil, nil}, {"+", nil, nil}, {"+-1", nil, nil}, {" 1", nil, nil}, {"1 ", nil, nil},
		{"1.0", nil, nil}, {"1e3", nil, nil}, {"0x1", nil, nil}, {"1_0", nil, nil}, {"true", nil, nil},
	} {
		for bits, want := range map[int]any{32: c.n32, 64: c.n64} {
			n, err := integer("f", []byte(c.text), bits)
			switch w := want.(type) {
			case nil:
				if msg := fmt.Sprintf("f=%q: want a decimal int%d", c.text, bits); err == nil || err.Error() != msg {
					t.Errorf("%q of %d bits: %d, %v; want %s", c.text, bits, n, err, msg)
				}
			case int:
				if err != nil || n != int64(w) {
					t.Errorf("%q of %d bits: %d, %v; want %d", c.text, bits, n, err, w)
				}
			}
		}
	}
}

func TestBooleans(t *testing.T) {
	for text, want := range map[string]bool{"true": true, "TRUE": true, "tRuE": true, "false": false, "1": false, "yes": false, "": false} {
		if isTrue([]byte(text)) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

func TestBoundaryType(t *testing.T) {
	for text, want := range map[string]bool{"UPPER": true, "upper": true, "LOWER": false, "else": false, "": false} {
		c := Command{Code: SearchOffsetByTimestamp}
		(&SearchOffsetRequest{Topic: "T"}).Append(&c)
		c.Set("boundaryType", text)
		var h SearchOffsetRequest
		if err := h.Parse(&c); err != nil || h.Upper != want {
			t.Errorf("%q: %v, %v", text, h.Upper, err)
		}
	}
}

func TestFilterType(t *testing.T) {
	c := Command{Code: UpdateAndCreateTopic}
	(&CreateTopicRequest{TopicFilterType: "NONE"}).Append(&c)
	err := (&CreateTopicRequest{}).Parse(&c)
	if want := `topicFilterType="NONE": want SINGLE_TAG or MULTI_TAG`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestErrorsAreShort: a stranger's megabyte does not come back to him, nor go to the log.
func TestErrorsAreShort(t *testing.T) {
	c := Command{Code: GetMaxOffset}
	c.Set("topic", "T")
	c.Set("queueId", strings.Repeat("x", 1<<20))
	if err := (&QueueRequest{}).Parse(&c); err == nil || len(err.Error()) > 200 {
		t.Errorf("%.300v", err)
	}
}
