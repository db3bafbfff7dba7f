package store

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"path"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"ringmq/store/internal/derive/queue"
	"ringmq/store/record"
	"ringmq/store/vfs/faultfs"
	"ringmq/store/vfs/memfs"
)

// world is a disk and what its stores have promised so far. A store on it lives (see live), dies by a
// power cut, a kill or a close, and the next one is held to the promises. In every third world the log has
// two directories.
type world struct {
	t    testing.TB
	disk *memfs.FS
	rng  *rand.Rand
	lie  string // site whose syncs are lies
	o    Options

	promised   map[place][]byte          // messages that were acknowledged or visible
	where      map[place]int64           // their physical offsets
	gone       int64                     // the log was removed up to here at most
	tried      map[place]map[string]bool // every body that was ever appended at a place
	checkpoint int64                     // newest that was written
	indexed    int64                     // offset of a durable message that is durable in the index
	cutFiles   map[string][]byte         // copies of what was cut
	tails      [][]byte                  // what crashes left behind the end of the log
	sites      map[string]bool
	serial     int
	sizes      []int        // of records; many end with a sector or a page
	log        bytes.Buffer // of the last stores, for a failure's text
}

func (w *world) logDirs() []string {
	if len(w.o.CommitLogDirs) > 0 {
		return slices.Clone(w.o.CommitLogDirs)
	}
	return []string{"/a/s/commitlog"}
}

// place is a queue offset of a queue of topic T.
type place struct {
	id int32
	at int64
}

func newWorld(t testing.TB, seed uint64) *world {
	o := tinyOptions("/a/s")
	o.QueueFlushInterval = time.Millisecond
	o.checkpointBytes = 6 << 10
	o.indexFlushBytes = 9 << 10
	w := &world{
		t: t, disk: memfs.New(seed), rng: rand.New(rand.NewPCG(seed, 7)), o: o,
		promised: map[place][]byte{}, where: map[place]int64{}, tried: map[place]map[string]bool{}, cutFiles: map[string][]byte{},
		sites: map[string]bool{}, sizes: []int{512, 1024, 2048, 700, 3000},
	}
	if w.rng.IntN(3) == 0 {
		w.o.CommitLogDirs = []string{"/a/s/commitlog", "/b/log"}
	}
	w.o.fewQueues = 1 + w.rng.IntN(3)
	w.o.Log = slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return w
}

// life is one process on the disk.
type life struct {
	*harness
	w     *world
	power *faultfs.FS
	sent  []Put
	got   Got
	keys  map[int64]string // keys of the messages that verify has seen, by offset
}

// never is a call number that no life reaches.
const neverCut = 1 << 30

// live opens a store whose power goes at the k-th disk call, runs story and ends the process: as it is,
// or by a close if that is what story asks for. What was visible to the last is promised from then on.
// The error tells of a broken promise, or of a failure with the power on; cut whether it went.
func (w *world) live(k int, story func(*life) error) (cut bool, err error) {
	power := faultfs.Wrap(w.disk)
	power.CutAt(k)
	if w.lie != "" {
		power.Lie(w.lie)
	}
	l := &life{harness: newHarness(w.t), w: w, power: power}
	if err = l.open(power, w.o); err == nil {
		if err = l.verify(); err == nil {
			err = story(l)
		}
		w.promise(l)
		cut = power.IsCut()
		l.kill()
		_ = l.Close() // ends the goroutines; nothing reaches the disk
	}
	for _, site := range power.Sites() {
		w.sites[site] = true
	}
	if cut = cut || l.Store == nil && power.IsCut(); cut {
		err = dropPowerErrors(err)
	}
	return cut, err
}

// dropPowerErrors keeps what is a broken promise.
func dropPowerErrors(err error) error {
	var broken *brokenPromise
	if errors.As(err, &broken) {
		return broken
	}
	return nil
}

type brokenPromise struct{ text string }

func (b *brokenPromise) Error() string { return b.text }

func broken(format string, args ...any) error { return &brokenPromise{fmt.Sprintf(format, args...)} }

// kill ends the process without a close: nothing more reaches the disk, and nothing is lost from the
// page cache.
func (l *life) kill() {
	l.power.CutAt(l.power.Calls())
	_ = l.power.MkdirAll("/off")
}

// powerCut takes away what was not synced, as the dice decide, and looks at what is left.
func (w *world) powerCut(keepPercent int) error {
	w.disk = w.disk.Crash(w.rng, keepPercent)
	if err := w.checkTails(); err != nil {
		return err
	}
	if err := stockView(w.t, w.disk, "/a/s", w.o.CommitLogDirs...); err != nil {
		return broken("stock broker: %v", err)
	}
	return w.checkLengths()
}

