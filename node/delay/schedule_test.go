package delay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"ringmq/node/delay"
	"ringmq/node/nodetest"
	"ringmq/node/topic"
	"ringmq/store"
	"ringmq/store/record"
	"ringmq/store/sidefile"
	"ringmq/store/vfs"
	"ringmq/store/vfs/memfs"
)

var host = netip.MustParseAddrPort("127.0.0.1:10911")

const offsets = "/delayOffset.json"

// world is a store with a schedule that a test moves by hand.
type world struct {
	t      testing.TB
	fs     vfs.FS
	clock  *nodetest.Clock
	levels store.Levels
	async  bool
	keep   int64 // bytes of the log that are kept; 0: all
	most   int   // largest body of a new message; 0: the default

	store *store.Store
	table *delay.Table
	s     *delay.Schedule
	moved chan struct{}
	log   bytes.Buffer
}

func newWorld(t testing.TB, levels ...time.Duration) *world {
	w := &world{t: t, fs: memfs.New(1), clock: nodetest.NewClock(), levels: levels}
	w.open()
	t.Cleanup(func() { w.close() })
	return w
}

func (w *world) open() {
	w.t.Helper()
	w.moved = make(chan struct{}, 1)
	log := slog.New(slog.NewTextHandler(&w.log, nil))
	moved := w.moved
	var err error
	w.store, err = store.Open(w.fs, store.Options{
		Dir: "/data", SegmentBytes: 1 << 20, QueueFileBytes: 6000, FlushSync: !w.async, FlushInterval: time.Hour, FlushThorough: time.Hour,
		Retention:       store.Retention{MaxBytes: w.keep},
		MaxMessageBytes: w.most, IndexSlots: 100, IndexEntries: 400, DelayLevels: w.levels, Now: w.clock.Now, Log: slog.New(slog.DiscardHandler),
		OnMarks: func(store.Marks) {
			select {
			case moved <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if w.table, err = delay.Load(w.fs, offsets, w.clock.Now, log); err != nil {
		w.t.Fatal(err)
	}
	w.s = delay.New(delay.Options{Store: w.store, Table: w.table, Levels: w.levels, Clock: w.clock, Log: log})
}

// close is a clean stop.
func (w *world) close() {
	w.t.Helper()
	if w.store == nil {
		return
	}
	err := errors.Join(w.store.Drain(), w.table.Persist(w.store.Marks().Durable), w.store.Close())
	if w.store = nil; err != nil {
		w.t.Error(err)
	}
}

// await waits until a condition on the marks holds.
func (w *world) await(what string, holds func() bool) {
	w.t.Helper()
	for end := time.After(30 * time.Second); !holds(); {
		select {
		case <-w.moved:
		case <-end:
			w.t.Fatal("not within 30 s: ", what)
		}
	}
}

// message is one for a level, as the broker stores it.
func (w *world) message(level int, target, body string) record.Message {
	props := record.AppendProp(nil, "TAGS", "tag")
	props = record.AppendProp(props, record.PropDelay, fmt.Sprint(level))
	props = record.AppendProp(props, record.PropRealTopic, target)
	props = record.AppendProp(props, record.PropRealQueue, "1")
	return record.Message{
		Topic: topic.Schedule, QueueID: int32(level - 1), BornMs: 17, Born: host, Store: host,
		Body: []byte(body), BodyCRC: record.BodyCRC([]byte(body)), Props: props,
	}
}

// send stores messages and waits until they are visible.
func (w *world) send(messages ...record.Message) []store.Put {
	w.t.Helper()
	puts := make([]store.Put, len(messages))
	for i, m := range messages {
		n, err := w.store.CopyBytes(&m)
		if err != nil {
			w.t.Fatal(err)
		}
		w.await("room", func() bool { err = w.store.Reserve(n); return !errors.Is(err, store.ErrBusy) })
		if err != nil {
			w.t.Fatal(err)
		}
		puts[i] = store.Put{Message: m, Queue: w.store.OpenQueue(m.Topic, m.QueueID), Bytes: n}
		w.await("a segment", func() bool {
			w.store.Append(puts[i : i+1])
			if !errors.Is(puts[i].Err, store.ErrBusy) {
				return true
			}
			return w.store.Reserve(n) != nil
		})
		if puts[i].Err != nil {
			w.t.Fatal(puts[i].Err)
		}
	}
	end := puts[len(puts)-1].End
	w.await("visible", func() bool { return w.store.Marks().Visible >= end })
	return puts
}

// run passes until nothing is due any more and all of it is visible.
func (w *world) run() {
	w.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; {
		w.s.Pass()
		if w.s.Flying() == 0 {
			if !w.s.Due() {
				return
			}
			if time.Now().After(end) {
				w.t.Fatal("not within 30 s: what is due is delivered")
			}
			runtime.Gosched() // the next segment is being made
			continue
		}
		end := w.store.Stats().Appended
		w.await("a pass", func() bool {
			w.s.Pass()
			return w.s.Flying() == 0 || w.store.Stats().Appended > end
		})
	}
}

// records is what stands in queue 1 of a topic.
func (w *world) records(name string) (all []record.Record) {
	w.t.Helper()
	q := w.store.Queue(name, 1)
	if q == nil {
		return nil
	}
	for from := int64(0); from < q.Max(); {
		entries, err := w.store.Entries(nil, q, from, 100)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range entries {
			var r record.Record
			b, err := w.store.Record(e.Offset)
			if err == nil {
				err = record.Parse(b, &r)
			}
			if err != nil {
				w.t.Fatal(err)
			}
			all = append(all, r)
		}
		from += int64(len(entries))
	}
	return all
}

func (w *world) bodies(name string) (all []string) {
	w.t.Helper()
	for _, r := range w.records(name) {
		all = append(all, string(r.Body))
	}
	return all
}

func (w *world) want(when string, bodies ...string) {
	w.t.Helper()
	if got := w.bodies("T"); !slices.Equal(got, bodies) {
		w.t.Errorf("%s: delivered %q, want %q", when, got, bodies)
	}
}

// plain stores a message of somebody else.
func (w *world) plain() {
	w.t.Helper()
	m := w.message(1, "T", "plain")
	m.Topic, m.QueueID = "Plain", 0
	w.send(m)
}

// TestFloodBesideOthers: of a flood of due messages batches of 256 KiB went out, two at a time, and every other sender
// waited for the disk to take them. While others write it is spread; afterwards it goes as fast as it can.
func TestFloodBesideOthers(t *testing.T) {
	w := newWorld(t, time.Second)
	var all []record.Message
	for i := range 4000 {
		all = append(all, w.message(1, "T", fmt.Sprint(i)))
	}
	w.send(all...)
	w.clock.Advance(999 * time.Millisecond)
	for range 2 {
		w.plain()
		w.s.Pass()
		w.clock.Advance(time.Millisecond)
	}
	for range 50 { // ms
		w.s.Pass()
		w.plain()
		w.clock.Advance(time.Millisecond)
		w.await("a batch", func() bool { w.s.Pass(); return w.s.Flying() == 0 })
	}
	// At first there is time for 400, and then for 20 in each ms.
	delivered := w.s.Stats().Delivered
	if delivered < 50*15 || delivered > 400+51*20+20 {
		t.Errorf("%d delivered in 50 ms beside others", delivered)
	}
	w.clock.Advance(time.Second)
	w.run()
	if got := w.bodies("T"); len(got) != len(all) {
		t.Errorf("%d delivered when others are quiet, want %d", len(got), len(all))
	}
}

// TestKeepsUpBesideOthers: ten thousand messages are due in a second, and as many are sent: they are spread, and none is
// late by more than 100 ms.
func TestKeepsUpBesideOthers(t *testing.T) {
	w := newWorld(t, 100*time.Millisecond)
	var most int64
	for range 300 { // ms
		var ten []record.Message
		for range 10 {
			ten = append(ten, w.message(1, "T", strings.Repeat("x", 1000)))
		}
		w.send(ten...)
		w.clock.Advance(time.Millisecond)
		w.s.Pass()
		w.await("a batch", func() bool { w.s.Pass(); return w.s.Flying() == 0 })
		most = max(most, w.s.Stats().LateMs)
	}
	if n := len(w.bodies("T")); n < 1900 || most > 100 {
		t.Errorf("%d of 2000 delivered, late by up to %d ms", n, most)
	}
}

// TestDeliversAsStock: the record in its own topic keeps everything, the properties of its wait included
// (golden store "delay" of the stock broker 5.5.0).
func TestDeliversAsStock(t *testing.T) {
	w := newWorld(t, time.Second)
	m := w.message(1, "T", "body")
	m.Flag, m.SysFlag, m.ReconsumeTimes = 5, record.SysMultiTags|record.SysCommit, 3
	m.Born, m.Store = netip.MustParseAddrPort("[2001:db8::1]:9"), netip.MustParseAddrPort("10.1.1.1:20")
	sent := w.send(m)
	w.clock.Advance(time.Second + time.Millisecond)
	w.run()
	got := w.records("T")
	if len(got) != 1 {
		t.Fatalf("%d records", len(got))
	}
	r := got[0]
	if r.QueueID != 1 || r.QueueOffset != 0 || r.Flag != 5 || r.SysFlag&^record.SysBornIPv6 != m.SysFlag || r.ReconsumeTimes != 3 ||
		r.BornMs != 17 || r.Born != m.Born || r.Store != m.Store || string(r.Body) != "body" || r.StoreMs != sent[0].StoreMs+1001 {
		t.Errorf("delivered %+v", r)
	}
	have := func(props []byte) map[string]string {
		all := map[string]string{}
		for name, value := range record.Props(props) {
			all[string(name)] = string(value)
		}
		return all
	}
	if p, q := have(r.Props), have(m.Props); !maps.Equal(p, q) {
		t.Errorf("properties %v, want %v", p, q)
	}
	if st := w.s.Stats(); st != (delay.Stats{Delivered: 1, LateMs: 1}) {
		t.Errorf("stats %+v", st)
	}
}

// TestNeverEarly sends at random times with random levels and looks at random times: whatever is past its time
// is there, in the order of its level, and nothing else is.
func TestNeverEarly(t *testing.T) {
	levels := []time.Duration{time.Second, 1500 * time.Millisecond, 10 * time.Second}
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 0))
		w := newWorld(t, levels...)
		due := map[int][]int64{} // by level
		for range 150 {
			w.clock.Advance(time.Duration(rng.IntN(700)) * time.Millisecond)
			if rng.IntN(3) > 0 {
				n := 1 + rng.IntN(len(levels))
				p := w.send(w.message(n, fmt.Sprint("T", n), fmt.Sprint(len(due[n]))))
				due[n] = append(due[n], p[0].StoreMs+levels[n-1].Milliseconds())
			}
			w.run()
			now := w.clock.Now().UnixMilli()
			for n := range levels {
				var want []string
				for i, at := range due[n+1] {
					if at < now {
						want = append(want, fmt.Sprint(i))
					}
				}
				if got := w.bodies(fmt.Sprint("T", n+1)); !slices.Equal(got, want) {
					t.Fatalf("seed %d: level %d at %d: %q, want %q, due %d", seed, n+1, now, got, want, due[n+1])
				}
			}
		}
		w.close()
	}
}

// TestRest: a pass tells when the next message is due, to the millisecond, and never sleeps longer than the
// shortest level or a second.
func TestRest(t *testing.T) {
	w := newWorld(t, 300*time.Millisecond, 10*time.Second)
	if got := w.s.Pass(); got != 300*time.Millisecond {
		t.Errorf("empty: %v", got)
	}
	w.send(w.message(2, "T", "a"))
	for _, step := range []struct{ advance, rest time.Duration }{
		{0, 300 * time.Millisecond}, {9900 * time.Millisecond, 101 * time.Millisecond}, {100 * time.Millisecond, time.Millisecond},
	} {
		w.clock.Advance(step.advance)
		if got := w.s.Pass(); got != step.rest {
			t.Errorf("after %v more: %v, want %v", step.advance, got, step.rest)
		}
	}
}

// TestFlood: of many due messages two batches are on their way at a time, and every level has its turn.
func TestFlood(t *testing.T) {
	fsys := memfs.New(1)
	w := newWorld(t, time.Second, 2*time.Second, 3*time.Second)
	w.close()
	w.fs = fsys
	w.open()
	var all []record.Message
	for i := range 1200 {
		all = append(all, w.message(1+i%2, "T", fmt.Sprintf("%d %s", i, strings.Repeat("x", 1000))))
	}
	w.send(all...)
	w.send(w.message(3, "T", "of a quiet level"))
	w.clock.Advance(5 * time.Second)
	fsys.HoldFlushes()
	before := w.store.Marks().Visible
	w.s.Pass()
	w.s.Pass()
	if n := w.s.Flying(); n != 2 {
		t.Errorf("%d batches are on their way", n)
	}
	if n := w.store.Stats().StagedBytes; n > 2*delay.BatchBytes {
		t.Errorf("%d bytes on their way beyond %d", n, before)
	}
	fsys.ReleaseAll()
	w.run()
	got := w.bodies("T")
	if len(got) != 1201 {
		t.Fatalf("%d delivered", len(got))
	}
	if at := slices.Index(got, "of a quiet level"); at > 600 {
		t.Errorf("the quiet level came %d places late", at)
	}
	last := [2]int{-1, -1}
	for _, body := range got {
		var i int
		if n, _ := fmt.Sscan(body, &i); n == 1 {
			if i <= last[i%2] {
				t.Fatalf("%d came after %d", i, last[i%2])
			}
			last[i%2] = i
		}
	}
}

// TestOffsetsFollowTheDisk: what is delivered counts when it is durable, with both flush types; a clean stop
// loses nothing of that.
func TestOffsetsFollowTheDisk(t *testing.T) {
	for _, async := range []bool{false, true} {
		t.Run(fmt.Sprint("async=", async), func(t *testing.T) {
			fsys := memfs.New(1)
			w := newWorld(t, time.Second)
			w.close()
			w.fs, w.async = fsys, async
			w.open()
			w.send(w.message(1, "T", "a"))
			w.clock.Advance(2 * time.Second)
			w.await("durable", func() bool { m := w.store.Marks(); return async || m.Durable == m.Written })
			fsys.HoldFlushes()
			w.s.Pass()
			for range 3 {
				if err := w.table.Persist(w.store.Marks().Durable); err != nil {
					t.Fatal(err)
				}
				w.s.Pass()
			}
			if got := w.table.Done(1); got != 0 {
				t.Errorf("the offset is %d before the delivery is on the disk", got)
			}
			fsys.ReleaseAll()
			w.close()
			w.open()
			if got := w.table.Done(1); got != 1 {
				t.Errorf("after a clean stop the offset is %d", got)
			}
			w.run()
			w.want("after a clean stop", "a")
		})
	}
}

// TestWrongOffsets: an offset beyond its queue once stopped a level for good (stock brokers before 4.9.3). It is
// moved into the queue, as one is that belongs to no queue at all.
func TestWrongOffsets(t *testing.T) {
	for text, want := range map[string][]string{"-1": {"old", "new"}, "1000000000": {"new"}, "1": {"new"}, "0": {"old", "new"}} {
		w := newWorld(t, time.Second, time.Second)
		w.send(w.message(1, "T", "old"))
		w.close()
		if err := sidefile.Write(w.fs, offsets, []byte(`{"offsetTable":{1:`+text+`,2:`+text+`}}`)); err != nil {
			t.Fatal(err)
		}
		w.open()
		w.send(w.message(1, "T", "new"))
		w.send(w.message(2, "T2", "other"))
		w.clock.Advance(2 * time.Second)
		w.run()
		w.want("offset "+text, want...)
		if got := w.bodies("T2"); !slices.Equal(got, []string{"other"}) {
			t.Errorf("offset %s of a queue that was not there: delivered %q", text, got)
		}
		w.close()
	}
}

// TestClockSteps sets the machine's clock by an hour either way, with messages of 10 s before and after.
func TestClockSteps(t *testing.T) {
	t.Run("forward", func(t *testing.T) {
		w := newWorld(t, 10*time.Second)
		w.send(w.message(1, "T", "before"))
		w.clock.Step(time.Hour)
		w.run()
		w.want("its time is past by the clock", "before")
		w.send(w.message(1, "T", "after"))
		w.clock.Advance(10 * time.Second)
		w.run()
		w.want("10 s later", "before")
		w.clock.Advance(time.Millisecond)
		w.run()
		w.want("past 10 s", "before", "after")
	})
	t.Run("back", func(t *testing.T) {
		w := newWorld(t, 10*time.Second)
		w.send(w.message(1, "T", "before"))
		w.clock.Advance(4 * time.Second)
		w.clock.Step(-time.Hour)
		w.run()
		w.clock.Advance(time.Second)
		w.send(w.message(1, "T", "after"))
		w.run()
		w.clock.Advance(9*time.Second - time.Millisecond)
		w.run()
		w.want("not held for 10 s yet")
		w.clock.Advance(time.Millisecond)
		w.run()
		w.want("held for 10 s", "before")
		w.clock.Advance(10*time.Second - time.Millisecond)
		w.run()
		w.want("the next is held by itself", "before")
		w.clock.Advance(time.Millisecond)
		w.run()
		w.want("one more delay", "before", "after")
		if !strings.Contains(w.log.String(), "was the clock set back?") {
			t.Errorf("log: %s", w.log.String())
		}
	})
	t.Run("a little back", func(t *testing.T) {
		w := newWorld(t, 10*time.Second)
		w.send(w.message(1, "T", "a"))
		w.clock.Step(-2 * time.Second)
		w.run()
		w.clock.Advance(10 * time.Second)
		w.run()
		w.want("it waited its delay", "a")
	})
}

// TestLevelsChange: messages that wait keep the time that they were given, but wait no longer than a level that
// became shorter; those of a level that is gone are delivered at their time.
func TestLevelsChange(t *testing.T) {
	w := newWorld(t, 10*time.Second, 10*time.Second, 10*time.Second)
	w.send(w.message(1, "T", "shorter"), w.message(2, "T", "longer"), w.message(3, "T", "gone"))
	w.close()
	w.levels = store.Levels{2 * time.Second, time.Minute}
	w.open()
	w.run()
	w.clock.Advance(2*time.Second - time.Millisecond)
	w.run()
	w.want("just started")
	w.clock.Advance(time.Millisecond)
	w.run()
	w.want("the shorter delay is over", "shorter")
	w.clock.Advance(8 * time.Second)
	w.run()
	w.want("10 s", "shorter")
	w.clock.Advance(time.Millisecond)
	w.run()
	w.want("past 10 s", "shorter", "longer", "gone")
}

// TestUndeliverable: a message that can go nowhere stops nobody, and the log tells where it is.
func TestUndeliverable(t *testing.T) {
	w := newWorld(t, time.Second)
	bare := w.message(1, "T", "no target")
	bare.Props = record.AppendProp(nil, record.PropDelay, "1")
	odd := w.message(1, "T", "no queue")
	odd.Props = record.AppendProp(record.AppendPropsBut(nil, odd.Props, func(name []byte) bool { return string(name) == record.PropRealQueue }), record.PropRealQueue, "-1")
	w.send(w.message(1, "T", "first"), w.message(1, "../T", "up"), w.message(1, topic.Half, "half"),
		w.message(1, topic.Schedule, "round and round"), bare, odd, w.message(1, "T", "last"))
	w.clock.Advance(2 * time.Second)
	w.run()
	w.want("the others", "first", "last")
	if st := w.s.Stats(); st.Dropped != 5 || st.Delivered != 2 || st.Pending != 0 {
		t.Errorf("stats %+v", st)
	}
	if text := w.log.String(); !strings.Contains(text, "count=5") || !strings.Contains(text, "../T") {
		t.Errorf("log: %s", text)
	}
}

// TestDamagedMessage: bytes that went bad are not delivered under a new checksum.
func TestDamagedMessage(t *testing.T) {
	w := newWorld(t, time.Second)
	sent := w.send(w.message(1, "T", "first"), w.message(1, "T", "spoiled"), w.message(1, "T", "last"))
	f, err := w.fs.Open("/data/commitlog/" + strings.Repeat("0", 20))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("?"), sent[1].Offset+90); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(2 * time.Second)
	w.run()
	w.want("around it", "first", "last")
	if st := w.s.Stats(); st.Dropped != 1 {
		t.Errorf("stats %+v", st)
	}
}

