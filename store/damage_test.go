package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"runtime"
	"testing"

	"ringmq/store/internal/derive/checkpoint"
	"ringmq/store/internal/mark"
	"ringmq/store/record"
	"ringmq/store/vfs"
	"ringmq/store/vfs/faultfs"
	"ringmq/store/vfs/memfs"
)

// flip spoils a byte of the log on the disk, or puts it right again.
func flip(t testing.TB, fsys vfs.FS, dir string, segmentBytes, off int64) {
	t.Helper()
	change(t, fsys, dir, segmentBytes, off, func(b byte) byte { return b ^ 1 })
}

func zero(t testing.TB, fsys vfs.FS, dir string, segmentBytes, off int64) {
	t.Helper()
	change(t, fsys, dir, segmentBytes, off, func(byte) byte { return 0 })
}

func change(t testing.TB, fsys vfs.FS, dir string, segmentBytes, off int64, to func(byte) byte) {
	t.Helper()
	f, err := fsys.Open(path.Join(dir, "commitlog", fmt.Sprintf("%020d", off/segmentBytes*segmentBytes)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], off%segmentBytes); err != nil {
		t.Fatal(err)
	}
	b[0] = to(b[0])
	if _, err := f.WriteAt(b[:], off%segmentBytes); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

// killed is a store that was killed with ten messages of queue T/0 behind its last checkpoint, and the
// mark behind the first marked of them.
func killed(t *testing.T, marked int) (disk *memfs.FS, o Options, sent []Put) {
	t.Helper()
	disk = memfs.New(1)
	power := faultfs.Wrap(disk)
	o = tinyOptions("/s")
	o.SegmentBytes = 4 << 10
	h := openTest(t, power, o)
	for i := range 10 {
		puts := []Put{h.put("T", 0, bytes.Repeat([]byte{byte('a' + i)}, 900))}
		if !h.send(puts...) {
			t.Fatal(h.Err())
		}
		sent = append(sent, puts...)
	}
	power.CutAt(power.Calls())
	_ = h.Close()
	m, err := mark.Open(disk, "/s")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.Set(sent[marked-1].End); err != nil {
		t.Fatal(err)
	}
	return disk, o, sent
}

// serves reports whether a Get at the place of p gives p. It may give the next whole message instead.
func (h *harness) serves(p Put) bool {
	h.t.Helper()
	var got Got
	if err := h.Get(h.Queue("T", 0), Get{Offset: p.QueueOffset, MaxCount: 1, MaxBytes: 1}, &got); err != nil {
		h.t.Fatal(err)
	}
	return got.Status == Found && got.Runs[0].Offset == p.Offset
}

// TestDamage spoils messages of a store that was killed. Below the mark that is damage: the store opens
// for reading what is whole around it, tells, and takes nothing, as often as it is opened, and without
// changing the log; the byte put right, all is well. From the mark on it is the torn end.
func TestDamage(t *testing.T) {
	for _, tc := range []struct {
		name   string
		marked int
		spoil  []int // messages
	}{
		{"one in the middle", 10, []int{4}},
		{"the first of all", 10, []int{0}},
		{"the last below the mark", 10, []int{9}},
		{"the first of a file", 10, []int{4}},
		{"two in a row", 10, []int{5, 6}},
		{"two apart", 10, []int{2, 7}},
		{"one below the mark and the torn end", 6, []int{3, 9}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			disk, o, sent := killed(t, tc.marked)
			bad := map[int]bool{}
			for _, i := range tc.spoil {
				bad[i] = true
				flip(t, disk, "/s", o.SegmentBytes, sent[i].Offset+200)
			}
			for range 2 {
				h := openTest(t, disk, o)
				wantDamaged(t, h, sent, bad)
				if err := h.Close(); err != nil {
					t.Fatal(err)
				}
			}
			for _, i := range tc.spoil {
				flip(t, disk, "/s", o.SegmentBytes, sent[i].Offset+200)
			}
			h := openTest(t, disk, o)
			defer h.Close()
			for i := range sent {
				if got := h.body("T", 0, int64(i)); !bytes.Equal(got, sent[i].Body) {
					t.Errorf("put right, message %d is %.10q", i, got)
				}
			}
			if !h.send(h.put("T", 0, []byte("again"))) {
				t.Error(h.Err())
			}
		})
	}
}

