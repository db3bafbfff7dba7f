package index

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"ringmq/store/record"
	"ringmq/store/vfs/faultfs"
	"ringmq/store/vfs/memfs"
)

// world is a disk with an index, and the log that it belongs to. The log is taken for durable, except
// that a crash may take its newest records; others come in their places.
type world struct {
	t    testing.TB
	o    Options
	rng  *rand.Rand
	disk *memfs.FS
	lie  string // site whose syncs are lies

	log      []*record.Record
	end, min int64
	promised int64 // what CompleteTo said, as far as the log still goes there
	sites    map[string]bool
}

// Two shapes of files: several sectors that a crash tears apart, and several pages.
var worldOptions = []Options{{Slots: 300, Entries: 60}, {Slots: 2500, Entries: 300}}

func newWorld(t testing.TB, seed uint64) *world {
	w := &world{
		t: t, o: worldOptions[seed%2], rng: rand.New(rand.NewPCG(seed, 1)), disk: memfs.New(seed),
		sites: map[string]bool{},
	}
	w.disk.TearSectors(seed%2 == 0)
	return w
}

// grow adds n records to the log. Some have no keys, some have the same ones, some have many.
func (w *world) grow(n int) {
	for range n {
		var props []byte
		if w.rng.IntN(4) > 0 {
			props = record.AppendProp(props, "UNIQ_KEY", fmt.Sprint(w.rng.Uint64()))
		}
		keys := ""
		for range w.rng.IntN(4) * w.rng.IntN(3) {
			keys += fmt.Sprintf("k%d ", w.rng.IntN(40))
		}
		if keys != "" {
			props = record.AppendProp(props, "KEYS", keys)
		}
		if w.rng.IntN(2) == 0 {
			props = record.AppendProp(props, "TAGS", []string{"A", "B"}[w.rng.IntN(2)])
		}
		r := &record.Record{Topic: []byte("T"), PhysOffset: w.end, Size: 100 + w.rng.IntN(50), StoreMs: 1e12 + w.end*20, Props: props}
		w.log = append(w.log, r)
		w.end += int64(r.Size)
	}
}

// cutLog loses some of the newest records.
func (w *world) cutLog() {
	n := min(w.rng.IntN(40), len(w.log))
	w.log = w.log[:len(w.log)-n]
	w.end = 0
	if len(w.log) > 0 {
		last := w.log[len(w.log)-1]
		w.end = last.PhysOffset + int64(last.Size)
	}
	w.promised = w.keyedBefore(min(w.end, w.promised+1))
	w.min = min(w.min, w.end)
}

// keyedBefore is the offset of the newest record before end that has keys; 0 if there is none.
func (w *world) keyedBefore(end int64) int64 {
	for _, r := range slices.Backward(w.log) {
		if r.PhysOffset < end && len(entriesOf(r)) > 0 {
			return r.PhysOffset
		}
	}
	return 0
}

// placed is what an entry says, without the numbers of its file.
type placed struct {
	hash int32
	phys int64
}

func entriesOf(r *record.Record) (all []placed) {
	for k := range keysOf(r.Props) {
		all = append(all, placed{hashOf(k.append(nil, r.Topic)), r.PhysOffset})
	}
	return all
}

// live opens the index with a disk whose power goes at the k-th call, runs story, and ends the process
// without a close. The error tells of a broken promise, or of a failure with the power on.
func (w *world) live(k int, story func(x *Index) error) (cut bool, err error) {
	power := faultfs.Wrap(w.disk)
	power.CutAt(k)
	if w.lie != "" {
		power.Lie(w.lie)
	}
	x, err := tryOpen(power, w.o)
	if err == nil {
		if err = w.fit(x); err == nil {
			err = story(x)
		}
		power.CutAt(power.Calls()) // nothing more reaches the disk
		if closeErr := x.Close(); closeErr != nil {
			w.t.Fatal(closeErr)
		}
	}
	for _, site := range power.Sites() {
		w.sites[site] = true
	}
	if cut = power.Calls() > k; cut && errors.Is(err, faultfs.ErrPower) {
		err = nil
	}
	return cut, err
}

