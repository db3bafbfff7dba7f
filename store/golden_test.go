package store

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"ringmq/store/internal/derive/queue"
	"ringmq/store/vfs"
	"ringmq/store/vfs/memfs"
	"ringmq/store/vfs/vfstest"
)

// golden is what a stock broker 5.5.0 shows of a directory that it wrote, or recovered.
type golden struct {
	CommitLog struct {
		MinOffset, MaxOffset, FileSize int64
		MessageCount                   int
	}
	Messages []struct {
		Offset         int64
		Size           int
		Topic          string
		QueueID        int32
		QueueOffset    int64
		StoreTimestamp int64
		SHA256         string
	}
	Queues []struct {
		Topic                string
		QueueID              int32
		MinOffset, MaxOffset int64
		Entries              []struct {
			Q, Pos, TagsCode int64
			ValidTagsCode    *int64 // of one whose TagsCode is a place in consumequeue_ext
			Size             int32
		}
	}
	Queries struct {
		ByKey []struct {
			Topic, Key, IndexType    string
			MaxNum                   int
			Begin, End               int64
			PhysicalOffsets          []int64
			IndexLastUpdateTimestamp int64
			IndexLastUpdatePhyOffset int64
		}
		OffsetByTime []struct {
			Topic     string
			QueueID   int32
			Timestamp int64
			Boundary  string
			Offset    int64
		}
		GetMessage []struct {
			Topic                string
			QueueID              int32
			Offset               int64
			MaxMsgNums           int
			Status               string
			NextBeginOffset      int64
			MinOffset, MaxOffset int64
			PhysicalOffsets      []int64
		}
	}
}

// TestGolden opens directories that a stock broker wrote, cleanly or not, and must see in them what that
// broker saw: after the first open, and again after a close.
func TestGolden(t *testing.T) {
	for _, name := range []string{
		"plain", "roll", "batch", "crc", "empty", "v2props", "ipv6", "lz4zstd", // closed cleanly
		"crash",    // killed: queues lack the newest records
		"nocq",     // no queues at all
		"zerotail", // the last record lost all but its size
		"torn",     // the last record lost its end; nothing in it tells, so a stock broker takes it
		"tornmid",  // a byte of the eighth record from the end: cut there, with a copy
	} {
		t.Run(name, func(t *testing.T) {
			fsys, g := memfs.New(1), loadGolden(t, name)
			unpack(t, fsys, name)
			for range 2 {
				h := openTest(t, fsys, goldenOptions)
				compareGolden(t, h, g)
				if err := h.Close(); err != nil {
					t.Fatal(err)
				}
				checkStockView(t, fsys, "/")
			}
		})
	}
}

// TestGoldenLogDirs: the same for a log in two directories.
func TestGoldenLogDirs(t *testing.T) {
	fsys, g := memfs.New(1), loadGolden(t, "multipath")
	unpack(t, fsys, "multipath")
	o := goldenOptions
	o.CommitLogDirs = []string{"/commitlog-a", "/commitlog-b"}
	for range 2 {
		h := openTest(t, fsys, o)
		compareGolden(t, h, g)
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		checkStockView(t, fsys, "/", o.CommitLogDirs...)
	}
}

// goldenOptions fit the files of the index, and do about damage as stock brokers do.
var goldenOptions = Options{Dir: "/", IndexSlots: 100, IndexEntries: 400, OnDamage: CutOnDamage}

