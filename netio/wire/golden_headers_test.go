package wire

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// header is what all typed headers can do.
type header interface {
	Parse(c *Command) error
	Append(c *Command)
}

// requestHeaders and answerHeaders make an empty typed header for a code.
var requestHeaders = map[Code]func() header{
	SendMessage:              func() header { return &SendRequest{} },
	SendMessageV2:            func() header { return &SendRequest{} },
	SendBatchMessage:         func() header { return &SendRequest{} },
	PullMessage:              func() header { return &PullRequest{} },
	LitePullMessage:          func() header { return &PullRequest{} },
	QueryConsumerOffset:      func() header { return &QueryOffsetRequest{} },
	UpdateConsumerOffset:     func() header { return &UpdateOffsetRequest{} },
	QueryMessage:             func() header { return &QueryMessageRequest{} },
	ViewMessageByID:          func() header { return &ViewMessageRequest{} },
	GetConsumeStats:          func() header { return &ConsumeStatsRequest{} },
	QueryTopicsByConsumer:    func() header { return &GroupRequest{} },
	ConsumerSendMsgBack:      func() header { return &SendBackRequest{} },
	UpdateAndCreateTopic:     func() header { return &CreateTopicRequest{} },
	SearchOffsetByTimestamp:  func() header { return &SearchOffsetRequest{} },
	GetMaxOffset:             func() header { return &QueueRequest{} },
	GetMinOffset:             func() header { return &QueueRequest{} },
	GetEarliestMsgStoretime:  func() header { return &QueueRequest{} },
	UnregisterClient:         func() header { return &UnregisterRequest{} },
	GetConsumerListByGroup:   func() header { return &ConsumerListRequest{} },
	NotifyConsumerIdsChanged: func() header { return &NotifyIdsChanged{} },
	RegisterBroker:           func() header { return &RegisterBrokerRequest{} },
	UnregisterBroker:         func() header { return &UnregisterBrokerRequest{} },
	GetRouteInfoByTopic:      func() header { return &GetRouteRequest{} },
	QueryDataVersion:         func() header { return &QueryDataVersionRequest{} },
}

var answerHeaders = map[Code]func() header{
	SendMessage:             func() header { return &SendAnswer{} },
	SendMessageV2:           func() header { return &SendAnswer{} },
	SendBatchMessage:        func() header { return &SendAnswer{} },
	PullMessage:             func() header { return &PullAnswer{} },
	LitePullMessage:         func() header { return &PullAnswer{} },
	QueryConsumerOffset:     func() header { return &OffsetAnswer{} },
	SearchOffsetByTimestamp: func() header { return &OffsetAnswer{} },
	GetMaxOffset:            func() header { return &OffsetAnswer{} },
	GetMinOffset:            func() header { return &OffsetAnswer{} },
	GetEarliestMsgStoretime: func() header { return &StoreTimeAnswer{} },
	QueryMessage:            func() header { return &QueryMessageAnswer{} },
	HeartBeat:               func() header { return &HeartbeatAnswer{} },
	RegisterBroker:          func() header { return &RegisterBrokerAnswer{} },
	QueryDataVersion:        func() header { return &QueryDataVersionAnswer{} },
}

// notTaken are fields of captured requests that no typed header takes, as they change nothing for a
// broker: which broker the client means, namespace, marks of proxies, "is a logical queue", signatures.
var notTaken = []string{"bname", "ns", "nsd", "ReqT", "lo", "oway", "namespace", "nsd", "AccessKey", "Signature"}

// TestExchangesTypedHeaders takes every captured request and successful answer of the codes above
// apart, sets its fields again and compares. Requests that a stock broker answered with an error may
// be malformed on purpose; then the header must complain about a field.
func TestExchangesTypedHeaders(t *testing.T) {
	requests, answers, refused := map[Code]int{}, map[Code]int{}, 0
	exchanges(t, func(e *exchange) {
		if strings.HasPrefix(e.Scenario, "no header and no body") {
			return // fields are missing by intent; stock brokers take some of these for all defaults
		}
		if make := requestHeaders[e.Code]; make != nil {
			c := parsed(t, unhex(t, e.Request))
			if e.RespCode != nil && *e.RespCode != Success && make().Parse(c) != nil {
				refused++
			} else {
				requests[e.Code]++
				checkTyped(t, e.String(), c, make)
			}
		}
		if make := answerHeaders[e.Code]; make != nil && e.Response != "" && *e.RespCode == Success {
			answers[e.Code]++
			checkTyped(t, e.String()+" answer", parsed(t, unhex(t, e.Response)), make)
		}
	})
	for code := range requestHeaders {
		if requests[code] == 0 {
			t.Errorf("no request %v", code)
		}
	}
	for code := range answerHeaders {
		if answers[code] == 0 {
			t.Errorf("no answer to %v", code)
		}
	}
	t.Logf("%d refused requests", refused)
}