func wantDamaged(t *testing.T, h *harness, sent []Put, bad map[int]bool) {
	t.Helper()
	if err := h.Reserve(100); !errors.Is(err, ErrDamaged) || !errors.Is(h.Err(), ErrDamaged) {
		t.Fatalf("reserve: %v, store: %v, want damage", err, h.Err())
	}
	found := h.Stats().Recovered
	for i, p := range sent {
		if h.serves(p) == bad[i] {
			t.Errorf("message %d is spoiled: %v, and served: %v", i, bad[i], !bad[i])
		}
		_, inHole := found.hole(p.Offset, p.Bytes)
		err := h.ReadAt(make([]byte, p.Bytes), p.Offset)
		if bad[i] != errors.Is(err, ErrOffset) || inHole && !bad[i] {
			t.Errorf("read message %d: %v, in a hole: %v", i, err, inHole)
		}
	}
	if found.CutFile != "" {
		t.Errorf("something was cut: %+v", found)
	}
}

// TestDamageIsCut: with CutOnDamage the log ends at the damage and goes on from there; the rest is kept.
func TestDamageIsCut(t *testing.T) {
	disk, o, sent := killed(t, 10)
	flip(t, disk, "/s", o.SegmentBytes, sent[4].Offset+200)
	o.OnDamage = CutOnDamage
	h := openTest(t, disk, o)
	found := h.Stats().Recovered
	if found.End != sent[4].Offset || found.CutValid != 5 || found.CutFile == "" || len(found.Damage) != 0 {
		t.Fatalf("%+v, want an end at %d and 5 whole records in a copy", found, sent[4].Offset)
	}
	if !h.send(h.put("T", 0, []byte("new"))) || string(h.body("T", 0, 4)) != "new" {
		t.Error(h.Err())
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	o.OnDamage = StopOnDamage
	h = openTest(t, disk, o)
	defer h.Close()
	if err := h.Err(); err != nil {
		t.Errorf("after the cut: %v", err)
	}
}

// TestRepairAfterDamage: what "ringmq store repair --yes" does ends the damage, also where it is the last thing
// in the log, so that without checkpoint nothing but the mark would tell of it.
func TestRepairAfterDamage(t *testing.T) {
	for _, spoiled := range []int{4, 9} {
		disk, o, sent := killed(t, 10)
		flip(t, disk, "/s", o.SegmentBytes, sent[spoiled].Offset+200)
		o.OnDamage = CutOnDamage
		if _, err := Rebuild(disk, o); err != nil {
			t.Fatal(err)
		}
		o.OnDamage = StopOnDamage
		h := openTest(t, disk, o)
		if got := h.Queue("T", 0).Max(); h.Err() != nil || got != int64(spoiled) {
			t.Errorf("message %d was spoiled: %v, %d messages", spoiled, h.Err(), got)
		}
		if !h.send(h.put("T", 0, []byte("new"))) {
			t.Error(h.Err())
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTornEndIsCut: from the mark on, bad bytes are what nobody was promised, whole records behind them
// too: flushes land in any order.
func TestTornEndIsCut(t *testing.T) {
	disk, o, sent := killed(t, 6)
	flip(t, disk, "/s", o.SegmentBytes, sent[6].Offset+200)
	h := openTest(t, disk, o)
	defer h.Close()
	found := h.Stats().Recovered
	if h.Err() != nil || found.End != sent[6].Offset || found.CutValid != 3 || found.CutFile == "" {
		t.Fatalf("%v, %+v, want an end at %d and 3 whole records in a copy", h.Err(), found, sent[6].Offset)
	}
	if !h.send(h.put("T", 0, []byte("new"))) {
		t.Error(h.Err())
	}
}

// TestTornRecordIsNotWhole: a record whose last page did not come through, with the check in it, passes for one of a
// stock broker. Recovery refuses it, and counted it as whole in the line that says what was cut.
func TestTornRecordIsNotWhole(t *testing.T) {
	disk, o, sent := killed(t, 6)
	torn := sent[7]
	bare, err := torn.Message.Size(record.CheckOff)
	if err != nil {
		t.Fatal(err)
	}
	for off := torn.Offset + int64(bare); off < torn.End; off++ {
		zero(t, disk, "/s", o.SegmentBytes, off)
	}
	h := openTest(t, disk, o)
	defer h.Close()
	found := h.Stats().Recovered
	if h.Err() != nil || found.End != torn.Offset || found.CutValid != 2 {
		t.Fatalf("%v, %+v, want an end at %d and the 2 whole records behind", h.Err(), found, torn.Offset)
	}
}

// TestMissingEndIsDamage: without its last file the log is well-formed, but not all that was durable.
func TestMissingEndIsDamage(t *testing.T) {
	disk, o, sent := killed(t, 10)
	last := sent[9].Offset / o.SegmentBytes * o.SegmentBytes
	if err := disk.Remove(fmt.Sprintf("/s/commitlog/%020d", last)); err != nil {
		t.Fatal(err)
	}
	h := openTest(t, disk, o)
	defer h.Close()
	if err := h.Err(); !errors.Is(err, ErrDamaged) {
		t.Errorf("store: %v, found %+v", err, h.Stats().Recovered)
	}
}

// TestDamageOfStock: in a directory that a stock broker wrote last, whole records behind a bad one tell
// of damage. What that broker would have shown is there, and what it would have cut as well.
func TestDamageOfStock(t *testing.T) {
	fsys, g := memfs.New(1), loadGolden(t, "tornmid")
	unpack(t, fsys, "tornmid")
	before := readFile(t, fsys, "/commitlog/00000000000000000000")
	for range 2 {
		h := openTest(t, fsys, Options{Dir: "/"})
		found := h.Stats().Recovered
		if want := []Hole{{195710, 195976}}; !errors.Is(h.Err(), ErrDamaged) || fmt.Sprint(found.Damage) != fmt.Sprint(want) {
			t.Fatalf("%v, damage %v, want %v", h.Err(), found.Damage, want)
		}
		for _, m := range g.Messages {
			if err := h.ReadAt(make([]byte, m.Size), m.Offset); err != nil {
				t.Error(err)
			}
		}
		if got := found.Records; got != int64(len(g.Messages))+7 {
			t.Errorf("%d records, want those of the stock broker and 7 more", got)
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(before, readFile(t, fsys, "/commitlog/00000000000000000000")) {
		t.Error("the log was changed")
	}
}

// bitRot is a life whose newest messages are on the disk, a power cut, and a byte of one of them that
// goes bad: the next store says so and serves the others. Then the byte is put right.
func (w *world) bitRot() error {
	var p Put
	if _, err := w.live(neverCut, func(l *life) error {
		if err := l.sendSome(1 + w.rng.IntN(8)); err != nil || len(l.sent) == 0 {
			return err
		}
		p = l.sent[w.rng.IntN(len(l.sent))]
		for marked := int64(0); marked < p.End; runtime.Gosched() {
			if marked, _ = mark.Read(w.disk, "/a/s"); marked < p.End || w.lie == "mark.(*File).Set:sync" {
				continue // not written yet; or it never gets to the disk
			}
			marked, _ = mark.Read(w.disk.AfterCrash(rand.New(rand.NewPCG(0, 0)), 0), "/a/s")
		}
		return nil
	}); err != nil {
		return err
	}
	if err := w.powerCut(0); err != nil {
		return err
	}
	point, _, err := checkpoint.Read(w.disk, "/a/s")
	if err != nil || p.Queue == nil || p.Offset < point.Position { // what is older is not read again
		return err
	}
	if _, err := w.disk.Stat(fmt.Sprintf("/a/s/commitlog/%020d", p.Offset/w.o.SegmentBytes*w.o.SegmentBytes)); err != nil {
		return broken("the file of a promised message is gone: %v", err)
	}
	flip(w.t, w.disk, "/a/s", w.o.SegmentBytes, p.Offset+200)
	defer flip(w.t, w.disk, "/a/s", w.o.SegmentBytes, p.Offset+200)
	h := newHarness(w.t)
	if err := h.open(w.disk, w.o); err != nil {
		return err
	}
	defer h.Close()
	if !errors.Is(h.Err(), ErrDamaged) {
		return broken("damage at %d was not told: %v, %+v", p.Offset, h.Err(), h.Stats().Recovered)
	}
	return w.servedAround(h, place{p.Queue.ID(), p.QueueOffset})
}

// servedAround looks whether every promised message but one is served.
func (w *world) servedAround(h *harness, but place) error {
	var got Got
	for at, want := range w.promised {
		if err := h.Get(h.Queue("T", at.id), Get{Offset: at.at, MaxCount: 1}, &got); err != nil {
			return err
		}
		if at == but {
			if got.Status == Found && got.Next == at.at+1 {
				return broken("%+v is damaged and was served", at)
			}
			continue
		}
		if got.Status != Found {
			return broken("%+v is whole: %v", at, got.Status)
		}
		b := make([]byte, got.Bytes)
		if err := h.ReadAt(b, got.Runs[0].Offset); err != nil {
			return err
		}
		var r record.Record
		if err := record.Verify(b, got.Runs[0].Offset, &r); err != nil || !bytes.Equal(r.Body, want) {
			return broken("%+v: promised %.12q, found %.12q, %v", at, want, r.Body, err)
		}
	}
	return nil
}