// checkTails looks whether everything that ever stood behind the end of the log still stands somewhere,
// in the log or in a copy, and notes what stands there now.
func (w *world) checkTails() error {
	var files [][]byte
	for _, name := range logFiles(w.disk, append(w.logDirs(), "/a/s/cut")) {
		files = append(files, readFile(w.t, w.disk, name))
	}
	for _, tail := range w.tails {
		if !slices.ContainsFunc(files, func(b []byte) bool { return bytes.Contains(b, tail) }) {
			return broken("%d bytes behind the log's end were lost without a copy: %.40q", len(tail), tail)
		}
	}
	if tail := w.logTail(); len(tail) > 0 {
		w.tails = append(w.tails, tail)
	}
	return nil
}

// logTail returns what stands behind the end of the log, up to the end of that file.
func (w *world) logTail() []byte {
	for _, name := range logFiles(w.disk, w.logDirs()) {
		base, err := strconv.ParseInt(path.Base(name), 10, 64)
		if err != nil {
			continue
		}
		b := readFile(w.t, w.disk, name)
		if end, full := walkFile(b, base, map[queuePlace]queue.Entry{}); !full {
			return bytes.Trim(b[end:], "\x00")
		}
	}
	return nil
}

// promise notes what the store has shown, or without FlushSync only what it called durable.
func (w *world) promise(l *life) {
	end := l.Marks().Durable
	if w.o.FlushSync {
		end = l.Marks().Visible // not beyond durable, says the mark's promise
	}
	for _, p := range l.sent {
		if p.End <= end {
			w.promised[place{p.Queue.ID(), p.QueueOffset}] = p.Body
			w.where[place{p.Queue.ID(), p.QueueOffset}] = p.Offset
		}
	}
	w.checkpoint = max(w.checkpoint, l.Stats().Checkpoint)
	if mark := l.index.Mark(); mark.End < end {
		w.indexed = max(w.indexed, mark.End)
	}
}

// sendSome appends n messages to three queues, some of them joined, up to five at a time, and waits for
// some.
func (l *life) sendSome(n int) error {
	for n > 0 {
		puts := l.somePuts(min(n, 1+l.w.rng.IntN(5)))
		n -= len(puts)
		total := 0
		for i := range puts {
			total += puts[i].Bytes
		}
		var err error
		l.await(func() bool {
			err = l.Reserve(total)
			return !errors.Is(err, ErrBusy)
		})
		if err != nil {
			return err
		}
		l.Append(puts)
		for _, p := range puts {
			if p.Err != nil && !errors.Is(p.Err, ErrBusy) {
				return p.Err
			}
			if p.Err == nil {
				l.note(p)
			}
		}
		if end := puts[len(puts)-1].End; l.w.rng.IntN(3) == 0 {
			l.await(func() bool { return l.Marks().Visible >= end || l.Err() != nil })
		}
	}
	end := l.Marks().Written
	if len(l.sent) > 0 {
		end = l.sent[len(l.sent)-1].End
	}
	l.await(func() bool { return l.Marks().Visible >= end || l.Err() != nil })
	return l.Err()
}

func (l *life) somePuts(n int) []Put {
	puts := make([]Put, n)
	id, joined := int32(l.w.rng.IntN(3)), l.w.rng.IntN(2) == 0
	for i := range puts {
		if !joined {
			id = int32(l.w.rng.IntN(3))
		}
		l.w.serial++
		body := fmt.Appendf(nil, "%d.", l.w.serial)
		puts[i] = l.keyed(id, body)
		want := l.w.sizes[l.w.rng.IntN(len(l.w.sizes))]
		body = append(body, bytes.Repeat([]byte{byte('a' + l.w.serial%26)}, want-puts[i].Bytes)...)
		puts[i] = l.keyed(id, body)
		puts[i].Joined = joined && i > 0
	}
	return puts
}

// keyed makes a Put of a message with a key of its own.
func (l *life) keyed(id int32, body []byte) Put {
	p := l.put("T", id, body)
	p.Props = fmt.Appendf(nil, "KEYS\x01k%d\x02TAGS\x01a\x02", l.w.serial)
	p.Bytes, _ = l.RecordBytes(&p.Message)
	return p
}

func (l *life) note(p Put) {
	l.sent = append(l.sent, p)
	at := place{p.Queue.ID(), p.QueueOffset}
	if l.w.tried[at] == nil {
		l.w.tried[at] = map[string]bool{}
	}
	l.w.tried[at][string(p.Body)] = true
}

// awaitCheckpoint waits until one was written, if enough came for one. The keeper works on its own time.
func (l *life) awaitCheckpoint() {
	for l.Stats().Checkpoint+l.w.o.checkpointBytes < l.Marks().Visible && l.Err() == nil && !l.power.IsCut() {
		runtime.Gosched()
	}
}

