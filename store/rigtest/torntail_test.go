package rigtest

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ringmq/store"
	"ringmq/store/record"
	"ringmq/store/vfs/osfs"
)

// TestTornTail damages the end of the log in every way that a crash can: it ends at each of the last 400
// bytes, with zeros behind it, or ones, or what an older record left there; and each byte of the last
// record has a bit flipped. The store opens, every record before the damage is there, the next message
// gets the offsets after them, and the directory then opens without a complaint.
func TestTornTail(t *testing.T) {
	eachEngine(t, func(t *testing.T, e engine) {
		if e.deny && os.Getenv(denyEnv) == "" {
			runDenied(t)
			return
		}
		seed := newSeed(t)
		rng := rand.New(rand.NewPCG(seed, 0))
		w := newTornWorld(t, e, rng)
		cases := w.cuts()
		for bit := range rounds(1, 8) {
			cases = append(cases, w.flips(rng, bit)...)
		}
		rng.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
		cases = cases[:min(len(cases), rounds(60, 1<<30))]
		for _, c := range cases {
			if err := w.try(c); err != nil {
				t.Fatalf("%s: %v", c.what, err)
			}
		}
		t.Logf("%d damaged logs", len(cases))
	})
}

// runDenied runs the test that calls it in another process, where io_uring is forbidden.
func runDenied(t *testing.T) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run", "^"+name+"$/^engine=denied$")
	cmd.Env = append(os.Environ(), denyEnv+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Fatalf("with io_uring denied: %v\n%s", err, out)
	}
}

// tornWorld is a directory that was closed, opened again and appended to, as a crash leaves it when the
// log is on the disk and nothing else of that last life.
type tornWorld struct {
	t       *testing.T
	e       engine
	dir     string // room for copies
	base    string // the directory when it was opened again
	log     []byte // its log, later
	records []stored
	news    chan struct{} // marks of the store that is open have moved, or its log has failed
}

type stored struct {
	queue    int32
	at       int64 // queue offset
	off, end int64 // physical
	body     []byte
}

const tornSegmentBytes = 64 << 10

func newTornWorld(t *testing.T, e engine, rng *rand.Rand) *tornWorld {
	dir := memoryDir(t)
	w := &tornWorld{t: t, e: e, dir: dir, base: filepath.Join(dir, "base"), news: make(chan struct{}, 1)}
	live := filepath.Join(w.dir, "live")
	s := w.open(live)
	w.append(s, rng, 20)
	w.close(s)
	s = w.open(live)
	if err := os.CopyFS(w.base, os.DirFS(live)); err != nil {
		t.Fatal(err)
	}
	w.append(s, rng, 8)
	w.close(s)
	log, err := os.ReadFile(filepath.Join(live, logFile))
	if err != nil {
		t.Fatal(err)
	}
	w.log = log
	return w
}

const logFile = "commitlog/00000000000000000000"

func (w *tornWorld) open(dir string) *store.Store {
	w.t.Helper()
	s, err := w.tryOpen(dir)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *tornWorld) tryOpen(dir string) (*store.Store, error) {
	quiet := slog.New(slog.DiscardHandler)
	return store.Open(osfs.New(osfs.Options{IOEngine: w.e.ask, Log: quiet}), store.Options{
		Dir: dir, SegmentBytes: tornSegmentBytes, QueueFileBytes: 2000, FlushSync: true, StagingBytes: 64 << 10,
		MaxMessageBytes: 1 << 10, Log: quiet, IndexSlots: 1000, IndexEntries: 1000, // small: each case copies the directory
		OnMarks: func(store.Marks) { w.tell() }, OnFail: func(error) { w.tell() },
	})
}

func (w *tornWorld) tell() {
	select {
	case w.news <- struct{}{}:
	default: // told already
	}
}