func checkTyped(t *testing.T, where string, c *Command, make func() header) {
	t.Helper()
	h := make()
	if err := h.Parse(c); err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	again := &Command{Code: c.Code}
	h.Append(again)
	h2 := make()
	if err := h2.Parse(again); err != nil || !reflect.DeepEqual(h, h2) {
		t.Errorf("%s: %+v set and parsed: %+v, %v", where, h, h2, err)
	}
	got := fieldMap(again)
	for key, value := range fieldMap(c) {
		if v, ok := got[key]; ok && v != value {
			t.Errorf("%s: %s=%q became %q", where, key, value, v)
		} else if !ok && !slices.Contains(notTaken, key) && value != "" {
			t.Errorf("%s: %s=%q was not taken", where, key, value)
		}
	}
}

// bodyTypes holds what captured bodies decode into, by direction and code.
var requestBodies = map[Code]func() any{
	HeartBeat:         func() any { return &HeartbeatBody{} },
	LockBatchMQ:       func() any { return &LockBody{} },
	CheckClientConfig: func() any { return &CheckClientBody{} },
	UnlockBatchMQ:     func() any { return &LockBody{} },
	QueryDataVersion:  func() any { return &DataVersion{} },
}

var answerBodies = map[Code]func() any{
	GetConsumerListByGroup:        func() any { return &ConsumerListBody{} },
	LockBatchMQ:                   func() any { return &LockAnswerBody{} },
	QueryTopicsByConsumer:         func() any { return &TopicList{} },
	GetRouteInfoByTopic:           func() any { return &RouteData{} },
	GetBrokerClusterInfo:          func() any { return &ClusterInfo{} },
	GetAllTopicListFromNameserver: func() any { return &TopicList{} },
	GetTopicsByCluster:            func() any { return &TopicList{} },
	QueryDataVersion:              func() any { return &DataVersion{} },
}

// TestExchangesBodies decodes captured bodies and encodes them again: nothing of them may be lost.
func TestExchangesBodies(t *testing.T) {
	seen := map[Code]int{}
	exchanges(t, func(e *exchange) {
		for text, types := range map[string]map[Code]func() any{e.Request: requestBodies, e.Response: answerBodies} {
			make := types[e.Code]
			if make == nil || text == "" {
				continue
			}
			if c := parsed(t, unhex(t, text)); len(c.Body) > 0 {
				seen[e.Code]++
				checkBody(t, e, c.Body, make())
			}
		}
	})
	for _, types := range []map[Code]func() any{requestBodies, answerBodies} {
		for code := range types {
			if seen[code] == 0 {
				t.Errorf("no body of %v", code)
			}
		}
	}
}

func checkBody(t *testing.T, e *exchange, body []byte, v any) {
	t.Helper()
	if err := Unmarshal(body, v); err != nil {
		t.Errorf("%v: %v in %q", e, err, body)
		return
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Errorf("%v: %v", e, err)
		return
	}
	var was, is any
	if err := Unmarshal(body, &was); err != nil {
		t.Errorf("%v: %v in %q", e, err, body)
	}
	if err := Unmarshal(text, &is); err != nil {
		t.Errorf("%v: %v in %q", e, err, text)
	}
	if lost := lostOf(was, is, ""); lost != "" {
		t.Errorf("%v: %s is lost\n of %s\n in %s", e, lost, body, text)
	}
}

// lostOf names the first thing of a that b has not. Nulls and differences of mere type (a number as
// a text) do not count.
func lostOf(a, b any, path string) string {
	switch a := a.(type) {
	case nil:
		return ""
	case map[string]any:
		m, ok := b.(map[string]any)
		for k, v := range a {
			if lost := lostOf(v, m[k], path+"."+k); lost != "" {
				return lost
			}
		}
		if !ok {
			return path
		}
	case []any:
		l, ok := b.([]any)
		if !ok || len(l) != len(a) {
			return path
		}
		for i, v := range a {
			if lost := lostOf(v, l[i], path+"[]"); lost != "" {
				return lost
			}
		}
	default:
		if text(a) != text(b) {
			return path
		}
	}
	return ""
}

