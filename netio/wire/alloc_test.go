package wire

import (
	"fmt"
	"testing"
)

// turn is what a loop does per message with commands it keeps: take the frame apart, take the
// fields, build the answer and its frame.
type turn struct {
	name     string
	frame    []byte
	req, ans Command
	out      []byte
	send     SendRequest
	pull     PullRequest
	commit   UpdateOffsetRequest
}

func newTurn(code Code, form Encoding, bodyBytes int) *turn {
	c := Command{Code: code, Encoding: form, Body: make([]byte, bodyBytes)}
	switch code {
	case PullMessage:
		h := PullRequest{ConsumerGroup: []byte("GID_consumer"), Topic: []byte("TopicTest"), QueueOffset: 123456789,
			MaxMsgNums: 32, SysFlag: 2, SuspendTimeoutMillis: 15000, SubVersion: 1700000000000, ExpressionType: []byte("TAG")}
		h.Append(&c)
	case UpdateConsumerOffset:
		h := UpdateOffsetRequest{ConsumerGroup: []byte("GID_consumer"), Topic: []byte("TopicTest"), CommitOffset: 123456789}
		h.Append(&c)
	default:
		h := SendRequest{ProducerGroup: []byte("GID_producer"), Topic: []byte("TopicTest"), DefaultTopic: []byte("TBW102"),
			DefaultTopicQueueNums: 4, QueueID: 2, BornTimestamp: 1700000000000, MaxReconsumeTimes: -1, BrokerName: []byte("broker-a"),
			Properties: []byte("KEYS\x01k1\x02UNIQ_KEY\x01FD0000000000000000000000000000023C8F5FFD2B2796124BB40000\x02WAIT\x01true\x02TAGS\x01TagA\x02")}
		h.Append(&c)
	}
	form2 := map[Encoding]string{JSON: "json", RocketMQ: "binary"}[form]
	return &turn{name: fmt.Sprintf("code=%d/form=%s/body=%d", code, form2, bodyBytes), frame: c.Append(nil)}
}

func turns() []*turn {
	var ts []*turn
	for _, form := range []Encoding{JSON, RocketMQ} {
		ts = append(ts, newTurn(SendMessage, form, 1024), newTurn(SendMessageV2, form, 1024),
			newTurn(PullMessage, form, 0), newTurn(UpdateConsumerOffset, form, 0))
	}
	return ts
}

var (
	msgID  = []byte("7F0000010000F1D7000000000000AA85")
	uniqID = []byte("FD0000000000000000000000000000023C8F5FFD2B2796124BB40000")
	region = []byte("DefaultRegion")
)

func (u *turn) parse() error {
	u.req.Recycle()
	if err := u.req.Parse(u.frame); err != nil {
		return err
	}
	switch u.req.Code {
	case PullMessage:
		return u.pull.Parse(&u.req)
	case UpdateConsumerOffset:
		return u.commit.Parse(&u.req)
	}
	return u.send.Parse(&u.req)
}

func (u *turn) answer() {
	u.ans.Answer(&u.req, Success)
	switch u.req.Code {
	case PullMessage:
		h := PullAnswer{NextBeginOffset: 123456789, MaxOffset: 123456790}
		h.Append(&u.ans)
		u.ans.SetRemark("FOUND")
	case UpdateConsumerOffset:
	default:
		h := SendAnswer{MsgID: msgID, QueueID: u.send.QueueID, QueueOffset: 42, TransactionID: uniqID, Region: region, TraceOn: true}
		h.Append(&u.ans)
	}
	u.out = u.ans.Append(u.out[:0])
}

// TestNoAllocation: per message, once the commands are warm.
func TestNoAllocation(t *testing.T) {
	for _, u := range turns() {
		allocs := testing.AllocsPerRun(100, func() {
			if err := u.parse(); err != nil {
				t.Fatal(err)
			}
			u.answer()
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations per message", u.name, allocs)
		}
	}
}

// BenchmarkParse: a frame and its typed header.
func BenchmarkParse(b *testing.B) {
	for _, u := range turns() {
		b.Run(u.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := u.parse(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(u.frame)), "frameBytes")
		})
	}
}

// BenchmarkAnswer: from the parsed request to the answer's frame.
func BenchmarkAnswer(b *testing.B) {
	for _, u := range turns() {
		if err := u.parse(); err != nil {
			b.Fatal(err)
		}
		b.Run(u.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				u.answer()
			}
			b.ReportMetric(float64(len(u.out)), "frameBytes")
		})
	}
}
