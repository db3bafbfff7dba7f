package node

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"ringmq/netio"
	"ringmq/netio/remoting"
	"ringmq/netio/wire"
	"ringmq/store"
	"ringmq/store/record"
	"ringmq/store/vfs/memfs"
)

// owesAll is a handler that owes every answer at one mark.
type owesAll struct {
	end  int64
	owed chan struct{}
}

func (h *owesAll) Opened(*netio.Conn)  {}
func (h *owesAll) Closed(*netio.Conn)  {}
func (h *owesAll) EndTurn(*netio.Loop) {}
func (h *owesAll) Serve(c *netio.Conn, req *wire.Command) netio.Verdict {
	var ans wire.Command
	ans.Answer(req, wire.Success)
	c.Owe(netio.AtVisible, h.end, &ans)
	h.owed <- struct{}{}
	return netio.Done
}

// TestMarksBeforeTheNetwork: the broker listens before the store can reach it. A send that was served and flushed in
// between waited for the next message, and without one got code 10 after five seconds; a failure in between was never
// told at all.
func TestMarksBeforeTheNetwork(t *testing.T) {
	for _, fails := range []bool{false, true} {
		fsys := memfs.New(1)
		moved, failed := make(chan store.Marks, 16), make(chan error, 1)
		s, err := store.Open(fsys, store.Options{
			Dir: "/s", SegmentBytes: 1 << 20, FlushSync: true, Log: quiet,
			OnMarks: func(m store.Marks) { moved <- m }, OnFail: func(err error) { failed <- err },
		})
		if err != nil {
			t.Fatal(err)
		}
		if fails {
			fsys.HoldFlushes()
		}
		end := appendOne(t, s)
		if fails {
			fsys.WaitHeld(1)
			fsys.Release(0, errors.New("the disk is gone"))
			<-failed
		} else {
			for m := range moved {
				if m.Visible >= end {
					break
				}
			}
		}
		h := &owesAll{end: end, owed: make(chan struct{}, 1)}
		broker, err := netio.Listen(h, netio.Options{Addrs: []string{"127.0.0.1:0"}, Log: quiet, OweWait: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		client, err := remoting.Dial(t.Context(), broker.Addrs()[0].String(), remoting.Options{Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			<-h.owed
			catchUp(broker, s)
		}()
		var req wire.Command
		req.Request(wire.SendMessage, 1)
		ans, err := client.Call(t.Context(), &req)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]wire.Code{false: wire.Success, true: wire.ServiceNotAvailable}[fails]; ans.Code != want {
			t.Errorf("fails=%v: code %d, want %d", fails, ans.Code, want)
		}
		_ = client.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		if err := broker.Stop(ctx); err != nil {
			t.Error(err)
		}
		cancel()
		_ = s.Close() // with an error where the log has failed
	}
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// appendOne appends a message and returns where it ends.
func appendOne(t *testing.T, s *store.Store) int64 {
	t.Helper()
	m := record.Message{Topic: "T", Body: []byte("body"), BornMs: 1}
	m.BodyCRC = record.BodyCRC(m.Body)
	n, err := s.RecordBytes(&m)
	if err == nil {
		err = s.Reserve(n)
	}
	if err != nil {
		t.Fatal(err)
	}
	puts := []store.Put{{Message: m, Queue: s.OpenQueue("T", 0), Bytes: n}}
	s.Append(puts)
	if puts[0].Err != nil {
		t.Fatal(puts[0].Err)
	}
	return puts[0].End
}