func text(v any) string {
	b, _ := json.Marshal(v)
	return strings.Trim(string(b), `"`)
}

// TestRouteBytes: a route goes out byte for byte as the stock name server sends it, because Go
// clients take it apart at commas and colons.
func TestRouteBytes(t *testing.T) {
	routes := 0
	exchanges(t, func(e *exchange) {
		if e.Code != GetRouteInfoByTopic || e.Response == "" {
			return
		}
		body := parsed(t, unhex(t, e.Response)).Body
		if len(body) == 0 {
			return
		}
		var r RouteData
		if err := Unmarshal(body, &r); err != nil {
			t.Errorf("%v: %v", e, err)
		}
		got, err := json.Marshal(r)
		// The stock name server leaves integer keys bare for clients older than V4_9_4; ours never.
		want := strings.ReplaceAll(string(body), "{0:", `{"0":`)
		if routes++; err != nil || string(got) != want {
			t.Errorf("%v: %v\n got %s\nwant %s", e, err, got, want)
		}
	})
	if routes < 10 {
		t.Errorf("only %d routes", routes)
	}
}

// TestConsumeStatsBytes: a body goes out as the stock broker sends it, but for the order of its queues.
func TestConsumeStatsBytes(t *testing.T) {
	queues := 0
	exchanges(t, func(e *exchange) {
		if e.Code != GetConsumeStats || e.RespCode == nil || *e.RespCode != Success {
			return
		}
		body := parsed(t, unhex(t, e.Response)).Body
		var b, again ConsumeStatsBody
		if err := Unmarshal(body, &b); err != nil {
			t.Errorf("%v: %v", e, err)
		}
		got, err := b.Append(nil)
		if err != nil || Unmarshal(got, &again) != nil || !reflect.DeepEqual(again, b) {
			t.Errorf("%v: %v in %s", e, err, got)
		}
		sorted := func(b []byte) string { return string(slices.Sorted(slices.Values(b))) }
		want := strings.ReplaceAll(string(body), `"consumeTps":0.0,`, `"consumeTps":0,`)
		if sorted(got) != sorted([]byte(want)) {
			t.Errorf("%v:\n got %s\nwant %s", e, got, want)
		}
		queues += len(b.OffsetTable)
	})
	if queues < 20 {
		t.Errorf("only %d queues", queues)
	}
}

// TestRegistrations decodes captured registrations of both forms, and ours again.
func TestRegistrations(t *testing.T) {
	plain, packed := 0, 0
	exchanges(t, func(e *exchange) {
		if e.Code != RegisterBroker || e.Client == "raw" && e.Scenario != "register broker, compressed=true" {
			return
		}
		c := parsed(t, unhex(t, e.Request))
		if len(c.Body) == 0 {
			return
		}
		compressed := c.Body[0] != '{' // some stock brokers say otherwise in the header
		if compressed {
			packed++
		} else {
			plain++
		}
		var h RegisterBrokerRequest
		if err := h.Parse(c); err != nil || uint32(h.BodyCRC32) != CRC32(c.Body) {
			t.Errorf("%v: crc %d, body has %d, %v", e, h.BodyCRC32, CRC32(c.Body), err)
		}
		b, err := ParseRegisterBody(c.Body, compressed)
		if err != nil || len(b.TopicConfigSerializeWrapper.TopicConfigTable) == 0 {
			t.Errorf("%v: %+v, %v", e, b, err)
			return
		}
		for _, form := range []bool{false, true} {
			checkRegistration(t, e, b, form)
		}
	})
	if plain == 0 || packed < 2 {
		t.Errorf("%d plain, %d compressed", plain, packed)
	}
}

func checkRegistration(t *testing.T, e *exchange, b *RegisterBody, compressed bool) {
	t.Helper()
	body, err := b.Encode(compressed)
	if err != nil {
		t.Errorf("%v: %v", e, err)
	}
	again, err := ParseRegisterBody(body, compressed)
	if err != nil {
		t.Errorf("%v: compressed=%v: %v", e, compressed, err)
		return
	}
	want := *b
	if compressed {
		want.TopicConfigSerializeWrapper.MappingDataVersion = DataVersion{} // has no place in it
	}
	if !reflect.DeepEqual(again, &want) {
		t.Errorf("%v: compressed=%v: %+v\nbecame %+v", e, compressed, b, again)
	}
}
