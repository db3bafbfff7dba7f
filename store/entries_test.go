package store

import (
	"errors"
	"strings"
	"testing"
	"time"

	"ringmq/store/record"
	"ringmq/store/vfs/memfs"
)

// TestEntries: a queue's entries tell where its messages are and, in the topic of delayed messages, when they
// are due, by the levels that are set; also after the queue was built again from the log.
func TestEntries(t *testing.T) {
	fsys := memfs.New(1)
	o := tinyOptions("/data")
	o.DelayLevels = Levels{7 * time.Second, 90 * time.Second}
	o.Now = func() time.Time { return time.UnixMilli(1_000_000) }
	h := openTest(t, fsys, o)
	level := []string{"1", "2", "9"}
	var sent []Put
	for _, l := range level {
		p := h.put("SCHEDULE_TOPIC_XXXX", 0, []byte("level "+l))
		p.Props = record.AppendProp(nil, "DELAY", l)
		p.Bytes, _ = h.RecordBytes(&p.Message)
		sent = append(sent, p)
	}
	if !h.send(sent...) {
		t.Fatal(h.Err())
	}
	check := func(s *Store, when string) {
		t.Helper()
		got, err := s.Entries(nil, s.Queue("SCHEDULE_TOPIC_XXXX", 0), 0, 5)
		if err != nil || len(got) != len(level) {
			t.Fatalf("%s: %d entries, %v", when, len(got), err)
		}
		for i, due := range []int64{1_007_000, 1_090_000, 1_090_000} {
			if want := (Entry{sent[i].Offset, sent[i].Bytes, due}); got[i] != want {
				t.Errorf("%s: entry %d is %+v, want %+v", when, i, got[i], want)
			}
		}
		if got, err := s.Entries(got[:1], s.Queue("SCHEDULE_TOPIC_XXXX", 0), 2, 1); err != nil || len(got) != 2 || got[1].Offset != sent[2].Offset {
			t.Errorf("%s: one entry from 2: %+v, %v", when, got, err)
		}
	}
	check(h.Store, "written")
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if err := fsys.Remove("/data/consumequeue/SCHEDULE_TOPIC_XXXX/0/" + strings.Repeat("0", 20)); err != nil {
		t.Fatal(err)
	}
	h = openTest(t, fsys, o)
	check(h.Store, "built again")
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDrain: what was appended is durable when Drain returns, whatever the flush type; Close goes on from there.
func TestDrain(t *testing.T) {
	o := tinyOptions("/data")
	o.FlushSync, o.FlushInterval, o.FlushThorough = false, time.Hour, time.Hour
	h := openTest(t, memfs.New(1), o)
	put := []Put{h.put("T", 0, []byte("one")), h.put("T", 0, []byte("two"))}
	if err := h.Reserve(put[0].Bytes + put[1].Bytes); err != nil {
		t.Fatal(err)
	}
	h.Append(put)
	for range 2 {
		if err := h.Drain(); err != nil || h.Marks().Durable < put[1].End {
			t.Errorf("drained to %d of %d, %v", h.Marks().Durable, put[1].End, err)
		}
	}
	if err := h.Reserve(1); !errors.Is(err, ErrClosed) {
		t.Errorf("reserve: %v, want %v", err, ErrClosed)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
}
