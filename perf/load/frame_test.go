package load

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"ringmq/netio/wire"
	"ringmq/store/record"
)

// TestTemplate: what a template makes is what the codec makes.
func TestTemplate(t *testing.T) {
	s := Send{Bytes: 10, Topics: 3, Queues: 2}
	s.Fill()
	next := s.requests(s.templates(), 1)
	for number := range 25 {
		var got wire.Command
		frame := next.append(nil, number*1000, countedAt)
		if n, err := wire.FrameBytes(frame); err != nil || n != len(frame) {
			t.Fatalf("a frame of %d bytes says %d, %v", len(frame), n, err)
		}
		if err := got.Parse(frame); err != nil {
			t.Fatal(err)
		}
		var h wire.SendRequest
		if err := h.Parse(&got); err != nil {
			t.Fatal(err)
		}
		at := 7919 + number + 1
		if int(got.Opaque) != opaqueBase+number*1000 || got.Code != wire.SendMessageV2 || len(got.Body) != 10 ||
			string(h.Topic) != s.TopicName(at%3) || int(h.QueueID) != at/3%2 {
			t.Fatalf("request %d: %+v %+v", number, got, h)
		}
	}
}

// TestBatchBody: a batch is what a broker takes apart.
func TestBatchBody(t *testing.T) {
	s := Send{Bytes: 100, Batch: 5}
	s.Fill()
	next := s.requests(s.templates(), 0)
	var cmd wire.Command
	if err := cmd.Parse(next.append(nil, 0, countedAt)); err != nil || cmd.Code != wire.SendBatchMessage {
		t.Fatal(err, cmd.Code)
	}
	var e record.Element
	var n noise
	count := uint64(0)
	b := record.NewBatch(cmd.Body)
	for b.Next(&e) {
		stamp, err := n.check(e.Body)
		if err != nil || stamp.Number != count || string(e.Props) != "TAGS\x01load\x02" {
			t.Errorf("element %d: %+v %v", count, stamp, err)
		}
		count++
	}
	if b.Err() != nil || count != 5 {
		t.Errorf("%d elements, %v", count, b.Err())
	}
}

// TestBodies: a body that was altered anywhere is noticed, and one of somebody else is nobody's.
func TestBodies(t *testing.T) {
	s := Stamp{Run: 1, Sender: 2, Number: 1 << 40, At: 4}
	body := newNoise(200).appendBody(nil, 200, s)
	var n noise
	if got, err := n.check(body); err != nil || got != s {
		t.Errorf("%+v %v", got, err)
	}
	for at := range body {
		bad := bytes.Clone(body)
		bad[at] ^= 0x20
		got, err := n.check(bad)
		inStamp := at < 12 || at >= 20 && at < StampBytes // magic, run, sender, time: told by what they say
		if err == nil && (!inStamp || got == s) {
			t.Errorf("byte %d was altered: %+v", at, got)
		}
	}
	if _, err := n.check([]byte("hello, these are more bytes than a stamp has")); !errors.Is(err, errShort) {
		t.Error(err)
	}
}

// TestReadAnswer: number and code are found without parsing, or by parsing; never wrongly.
func TestReadAnswer(t *testing.T) {
	frame := func(kind byte, head string) []byte {
		f := binary.BigEndian.AppendUint32(nil, uint32(4+len(head)))
		f = append(f, kind, 0, 0, byte(len(head)))
		return append(f, head...)
	}
	var bin wire.Command
	bin.Request(1, opaqueBase+3)
	bin.Encoding = wire.RocketMQ
	for name, c := range map[string]struct {
		frame  []byte
		number int
		code   wire.Code
		bad    bool
	}{
		"Java":              {frame(0, `{"code":0,"extFields":{"queueId":"1","opaque":"x"},"flag":1,"language":"JAVA","opaque":1000000017,"version":500}`), 17, 0, false},
		"Go":                {frame(0, `{"code":14,"flag":1,"opaque":1000000002}`), 2, 14, false},
		"a code in a field": {frame(0, `{"extFields":{"code":"7"},"code":2,"opaque":1000000001}`), 1, 2, false},
		"no code":           {frame(0, `{"opaque":1000000001}`), 1, 0, false},
		"blanks":            {frame(0, `{ "code" : 5 , "opaque" : 1000000004 }`), 4, 5, false},
		"cut":               {frame(0, `{"code":2,"opaque":100000`), 0, 0, true},
		"binary":            {bin.Append(nil), 3, 1, false},
	} {
		var scratch wire.Command
		number, code, err := readAnswer(c.frame, &scratch)
		if (err != nil) != c.bad || !c.bad && (number != c.number || code != c.code) {
			t.Errorf("%s: %d, %d, %v", name, number, code, err)
		}
	}
}

// TestFrames: frames come whole however the bytes come, and the buffer grows for the largest.
func TestFrames(t *testing.T) {
	var all []byte
	sizes := []int{0, 5, 70_000, 1, 300, 20_000}
	for _, n := range sizes {
		var cmd wire.Command
		cmd.Request(wire.PullMessage, int32(n))
		cmd.Body = make([]byte, n)
		all = cmd.Append(all)
	}
	for name, from := range map[string]io.Reader{
		"at once": bytes.NewReader(all), "by the byte": iotest.OneByteReader(bytes.NewReader(all)), "with the end": iotest.DataErrReader(bytes.NewReader(all)),
	} {
		in := frames{conn: from, buf: make([]byte, 64)}
		for _, n := range sizes {
			f, err := in.next()
			var cmd wire.Command
			if err != nil || cmd.Parse(f) != nil || len(cmd.Body) != n {
				t.Fatalf("%s, %d: %d bytes, %v", name, n, len(f), err)
			}
		}
		if _, err := in.next(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: behind the end: %v", name, err)
		}
	}
}