// TestFullDisk: deliveries that the log refuses are tried again, the refused one first, and none comes twice. A
// stock broker once stepped over it.
func TestFullDisk(t *testing.T) {
	fsys := memfs.New(1)
	w := newWorld(t, time.Second)
	w.close()
	w.fs = fsys
	w.open()
	body := strings.Repeat("x", 100_000)
	var want []string
	for i := range 12 {
		want = append(want, fmt.Sprint(i, body))
		w.send(w.message(1, "T", want[i]))
	}
	w.clock.Advance(2 * time.Second)
	used := w.store.Stats().LogBytes
	fsys.SetSpace(used)
	for range 50 {
		w.s.Pass()
		end := w.store.Marks().Written
		w.await("written", func() bool { return w.store.Marks().Visible >= end })
	}
	if got := w.bodies("T"); len(got) == len(want) {
		t.Fatal("the disk was not full")
	}
	fsys.SetSpace(0)
	w.await("room", func() bool {
		w.s.Pass()
		return w.s.Stats().Pending == 0
	})
	w.run()
	if got := w.bodies("T"); !slices.Equal(got, want) {
		t.Errorf("there is room again: %d delivered, want %d, each once", len(got), len(want))
	}
}

// TestRemovedBeforeDue: what retention takes away while it waits is lost, and said to be; the level goes on behind it.
func TestRemovedBeforeDue(t *testing.T) {
	w := newWorld(t, time.Second, time.Hour)
	w.close()
	w.keep = 2 << 20
	w.open()
	w.send(w.message(2, "T", "too old"), w.message(2, "T", "too old as well"))
	filler := w.message(1, "Filler", strings.Repeat("x", 300_000))
	filler.Topic, filler.QueueID = "Plain", 0
	for range 20 {
		w.send(filler)
	}
	w.send(w.message(2, "T", "young"))
	tick := make(chan time.Time)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.store.Retain(ctx, tick)
	}()
	nodetest.Until(t, "the log's beginning is removed", func() bool {
		tick <- w.clock.Now()
		return w.store.Queue(topic.Schedule, 1).Min() > 0
	})
	cancel()
	<-done
	w.clock.Advance(2 * time.Hour)
	w.run()
	w.want("what is left", "young")
	if st := w.s.Stats(); st.Dropped != 2 || !strings.Contains(w.log.String(), "removed from the log before they were due") {
		t.Errorf("stats %+v, log %s", st, w.log.String())
	}
}

// TestLargerThanAllowed: the largest body is 4 MiB at a time and less at the next start; who was promised to get
// a message gets it.
func TestLargerThanAllowed(t *testing.T) {
	w := newWorld(t, time.Second)
	w.send(w.message(1, "T", strings.Repeat("x", 500_000)), w.message(1, "T", "next"))
	w.close()
	w.most = 1000
	w.open()
	w.clock.Advance(2 * time.Second)
	w.run()
	if got := w.bodies("T"); len(got) != 2 || len(got[0]) != 500_000 || got[1] != "next" {
		t.Errorf("%d delivered", len(got))
	}
}