// fit does what follows an Open: the promise is kept, and the index made to fit the log.
func (w *world) fit(x *Index) error {
	if got := x.CompleteTo().Offset; got < w.promised && w.promised >= w.min {
		return fmt.Errorf("complete to %d, promised was %d", got, w.promised)
	}
	if err := x.Truncate(w.end); err != nil {
		return err
	}
	if err := x.DropBelow(w.min); err != nil {
		return err
	}
	from := x.CompleteTo().Offset
	w.promised = max(w.promised, from)
	if len(w.log) > 0 && from > w.keyedBefore(w.end) {
		return fmt.Errorf("complete to %d, the log's newest record with keys is at %d", from, w.keyedBefore(w.end))
	}
	return w.put(x, from)
}

// put puts in what the log has from an offset on, with flushes in between.
func (w *world) put(x *Index, from int64) error {
	for _, r := range w.log {
		if r.PhysOffset < max(from, w.min) {
			continue
		}
		if err := x.Put(r); err != nil {
			return err
		}
		if w.rng.IntN(20) == 0 {
			if err := w.flush(x); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *world) flush(x *Index) error {
	if err := x.Flush(); err != nil {
		return err
	}
	w.promised = max(w.promised, x.CompleteTo().Offset)
	if got := x.Newest().Offset; got != x.CompleteTo().Offset {
		return fmt.Errorf("flushed to %+v, the newest is at %d", x.CompleteTo(), got)
	}
	return nil
}

// more is an ordinary stretch of work, after which all is checked.
func (w *world) more(x *Index) error {
	from := w.end
	w.grow(1 + w.rng.IntN(40))
	if err := w.put(x, from); err != nil {
		return err
	}
	if w.rng.IntN(4) == 0 {
		w.min = max(w.min, w.end*int64(w.rng.IntN(80))/100)
		if err := x.DropBelow(w.min); err != nil {
			return err
		}
	}
	return w.check(x)
}

// much is more work, with a flush at its end.
func (w *world) much(x *Index) error {
	for range 4 {
		if err := w.more(x); err != nil {
			return err
		}
	}
	return w.flush(x)
}

// check holds the whole index to the log: each key of each record has one entry, in order, except
// that those before the log's begin may be missing; each entry can be reached from its slot.
func (w *world) check(x *Index) error {
	var want, got []placed
	for _, r := range w.log {
		want = append(want, entriesOf(r)...)
	}
	for _, f := range x.files {
		all, err := entriesIn(x, f)
		if err != nil {
			return err
		}
		got = append(got, all...)
	}
	for _, p := range got {
		for len(want) > 0 && want[0] != p && want[0].phys < w.min {
			want = want[1:]
		}
		if len(want) == 0 || want[0] != p {
			return fmt.Errorf("entry %+v is doubled or wrong, or one before it is missing", p)
		}
		want = want[1:]
	}
	if len(want) > 0 && want[len(want)-1].phys >= w.min {
		return fmt.Errorf("%d entries are missing at the end", len(want))
	}
	return nil
}

// entriesIn returns a file's entries in their order, each found by its chain.
func entriesIn(x *Index, f *file) ([]placed, error) {
	found := map[int32]placed{}
	used := int32(0)
	window := newWindow(x.g, f)
	for s := range x.g.slots {
		at, err := x.lookUp(f, s)
		if err != nil {
			return nil, err
		}
		if at.number > 0 {
			used++
		}
		for number := at.number; number > 0; {
			e, ok := x.entryInMemory(f, number)
			if !ok {
				if e, err = window.entry(number); err != nil {
					return nil, err
				}
			}
			if x.g.slotOf(e.hash) != s || e.before >= number {
				return nil, fmt.Errorf("file %s: entry %d of slot %d: %+v", f.name, number, s, e)
			}
			found[number] = placed{e.hash, e.phys}
			number = e.before
		}
	}
	if used != f.head.used {
		return nil, fmt.Errorf("file %s: %d slots are used, its head says %d", f.name, used, f.head.used)
	}
	var all []placed
	for number := int32(1); number < f.head.count; number++ {
		p, ok := found[number]
		if !ok {
			return nil, fmt.Errorf("file %s: no slot leads to entry %d of %d", f.name, number, f.head.count)
		}
		all = append(all, p)
	}
	return all, nil
}

// crash ends what the last life left: by a kill, or by a power cut that keeps some of what was not synced,
// after which the log may have lost its newest records.
func (w *world) crash() {
	if w.rng.IntN(4) == 0 {
		return
	}
	w.disk = w.disk.Crash(w.rng, []int{0, 50, 90, 100}[w.rng.IntN(4)])
	w.disk.TearSectors(w.o.Slots == worldOptions[0].Slots)
	if w.rng.IntN(2) == 0 {
		w.cutLog()
	}
}
