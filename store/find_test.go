package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"ringmq/store/record"
	"ringmq/store/vfs/memfs"
)

// TestRecord asks for the record at every offset of a log, blank ends of segments and what is beyond included: there is
// one where a message was put, and nowhere else.
func TestRecord(t *testing.T) {
	h := openTest(t, memfs.New(1), Options{Dir: "/s", SegmentBytes: 4096})
	defer h.Close()
	bodies := map[int64][]byte{}
	for i := range 20 {
		p := []Put{h.put("T", int32(i%3), bytes.Repeat([]byte{byte(i)}, 50*i))}
		if !h.send(p...) {
			t.Fatal(h.Err())
		}
		bodies[p[0].Offset] = p[0].Message.Body
	}
	for at := int64(-1); at < h.Marks().Visible+8192; at++ {
		b, err := h.Record(at)
		want, put := bodies[at]
		if !put {
			if !errors.Is(err, ErrOffset) {
				t.Fatalf("at %d: %d bytes, %v", at, len(b), err)
			}
			continue
		}
		var r record.Record
		if err != nil || record.Parse(b, &r) != nil || r.Size != len(b) || !bytes.Equal(r.Body, want) {
			t.Errorf("at %d: %d bytes, %v", at, len(b), err)
		}
	}
	for _, at := range []int64{math.MinInt64, math.MaxInt64, math.MaxInt64 - headBytes} {
		if b, err := h.Record(at); !errors.Is(err, ErrOffset) {
			t.Errorf("at %d: %d bytes, %v", at, len(b), err)
		}
	}
}

// TestForgedRecord: a producer knows where its next message will stand, and can send one whose body looks like the
// record that stands there. Neither its length nor its content is believed.
func TestForgedRecord(t *testing.T) {
	h := openTest(t, memfs.New(1), Options{Dir: "/s", SegmentBytes: 1 << 20})
	defer h.Close()
	body := make([]byte, 4096)
	first := []Put{h.put("T", 0, []byte("x"))}
	if !h.send(first...) {
		t.Fatal(h.Err())
	}
	const bodyInRecord = 88 // behind two IPv4 hosts
	bodyAt := first[0].End + bodyInRecord
	for _, size := range []uint32{1 << 19, 1 << 31, 4000, headBytes, 0} {
		binary.BigEndian.PutUint32(body, size)
		binary.BigEndian.PutUint32(body[4:], record.MagicV1)
		binary.BigEndian.PutUint64(body[28:], uint64(bodyAt))
		p := []Put{h.put("T", 0, bytes.Clone(body))}
		if !h.send(p...) {
			t.Fatal(h.Err())
		}
		var head [8]byte
		if err := h.ReadAt(head[:], bodyAt); err != nil || !bytes.Equal(head[:], body[:8]) {
			t.Fatalf("the body is not at %d: %x, %v", bodyAt, head, err)
		}
		if b, err := h.Record(bodyAt); !errors.Is(err, ErrOffset) {
			t.Errorf("size %d: %d bytes, %v", size, len(b), err)
		}
		bodyAt += p[0].End - p[0].Offset
	}
}

// TestNoIndex: who asks a store without an index is told so, and not that there is no such message.
func TestNoIndex(t *testing.T) {
	h := openTest(t, memfs.New(1), Options{Dir: "/s", SegmentBytes: 4096, NoIndex: true})
	defer h.Close()
	if got, err := h.Find(Query{Topic: "T", Key: "k", Max: 1, EndMs: math.MaxInt64}); !errors.Is(err, ErrNoIndex) {
		t.Errorf("found %v, %v", got, err)
	}
}