func (w *tornWorld) close(s *store.Store) {
	w.t.Helper()
	if err := s.Close(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *tornWorld) append(s *store.Store, rng *rand.Rand, n int) {
	w.t.Helper()
	for range n {
		r, err := w.send(s, int32(rng.IntN(3)), makeBody(rng.Uint64(), 1, rng.IntN(60)))
		if err != nil {
			w.t.Fatal(err)
		}
		w.records = append(w.records, r)
	}
}

// send appends a message and waits until it is visible.
func (w *tornWorld) send(s *store.Store, queue int32, body []byte) (stored, error) {
	puts := []store.Put{{Queue: s.OpenQueue(topic, queue), Message: record.Message{
		Topic: topic, QueueID: queue, BornMs: 1, Born: host, Store: host,
		Body: body, BodyCRC: record.BodyCRC(body), Props: []byte("TAGS\x01a\x02"),
	}}}
	p := &puts[0]
	size, err := s.RecordBytes(&p.Message)
	if err != nil {
		return stored{}, err
	}
	p.Bytes = size
	if err := patiently(func() error { return s.Reserve(size) }, store.ErrBusy); err != nil {
		return stored{}, err
	}
	if s.Append(puts); p.Err != nil {
		return stored{}, p.Err
	}
	for late := time.After(patience); s.Marks().Visible < p.End; {
		if err := s.Err(); err != nil {
			return stored{}, err
		}
		select {
		case <-w.news:
		case <-late:
			return stored{}, fmt.Errorf("not stored in %v", patience)
		}
	}
	return stored{queue: queue, at: p.QueueOffset, off: p.Offset, end: p.End, body: body}, nil
}

// damage is what becomes of the log.
type damage struct {
	what string
	log  []byte
}

const sweepBytes = 400

func (w *tornWorld) end() int64 { return w.records[len(w.records)-1].end }

// cuts ends the log at each of its last bytes. What stands behind goes on beyond the page, as when the first
// page of a write was lost and the others were not.
func (w *tornWorld) cuts() (all []damage) {
	end := w.end()
	for at := end - sweepBytes; at < end; at++ {
		for what, tail := range map[string][]byte{
			"zeros": make([]byte, end-at),
			"ones":  bytes.Repeat([]byte{0xFF}, int(end-at)+2*pageBytes),
			"stale": bytes.Repeat(w.log[:w.records[3].end], 50)[:int(end-at)+2*pageBytes],
		} {
			log := bytes.Clone(w.log)
			copy(log[at:], tail)
			all = append(all, damage{fmt.Sprintf("cut %d bytes before the end at %d, %s behind", end-at, end, what), log})
		}
	}
	return all
}

// flips flips one bit in each byte of the last record, for each byte another.
func (w *tornWorld) flips(rng *rand.Rand, bit int) (all []damage) {
	last := w.records[len(w.records)-1]
	from := rng.IntN(8)
	for at := last.off; at < last.end; at++ {
		log := bytes.Clone(w.log)
		flip := (from + int(at) + bit) % 8
		log[at] ^= 1 << flip
		all = append(all, damage{fmt.Sprintf("bit %d of byte %d of the last record", flip, at-last.off), log})
	}
	return all
}

// try opens the directory with a damaged log, appends, and opens it again.
func (w *tornWorld) try(d damage) (err error) {
	dir := filepath.Join(w.dir, "s")
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.CopyFS(dir, os.DirFS(w.base)); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, logFile), d.log, 0o600); err != nil {
		return err
	}
	want := w.intact(d.log)
	s, err := w.tryOpen(dir)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	added, err := w.tryAppend(s, want)
	if err := errors.Join(err, s.Close()); err != nil {
		return err
	}
	if s, err = w.tryOpen(dir); err != nil {
		return fmt.Errorf("open again: %w", err)
	}
	if n := s.Stats().Recovered.CutBytes; n != 0 {
		err = fmt.Errorf("opened again it was cut once more, by %d bytes", n)
	}
	return errors.Join(err, holds(s, append(want, added...)), s.Close())
}

// intact returns the records up to the first that the damage has changed.
func (w *tornWorld) intact(log []byte) []stored {
	for i, r := range w.records {
		if !bytes.Equal(log[r.off:r.end], w.log[r.off:r.end]) {
			return w.records[:i:i]
		}
	}
	return w.records
}

// tryAppend appends a message to each queue of a store that holds want.
func (w *tornWorld) tryAppend(s *store.Store, want []stored) (added []stored, err error) {
	if err := holds(s, want); err != nil {
		return nil, err
	}
	end := want[len(want)-1].end
	for queue := range int32(3) {
		r, err := w.send(s, queue, makeBody(7, uint64(queue), 100))
		if err != nil {
			return nil, fmt.Errorf("append: %w", err)
		}
		if at := countOf(want, queue); r.off != end || r.at != at {
			return nil, fmt.Errorf("the next message of queue %d is %d at %d, want %d at %d", queue, r.at, r.off, at, end)
		}
		end = r.end
		added = append(added, r)
	}
	return added, nil
}

func countOf(all []stored, queue int32) (n int64) {
	for _, r := range all {
		if r.queue == queue {
			n++
		}
	}
	return n
}

// holds reports whether a store shows exactly want.
func holds(s *store.Store, want []stored) error {
	for queue := range int32(3) {
		shown := int64(0)
		if q := s.Queue(topic, queue); q != nil {
			shown = q.Max()
		}
		if n := countOf(want, queue); shown != n {
			return fmt.Errorf("queue %d has %d messages, want %d", queue, shown, n)
		}
	}
	for _, r := range want {
		if err := shows(s, r); err != nil {
			return fmt.Errorf("message %d of queue %d: %w", r.at, r.queue, err)
		}
	}
	return nil
}

func shows(s *store.Store, r stored) error {
	var got store.Got
	if err := s.Get(s.Queue(topic, r.queue), store.Get{Offset: r.at, MaxCount: 1}, &got); err != nil {
		return err
	}
	if want := (store.Run{Offset: r.off, Bytes: int(r.end - r.off)}); got.Status != store.Found || got.Runs[0] != want {
		return fmt.Errorf("%v, %v, want %v", got.Status, got.Runs, want)
	}
	b := make([]byte, r.end-r.off)
	if err := s.ReadAt(b, r.off); err != nil {
		return err
	}
	var rec record.Record
	if err := record.Verify(b, r.off, &rec); err != nil {
		return err
	}
	if !bytes.Equal(rec.Body, r.body) {
		return errors.New("another body")
	}
	return nil
}