// TestOthersFiles opens directories that hold more than a log and its simple queues, and must leave every file
// in them as it was, but for the checkpoint and what it adds itself.
func TestOthersFiles(t *testing.T) {
	for _, name := range []string{
		"bcq",        // batch queues
		"compaction", // a compacted copy of a topic
		"ext",        // queue entries whose tags lead to consumequeue_ext
		"lmq",        // light queues: entries of messages of another topic
		"crcbatch", "delay", "pop", "retry", "timer", "tx",
	} {
		t.Run(name, func(t *testing.T) {
			fsys, g := memfs.New(1), loadGolden(t, name)
			unpack(t, fsys, name)
			before := allFiles(t, fsys, "/")
			for range 2 {
				h := openTest(t, fsys, goldenOptions)
				compareGolden(t, h, g)
				if err := h.Close(); err != nil {
					t.Fatal(err)
				}
				after := allFiles(t, fsys, "/")
				for file, b := range before {
					if file != "/checkpoint" && !bytes.Equal(after[file], b) {
						t.Errorf("%s has changed", file)
					}
				}
				for file := range after {
					if _, was := before[file]; !was && !strings.HasPrefix(file, "/ringmq.") {
						t.Errorf("%s is new", file)
					}
				}
			}
		})
	}
}

// TestRebuildLightQueues: light queues are made anew with the others, and all entries are those of the stock
// broker. Nothing tells places in consumequeue_ext once the queues are gone; the tags are right without.
func TestRebuildLightQueues(t *testing.T) {
	for _, name := range []string{"lmq", "ext"} {
		fsys, g := memfs.New(1), loadGolden(t, name)
		unpack(t, fsys, name)
		o := goldenOptions
		o.Log = slog.New(slog.DiscardHandler)
		if _, err := Rebuild(fsys, o); err != nil {
			t.Fatal(err)
		}
		h := openTest(t, fsys, o)
		for _, q := range g.Queues {
			for i, e := range q.Entries {
				if e.ValidTagsCode != nil {
					q.Entries[i].TagsCode, q.Entries[i].ValidTagsCode = *e.ValidTagsCode, nil
				}
			}
		}
		compareGolden(t, h, g)
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func allFiles(t *testing.T, fsys vfs.FS, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	if err := eachFile(fsys, dir, func(name string, _ int64) error {
		all[name] = readFile(t, fsys, name)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func compareGolden(t *testing.T, h *harness, g *golden) {
	t.Helper()
	if got := h.Marks().Visible; got != g.CommitLog.MaxOffset {
		t.Errorf("log ends at %d, want %d", got, g.CommitLog.MaxOffset)
	}
	if len(g.Messages) != g.CommitLog.MessageCount {
		t.Fatalf("%d messages in the file, %d announced", len(g.Messages), g.CommitLog.MessageCount)
	}
	for _, m := range g.Messages {
		b := make([]byte, m.Size)
		if err := h.ReadAt(b, m.Offset); err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != m.SHA256 {
			t.Errorf("message at %d: other bytes", m.Offset)
		}
	}
	compareGoldenQueues(t, h, g)
	compareGoldenLookups(t, h, g)
	for _, q := range g.Queries.OffsetByTime {
		if h.batch[q.Topic] {
			continue
		}
		got, err := h.OffsetByTime(h.Queue(q.Topic, q.QueueID), q.Timestamp, q.Boundary == "upper")
		if err != nil || got != q.Offset {
			t.Errorf("offset by time %+v: got %d, %v", q, got, err)
		}
	}
	var got Got
	for _, q := range g.Queries.GetMessage {
		if h.batch[q.Topic] || compacted[q.Topic] && (q.Offset < q.MinOffset || q.Offset > q.MaxOffset) {
			continue
		}
		if err := h.Get(h.Queue(q.Topic, q.QueueID), Get{Offset: q.Offset, MaxCount: q.MaxMsgNums, MaxBytes: 256 << 10}, &got); err != nil {
			t.Fatal(err)
		}
		if got.Status.String() != q.Status || got.Next != q.NextBeginOffset || got.Min != q.MinOffset || got.Max != q.MaxOffset ||
			!slices.Equal(runRecords(t, h, &got), q.PhysicalOffsets) {
			t.Errorf("get %+v: got %v next %d [%d,%d) %v", q, got.Status, got.Next, got.Min, got.Max, got.Runs)
		}
	}
}

func compareGoldenQueues(t *testing.T, h *harness, g *golden) {
	t.Helper()
	count := 0
	h.Queues(func(*Queue) { count++ })
	for _, want := range g.Queues {
		if h.batch[want.Topic] {
			continue
		}
		count--
		q := h.Queue(want.Topic, want.QueueID)
		if q == nil || q.Min() != want.MinOffset || q.Max() != want.MaxOffset {
			t.Fatalf("queue %s/%d: %+v, want [%d,%d)", want.Topic, want.QueueID, q, want.MinOffset, want.MaxOffset)
		}
		for _, w := range want.Entries {
			e, ok, err := q.entries.Entry(w.Q)
			if err != nil || !ok || e != (queue.Entry{Offset: w.Pos, Size: w.Size, Tags: w.TagsCode}) {
				t.Errorf("queue %s/%d@%d: %+v %v %v, want %+v", want.Topic, want.QueueID, w.Q, e, ok, err, w)
			}
			if w.ValidTagsCode != nil && h.tagsOf(q, e) != *w.ValidTagsCode {
				t.Errorf("queue %s/%d@%d: tags %d, want %d", want.Topic, want.QueueID, w.Q, h.tagsOf(q, e), *w.ValidTagsCode)
			}
		}
	}
	if count != 0 {
		t.Errorf("%d queues more than wanted", count)
	}
}

// compacted are topics that a stock broker reads from their compacted copies, by rules of their own where
// an offset is out of bounds.
var compacted = map[string]bool{"CompT": true}

// compareGoldenLookups asks by key. In most directories the index is the stock broker's; in those of a
// killed one, and without one, it is built here.
func compareGoldenLookups(t *testing.T, h *harness, g *golden) {
	t.Helper()
	h.awaitIndex()
	for _, q := range g.Queries.ByKey {
		ask := Query{Topic: q.Topic, Key: q.Key, Tags: q.IndexType == "T", Max: q.MaxNum, BeginMs: q.Begin, EndMs: q.End, Hashed: true}
		got, err := h.Find(ask)
		if err != nil || !slices.Equal(got.Offsets, q.PhysicalOffsets) ||
			got.NewestOffset != q.IndexLastUpdatePhyOffset || got.NewestMs != q.IndexLastUpdateTimestamp {
			t.Errorf("find %+v: got %+v, %v", q, got, err)
		}
		ask.Hashed = false
		exact, err := h.Find(ask)
		if err != nil || len(exact.Offsets) != len(got.Offsets) && !collides[q.Key] {
			t.Errorf("find %+v without collisions: got %+v, %v", q, exact, err)
		}
	}
}

// collides are keys of one topic that have one hash.
var collides = map[string]bool{"Aa": true, "BB": true}

// runRecords returns the offsets of the records in the runs.
func runRecords(t *testing.T, h *harness, got *Got) []int64 {
	t.Helper()
	offsets := []int64{}
	for _, r := range got.Runs {
		for at := r.Offset; at < r.Offset+int64(r.Bytes); {
			var size [4]byte
			if err := h.ReadAt(size[:], at); err != nil {
				t.Fatal(err)
			}
			offsets = append(offsets, at)
			at += int64(be32(size[:]))
		}
	}
	return offsets
}

func loadGolden(t *testing.T, name string) *golden {
	t.Helper()
	f, err := os.Open("testdata/golden/" + name + ".json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	g := new(golden)
	if err := json.NewDecoder(z).Decode(g); err != nil {
		t.Fatal(err)
	}
	return g
}

// unpack puts the archived directory at the root of fsys, durably.
func unpack(t *testing.T, fsys vfs.FS, name string) {
	t.Helper()
	vfstest.Unpack(t, fsys, "testdata/golden/"+name+".tar.gz")
}

func writeFile(t *testing.T, fsys vfs.FS, name string, data []byte) {
	t.Helper()
	vfstest.WriteFile(t, fsys, name, data)
}

func readFile(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	return vfstest.ReadFile(t, fsys, name)
}