// verify holds the store to the promises, and takes what it shows as further ones.
func (l *life) verify() error {
	if l.found.From < l.w.checkpoint {
		return broken("recovery began at %d, a checkpoint was written at %d", l.found.From, l.w.checkpoint)
	}
	l.w.checkpoint = l.Stats().Checkpoint
	for at := range l.w.promised {
		if q := l.Queue("T", at.id); q == nil || q.Max() <= at.at || q.Min() > at.at && l.w.where[at] >= l.w.gone {
			return broken("promised message %+v is gone", at)
		}
	}
	if l.found.IndexFrom < l.w.indexed {
		return broken("the index begins again at %d, what it has was durable up to %d", l.found.IndexFrom, l.w.indexed)
	}
	var err error
	l.keys = map[int64]string{}
	l.Queues(func(q *Queue) {
		for at := q.Min(); at < q.Max() && err == nil; at++ {
			err = l.verifyMessage(q, at)
		}
	})
	if err == nil { // else the power may have gone between the messages and the index
		err = l.verifyIndex()
	}
	return errors.Join(err, l.verifyCutFiles())
}

// verifyIndex looks whether the index has all messages, and nothing else.
func (l *life) verifyIndex() error {
	if len(l.found.Damage) > 0 {
		return nil // there is none while the store is held
	}
	for l.Stats().Indexed < l.Marks().Visible {
		if l.power.IsCut() {
			return nil
		}
		runtime.Gosched()
	}
	q := Query{Topic: "T", Key: "a", Tags: true, Max: 1 << 20, EndMs: math.MaxInt64, Hashed: true}
	all, err := l.Find(q)
	if err != nil {
		return err
	}
	gone := func(at int64) bool { return at < l.w.gone } // the index and the log let go of whole files only
	all.Offsets = slices.DeleteFunc(all.Offsets, gone)
	maps.DeleteFunc(l.keys, func(at int64, _ string) bool { return gone(at) })
	if want := slices.Sorted(maps.Keys(l.keys)); !slices.Equal(all.Offsets, want) {
		return broken("the index has messages at %v, the log at %v", all.Offsets, want)
	}
	for at, key := range l.keys {
		q.Key, q.Tags, q.Hashed = key, false, false
		one, err := l.Find(q)
		if err != nil || l.power.IsCut() {
			return err
		}
		if !slices.Equal(one.Offsets, []int64{at}) {
			return broken("%s of the message at %d leads to %v", key, at, one.Offsets)
		}
	}
	return nil
}

func (l *life) verifyMessage(q *Queue, at int64) error {
	if err := l.Get(q, Get{Offset: at, MaxCount: 1}, &l.got); err != nil {
		return err
	}
	if l.got.Status != Found {
		return broken("%d@%d: %v", q.ID(), at, l.got.Status)
	}
	b := make([]byte, l.got.Bytes)
	if err := l.ReadAt(b, l.got.Runs[0].Offset); err != nil {
		return err
	}
	var r record.Record
	if err := record.Verify(b, l.got.Runs[0].Offset, &r); err != nil {
		return broken("%d@%d: %v", q.ID(), at, err)
	}
	keys, _ := record.Prop(r.Props, "KEYS")
	l.keys[l.got.Runs[0].Offset] = string(keys)
	here := place{q.ID(), at}
	switch body, ok := l.w.promised[here]; {
	case r.QueueID != q.ID() || r.QueueOffset != at:
		return broken("%d@%d holds a message of %d@%d", q.ID(), at, r.QueueID, r.QueueOffset)
	case ok && !bytes.Equal(body, r.Body):
		return broken("%d@%d: promised %.12q, found %.12q", q.ID(), at, body, r.Body)
	case !l.w.tried[here][string(r.Body)]:
		return broken("%d@%d: %.12q was never sent there", q.ID(), at, r.Body)
	}
	l.w.promised[here], l.w.where[here] = bytes.Clone(r.Body), l.got.Runs[0].Offset
	return nil
}

// verifyCutFiles looks whether the copies of what was cut are still there.
func (l *life) verifyCutFiles() error {
	if name := l.found.CutFile; name != "" {
		l.w.cutFiles[name] = readFile(l.t, l.w.disk, name)
	}
	for name, want := range l.w.cutFiles {
		if _, err := l.w.disk.Stat(name); err != nil {
			return broken("copy of what was cut is gone: %s", name)
		}
		if !bytes.Equal(readFile(l.t, l.w.disk, name), want) {
			return broken("copy of what was cut has changed: %s", name)
		}
	}
	return nil
}

// checkLengths finds files of the log that have not their length.
func (w *world) checkLengths() error {
	for _, name := range logFiles(w.disk, w.logDirs()) {
		if info, err := w.disk.Stat(name); err == nil && info.Size != w.o.SegmentBytes {
			return broken("%s has %d bytes", name, info.Size)
		}
	}
	return nil
}
