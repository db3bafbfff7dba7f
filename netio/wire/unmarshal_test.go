package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// sample has a member of each kind that Unmarshal fills.
type sample struct {
	Text   string            `json:"text,omitempty"`
	Int    int32             `json:"int"`
	Long   int64             `json:"long"`
	Flag   bool              `json:"flag"`
	Float  float64           `json:"float"`
	List   []int32           `json:"list"`
	Table  map[string]string `json:"table"`
	Ids    map[int64]string  `json:"ids"`
	Sub    *sample           `json:"sub"`
	Any    any               `json:"any"`
	Model  MessageModel      `json:"model"`
	Byname map[mq]int64      `json:"byName"`
	Hidden string            `json:"-"`
	Plain  int8
}

// mq is a queue as stock brokers use it for a key.
type mq struct {
	BrokerName string `json:"brokerName"`
	QueueID    int32  `json:"queueId"`
	Topic      string `json:"topic"`
}

// MarshalText makes a key that is a text holding an object.
func (q mq) MarshalText() ([]byte, error) {
	type bare mq
	return json.Marshal(bare(q))
}

func TestUnmarshal(t *testing.T) {
	key := mq{"b", 3, "T"}
	for _, c := range []struct {
		text string
		want sample
	}{
		{`{}`, sample{}},
		{"{\"text\":\"a\xe8b\",\"table\":{\"\xff\":\"\xc3\"}}", sample{Text: "a\uFFFDb", Table: map[string]string{"\uFFFD": "\uFFFD"}}},
		{`{"text":"a\u0001","int":-5,"long":9007199254740993,"flag":true,"float":1.5}`,
			sample{Text: "a\x01", Int: -5, Long: 9007199254740993, Flag: true, Float: 1.5}},
		{`{"list":[1,"2",3.0],"table":{"a":"b","c":5},"ids":{0:"x","1":"y"}}`,
			sample{List: []int32{1, 2, 3}, Table: map[string]string{"a": "b", "c": "5"}, Ids: map[int64]string{0: "x", 1: "y"}}},
		{`{'text':'single','list':[1,2,],'sub':{'int':1,},}`,
			sample{Text: "single", List: []int32{1, 2}, Sub: &sample{Int: 1}}},
		{`{text:"bare key", /* a comment */ int:1 // another` + "\n}", sample{Text: "bare key", Int: 1}},
		{`{"int":"7","long":"-8","flag":"true","float":"2","text":9}`, sample{Int: 7, Long: -8, Flag: true, Float: 2, Text: "9"}},
		{`{"int":6.0,"long":1e3,"flag":1}`, sample{Int: 6, Long: 1000, Flag: true}},
		{`{"int":"","long":"","float":"","flag":""}`, sample{}},
		{`{"text":null,"int":null,"long":null,"flag":null,"float":null,"list":null,"table":null,"sub":null,"any":null,"model":null}`, sample{}},
		{`{"list":[],"table":{}}`, sample{List: []int32{}, Table: map[string]string{}}},
		{`{"TEXT":"a","In_T":1,"l-ong":2,"BYNAME":{}}`, sample{Text: "a", Int: 1, Long: 2, Byname: map[mq]int64{}}},
		{`{"text":"exact","Text":"close"}`, sample{Text: "close"}},
		{`{"text":"first","text":"last"}`, sample{Text: "last"}},
		{`{"list":[1,2,3],"list":[4],"table":{"a":"1"},"table":{"b":"2"}}`, sample{List: []int32{4}, Table: map[string]string{"b": "2"}}},
		{`{"unknown":{"a":[1,{"b":null}],{"x":1}:2},"int":1,"Hidden":"x","-":"x"}`, sample{Int: 1}},
		{`{"text":{"a" : 1},"table":{"a":[1, 2]}}`, sample{Text: `{"a" : 1}`, Table: map[string]string{"a": "[1, 2]"}}},
		{`{"any":{"a":[1,2.5,"x",true,null,{"b":false}],5:{}}}`, sample{Any: map[string]any{
			"a": []any{int64(1), 2.5, "x", true, nil, map[string]any{"b": false}}, "5": map[string]any{}}}},
		{`{"model":"clustering"}`, sample{Model: Clustering}},
		{`{"model":0}`, sample{Model: Broadcasting}},
		{`{"model":"1"}`, sample{Model: Clustering}},
		{`{"model":"NOBODY_KNOWS"}`, sample{}},
		{`{"model":7}`, sample{}},
		{`{"byName":{{"brokerName":"b","queueId":3,"topic":"T"}:7}}`, sample{Byname: map[mq]int64{key: 7}}},
		{`{"byName":{"{\"brokerName\":\"b\",\"queueId\":3,\"topic\":\"T\"}":7}}`, sample{Byname: map[mq]int64{key: 7}}},
		{`{"plain":-128}`, sample{Plain: -128}},
	} {
		var got sample
		if err := Unmarshal([]byte(c.text), &got); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", c.text, err, got, c.want)
		}
	}
}

func TestUnmarshalErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{"int":"x"}`:                       `"x" is no integer of 32 bits`,
		`{"int":2147483648}`:                `"2147483648" is no integer of 32 bits`,
		`{"int":1.5}`:                       `"1.5" is no integer`,
		`{"plain":128}`:                     `"128" is no integer of 8 bits`,
		`{"long":1e19}`:                     `"1e19" is no integer of 64 bits`,
		`{"int":true}`:                      `"true" is no integer`,
		`{"int":{}}`:                        `"{}" is no integer`,
		`{"flag":"maybe"}`:                  `"maybe" is no boolean`,
		`{"float":"x"}`:                     `"x" is no number`,
		`{"any":-}`:                         `"-" is no number`,
		`{"list":{}}`:                       `want '['`,
		`{"list":1}`:                        `want '['`,
		`{"table":[]}`:                      `want '{'`,
		`{"sub":"x"}`:                       `want '{'`,
		`{"ids":{"x":"y"}}`:                 `"x" is no integer`,
		`{"byName":{"x":1}}`:                `key: JSON at byte 0: want '{'`,
		`{"text":nothing}`:                  `"nothing" is no value`,
		`{"text":"a`:                        `a text without end`,
		`{"text":"\u00"}`:                   `an escape that is none`,
		`{"int":1`:                          `want a comma or '}'`,
		`{"int":1 "long":2}`:                `want a comma or '}'`,
		`{"int" 1}`:                         `want a colon`,
		`{"list":[1,,2]}`:                   `want a value`,
		`{} {}`:                             `something follows the value`,
		`null null`:                         `something follows the value`,
		`[`:                                 `want '{'`,
		`/`:                                 `a slash that begins no comment`,
		`{"x":` + strings.Repeat("[", 1000): `nested deeper than 64`,
	} {
		err := Unmarshal([]byte(text), new(sample))
		if err == nil || !strings.HasPrefix(err.Error(), "wire: JSON at byte ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
	for _, text := range []string{"", " ", "null", " null /* at all */ "} {
		if err := Unmarshal([]byte(text), new(sample)); !errors.Is(err, ErrNoValue) {
			t.Errorf("%q: %v, want ErrNoValue", text, err)
		}
	}
	for _, target := range []any{sample{}, nil, (*sample)(nil)} {
		if err := Unmarshal([]byte(`{}`), target); err == nil {
			t.Errorf("into %T: no error", target)
		}
	}
}

func TestDepthLimit(t *testing.T) {
	nested := func(n int) []byte {
		return []byte(strings.Repeat("[", n) + strings.Repeat("]", n))
	}
	var v any
	if err := Unmarshal(nested(maxDepth), &v); err != nil {
		t.Errorf("%d deep: %v", maxDepth, err)
	}
	if err := Unmarshal(nested(maxDepth+1), &v); err == nil {
		t.Errorf("%d deep: no error", maxDepth+1)
	}
	// Keys that are texts that hold objects whose keys are texts: the depth adds up.
	type key struct {
		K map[mq]int `json:"k"`
	}
	if err := Unmarshal([]byte(`{"k":{"{\"topic\":\"T\"}":1}}`), new(key)); err != nil {
		t.Error(err)
	}
}

// TestMemoryLimit: a body of many small things does not grow beyond a multiple of its size.
func TestMemoryLimit(t *testing.T) {
	const n = 1 << 17
	for name, c := range map[string]struct {
		text string
		into any
	}{
		"empty objects":  {`{"consumerDataSet":[` + strings.Repeat("{},", n) + `]}`, new(HeartbeatBody)},
		"empty pointers": {`[` + strings.Repeat("{},", n) + `]`, new([]*TopicConfig)},
		"table":          {`{` + many(n, func(i int) string { return fmt.Sprintf("%d:{},", i) }) + `}`, new(map[int64]sample)},
	} {
		if err := Unmarshal([]byte(c.text), c.into); err == nil || !strings.Contains(err.Error(), "times its size") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func many(n int, text func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(text(i))
	}
	return b.String()
}

// TestBigBodiesFit: the largest real bodies stay below the limit.
func TestBigBodiesFit(t *testing.T) {
	topics := map[string]TopicConfig{}
	var list TopicList
	var beat HeartbeatBody
	for i := range 20000 {
		name := fmt.Sprint("T", i)
		topics[name] = TopicConfig{TopicName: name, TopicFilterType: "SINGLE_TAG", Attributes: map[string]string{}}
		list.TopicList = append(list.TopicList, name)
		beat.ProducerDataSet = append(beat.ProducerDataSet, ProducerData{name})
		beat.ConsumerDataSet = append(beat.ConsumerDataSet, ConsumerData{GroupName: name,
			SubscriptionDataSet: []SubscriptionData{{Topic: name, TagsSet: []string{"a"}, CodeSet: []int32{97}}}})
	}
	for _, v := range []any{&topics, &list, &beat} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got := reflect.New(reflect.TypeOf(v).Elem()).Interface()
		if err := Unmarshal(text, got); err != nil || !reflect.DeepEqual(got, v) {
			t.Errorf("%T: %v", v, err)
		}
	}
}

// TestTopicDefaults: a topic without some of its members gets the stock values, one by one.
func TestTopicDefaults(t *testing.T) {
	var w TopicConfigWrapper
	err := Unmarshal([]byte(`{"topicConfigTable":{"T":{"topicName":"T","perm":4},"U":{}},"dataVersion":{"counter":"3"}}`), &w)
	want := map[string]TopicConfig{
		"T": {TopicName: "T", Perm: 4, ReadQueueNums: 16, WriteQueueNums: 16, TopicFilterType: "SINGLE_TAG"},
		"U": {Perm: 6, ReadQueueNums: 16, WriteQueueNums: 16, TopicFilterType: "SINGLE_TAG"},
	}
	if err != nil || !reflect.DeepEqual(w.TopicConfigTable, want) || w.DataVersion != (DataVersion{Counter: 3}) {
		t.Errorf("%+v, %v", w, err)
	}
}

// TestHeartbeatOfAnyClient: Go sends hashes as texts and leaves much out; others send nulls.
func TestHeartbeatOfAnyClient(t *testing.T) {
	text := `{clientID:'raw@1',"consumerDataSet":[{"groupName":"g","consumeType":"push","messageModel":"Clustering",
		"consumeFromWhere":4,"subscriptionDataSet":[{"topic":"T","subString":"*","subVersion":"1","tagsSet":null,
		"codeSet":["12","-5"]}]}],"producerDataSet":null}`
	want := HeartbeatBody{ClientID: "raw@1", ConsumerDataSet: []ConsumerData{{
		GroupName: "g", ConsumeType: ConsumePassively, MessageModel: Clustering, ConsumeFromWhere: FromFirstOffset,
		SubscriptionDataSet: []SubscriptionData{{Topic: "T", SubString: "*", SubVersion: 1, CodeSet: []int32{12, -5}}}}}}
	var got HeartbeatBody
	if err := Unmarshal([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n got %+v\nwant %+v", err, got, want)
	}
}

func TestEnums(t *testing.T) {
	for text, want := range map[string]ConsumeType{
		"CONSUME_ACTIVELY": ConsumeActively, "consume_pop": ConsumePop, "PULL": ConsumeActively, "Push": ConsumePassively,
		"POP": ConsumePop, "0": ConsumeActively, "2": ConsumePop, "9": 0, "-1": 0, "": 0, "x": 0,
	} {
		var got ConsumeType
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	for _, w := range []ConsumeFromWhere{FromLastOffset, FromLastOffsetOrMinAtFirstBoot, FromMinOffset, FromMaxOffset, FromFirstOffset, FromTimestamp} {
		text, err := json.Marshal(w)
		var got ConsumeFromWhere
		if err2 := Unmarshal(text, &got); err != nil || err2 != nil || got != w {
			t.Errorf("%s: %v, %v, %v", text, got, err, err2)
		}
	}
	if text, err := json.Marshal(ConsumerData{GroupName: "g"}); err != nil || string(text) != `{"groupName":"g","unitMode":false}` {
		t.Errorf("%s, %v", text, err)
	}
}

func TestRegisterBodyRefuses(t *testing.T) {
	bomb, err := (&RegisterBody{FilterServerList: []string{strings.Repeat("x", MaxFrameBytes)}}).Encode(true)
	if err != nil {
		t.Fatal(err)
	}
	good, err := (&RegisterBody{}).Encode(true)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		body       []byte
		compressed bool
		want       string
	}{
		"empty":       {nil, false, "no value"},
		"not zlib":    {[]byte("{}"), true, "zlib: invalid header"},
		"cut stream":  {good[:len(good)-5], true, "unexpected EOF"},
		"bomb":        {bomb, true, "unpack to more than"},
		"as plain":    {good, false, "JSON at byte 0"},
		"lying count": {packed(t, "\x00\x00\x00\x02{}\xff\xff\xff\xff"), true, "ends early"},
		"no topics":   {packed(t, "\x00\x00\x00\x02{}\x00"), true, "ends early"},
		"no filters":  {packed(t, "\x00\x00\x00\x02{}\x00\x00\x00\x00"), true, "ends early"},
		"no version":  {packed(t, "\x00\x00\x00\x02{"), true, "ends early"},
		"bad version": {packed(t, "\x00\x00\x00\x02{x"), true, "data version"},
	} {
		if _, err := ParseRegisterBody(c.body, c.compressed); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// TestTopicLines: a line that is no topic is passed over, as in the stock name server.
func TestTopicLines(t *testing.T) {
	for line, want := range map[string]*TopicConfig{
		"T 1 2 6 SINGLE_TAG {}":                 {TopicName: "T", ReadQueueNums: 1, WriteQueueNums: 2, Perm: 6, TopicFilterType: "SINGLE_TAG", Attributes: map[string]string{}},
		`T 1 2 6 MULTI_TAG {"a":"b c","d":"e"}`: {TopicName: "T", ReadQueueNums: 1, WriteQueueNums: 2, Perm: 6, TopicFilterType: "MULTI_TAG", Attributes: map[string]string{"a": "b c", "d": "e"}},
		"T 1 2 6 SINGLE_TAG":                    {TopicName: "T", ReadQueueNums: 1, WriteQueueNums: 2, Perm: 6, TopicFilterType: "SINGLE_TAG"},
		"T 1 2 6 SINGLE_TAG rubbish":            {TopicName: "T", ReadQueueNums: 1, WriteQueueNums: 2, Perm: 6, TopicFilterType: "SINGLE_TAG"},
		"T 1 2 6":                               nil, "": nil, "T x 2 6 SINGLE_TAG": nil, "T 1 x 6 SINGLE_TAG": nil, "T 1 2 x SINGLE_TAG": nil,
	} {
		got, ok := parseTopicLine(line)
		if ok != (want != nil) || ok && !reflect.DeepEqual(got, *want) {
			t.Errorf("%q: %+v, %v", line, got, ok)
		}
	}
}
