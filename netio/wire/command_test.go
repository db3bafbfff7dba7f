package wire

import (
	"bytes"
	"maps"
	"slices"
	"testing"
)

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

func TestAnswerMirrorsTheRequest(t *testing.T) {
	for _, form := range []Encoding{JSON, RocketMQ} {
		req := Command{Code: SendMessage, Opaque: -3, Flag: flagOneway, Language: Go, Version: 317, Encoding: form}
		req.Set("topic", "T")
		var a Command
		a.Set("left", "over")
		a.SetRemark("left over")
		a.Answer(&req, TopicNotExist)
		if s := describe(&a); s != `17 JAVA 513 -3 1 nil` || a.Encoding != form || !a.IsAnswer() || a.Oneway() {
			t.Errorf("form %d: %s, form %d", form, s, a.Encoding)
		}
		if req.Name() != "SEND_MESSAGE" || a.Name() != "TOPIC_NOT_EXIST" {
			t.Errorf("names %s, %s", req.Name(), a.Name())
		}
	}
}

func TestRequest(t *testing.T) {
	c := Command{Encoding: RocketMQ, Flag: flagAnswer, Body: []byte("x")}
	c.Set("left", "over")
	c.Request(HeartBeat, 5)
	if s := describe(&c); s != `34 JAVA 513 5 0 nil` || c.Encoding != JSON || c.Body != nil || c.IsAnswer() || c.Oneway() {
		t.Errorf("%s", s)
	}
	if c.SetOneway(); !c.Oneway() {
		t.Error("not one-way")
	}
}

func TestSet(t *testing.T) {
	var c Command
	c.Set("a", "1")
	c.SetBytes("b", []byte("2"))
	c.SetInt("c", -3)
	c.SetBool("d", true)
	c.Set("e", "")
	c.Set("a", "one") // takes the place of the first
	if s := describe(&c); s != `0 JAVA 0 0 0 nil a="one" b="2" c="-3" d="true" e=""` || len(c.Fields) != 5 {
		t.Errorf("%s, %d fields", s, len(c.Fields))
	}
	if v, ok := c.Get("x"); v != nil || ok || c.Text("x") != "" || c.Text("b") != "2" {
		t.Errorf("absent field: %q %v", v, ok)
	}
	c.SetRemark("why")
	if c.SetRemark(""); c.Remark != nil {
		t.Errorf("remark %q", c.Remark)
	}
}

// TestViewsOutliveTheNextParse: the requests of one turn go through one command, and what was taken
// from the first must still be there at the end of the turn. Recycle ends that.
func TestViewsOutliveTheNextParse(t *testing.T) {
	var c Command
	var views [][]byte
	for i := range 100 {
		frame := frameOf(JSON, `{"extFields":{"p":"\u0001`+string(rune('0'+i%10))+`"}}`)
		if err := c.Parse(frame); err != nil {
			t.Fatal(err)
		}
		v, _ := c.Get("p")
		views = append(views, v)
	}
	for i, v := range views {
		if want := []byte{1, byte('0' + i%10)}; !bytes.Equal(v, want) {
			t.Fatalf("view %d: %q, want %q", i, v, want)
		}
	}
	if c.Recycle(); len(c.scratch) != 0 || cap(c.scratch) == 0 {
		t.Errorf("scratch has %d of %d bytes", len(c.scratch), cap(c.scratch))
	}
	c.scratch = make([]byte, 2*scratchKeepBytes)
	if c.Recycle(); cap(c.scratch) != 0 {
		t.Errorf("kept %d bytes of scratch", cap(c.scratch))
	}
}

func TestCloneOwnsItsMemory(t *testing.T) {
	frame := append([]byte(nil), frameOf(JSON, `{"remark":"r","extFields":{"a":"\u0001x","b":"y","n":null}}`)...)
	frame = append(frame, "body"...)
	frame[3] += 4
	c := parsed(t, frame)
	d := c.Clone()
	before := describe(d)
	clear(frame)
	clear(c.scratch)
	if after := describe(d); after != before || after != `0 JAVA 0 0 0 "r" a="\x01x" b="y"` || string(d.Body) != "body" || len(d.Fields) != 3 {
		t.Errorf("%s, then %s, body %q", before, after, d.Body)
	}
	d.Set("c", "z") // growing must not reach what the clone holds already
	if got := describe(d); got != before+` c="z"` {
		t.Errorf("%s", got)
	}
}

// TestSendAnswerFrame: the short way to the frame of a send's answer writes what the long way writes.
func TestSendAnswerFrame(t *testing.T) {
	texts := [][]byte{nil, []byte("id"), []byte("a \"quoted\\\" one"), []byte("caf\u00e9\x01\xff"), msgID}
	for i, text := range texts {
		for _, form := range []Encoding{JSON, RocketMQ} {
			for fields := range 16 {
				h := SendAnswer{MsgID: msgID, QueueID: int32(i), QueueOffset: int64(fields) << 40, TraceOn: fields%3 == 0}
				for bit, to := range []*[]byte{&h.TransactionID, &h.BatchUniqID, &h.RecallHandle, &h.Region} {
					if fields&(1<<bit) != 0 {
						*to = text
					}
				}
				req := Command{Opaque: int32(100 * i), Encoding: form}
				var long, short Command
				long.Answer(&req, FlushDiskTimeout)
				short.Answer(&req, FlushDiskTimeout)
				h.Append(&long)
				before := []byte("before")
				want, got := long.Append(before), h.AppendFrame(before, &short)
				if !bytes.Equal(got, want) {
					t.Fatalf("form %d, %+v:\n%q, want\n%q", form, h, got, want)
				}
			}
		}
	}
}
