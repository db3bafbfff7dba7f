package derive

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ringmq/store/internal/derive/index"
	"ringmq/store/record"
	"ringmq/store/vfs"
	"ringmq/store/vfs/faultfs"
	"ringmq/store/vfs/memfs"
)

// tape is a log in memory, in segments of tapeBytes.
type tape struct {
	offsets []int64
	visible atomic.Int64

	mu sync.Mutex // guards b
	b  []byte
}

const tapeBytes = 4096

// append adds a record, after a blank one where its segment has no room for it, and shows it.
func (l *tape) append(key string, body int) int64 {
	m := record.Message{Topic: "T", Born: someHost, Store: someHost, Body: make([]byte, body)}
	m.BodyCRC = record.BodyCRC(m.Body)
	if key != "" {
		m.Props = fmt.Appendf(nil, "KEYS\x01%s\x02", key)
	}
	n, err := m.Size(record.CheckOff)
	if err != nil {
		panic(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if room := tapeBytes - len(l.b)%tapeBytes; room < n+record.MinBlankBytes {
		l.b = record.AppendBlank(l.b, room)
	}
	at := int64(len(l.b))
	l.b = m.Append(l.b, record.CheckOff, 0, at, 1000+at)
	l.offsets = append(l.offsets, at)
	l.visible.Store(int64(len(l.b)))
	return at
}

var someHost = netip.MustParseAddrPort("127.0.0.1:10911")

func (l *tape) config(fsys vfs.FS) IndexConfig {
	return IndexConfig{
		FS: fsys, Dir: "/index", Options: index.Options{Slots: 8, Entries: 20}, FlushBytes: 1 << 40,
		FlushAfter: time.Hour, Retry: time.Nanosecond, StopWithin: time.Hour,
		Visible: l.visible.Load, Min: func() int64 { return 0 }, SegmentBytes: tapeBytes,
		ReadAt: l.readAt, Log: slog.New(slog.DiscardHandler),
	}
}

func (l *tape) readAt(p []byte, off int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	copy(p, l.b[off:])
	return nil
}

func (l *tape) open(t *testing.T, cfg IndexConfig, before *IndexMark) *Indexer {
	t.Helper()
	x, err := OpenIndexer(cfg, l.visible.Load(), before, math.MaxInt64, func(at int64) bool { return slices.Contains(l.offsets, at) })
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func (x *Indexer) find(t *testing.T, key string) []int64 {
	t.Helper()
	got, _, err := x.Find(index.Query{Topic: "T", Key: key, Max: 100, EndMs: math.MaxInt64})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestResume: what is read again after a stop begins where the checkpoint's mark says, if the index still
// ends as it did then, and otherwise at the newest record that it has.
func TestResume(t *testing.T) {
	disk, l := memfs.New(1), new(tape)
	x := l.open(t, l.config(disk), nil)
	x.Start()
	k := l.append("k", 10)
	for range 30 { // without keys
		l.append("", 500)
	}
	x.Stop(true)
	mark := x.Mark()
	if end := l.visible.Load(); mark != (IndexMark{Position: end, End: k, StoreMs: 1000 + k}) {
		t.Fatalf("stopped at %+v, the log ends at %d", mark, end)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	other := mark
	other.End++
	behind := mark
	behind.Position++
	for name, tc := range map[string]struct {
		before *IndexMark
		want   int64
	}{
		"trusted":         {&mark, mark.Position},
		"none":            {nil, k},
		"another index":   {&other, k},
		"behind the end":  {&behind, k},
		"before its last": {&IndexMark{Position: 0, End: k}, k},
	} {
		x := l.open(t, l.config(disk), tc.before)
		if got := x.Position(); got != tc.want {
			t.Errorf("%s: begins at %d, want %d", name, got, tc.want)
		}
		if got := x.find(t, "k"); !slices.Equal(got, []int64{k}) {
			t.Errorf("%s: found %v", name, got)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestIndexOfAnotherLog: one that ends where no record stands is built anew.
func TestIndexOfAnotherLog(t *testing.T) {
	disk, l := memfs.New(1), new(tape)
	l.append("a", 10)
	l.append("b", 10)
	x := l.open(t, l.config(disk), nil)
	x.Start()
	x.Stop(true)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	other := new(tape)
	at := []int64{other.append("b", 33), other.append("b", 44), other.append("c", 55)}
	x = other.open(t, other.config(disk), nil)
	defer x.Close()
	x.Start()
	x.Stop(true)
	if a, b := x.find(t, "a"), x.find(t, "b"); len(a) > 0 || !slices.Equal(b, at[:2]) {
		t.Errorf("found %v and %v", a, b)
	}
}

// TestSurvivesFaults: whatever fails, once, the index has everything in the end, and tells no mark that a
// power cut would belie.
func TestSurvivesFaults(t *testing.T) {
	for _, fault := range []error{syscall.EIO, syscall.ENOSPC} {
		for k, more := 0, true; more; k++ {
			disk, l := memfs.New(1), new(tape)
			power := faultfs.Wrap(disk)
			cfg := l.config(power)
			cfg.FlushBytes = 2000
			x := l.open(t, cfg, nil)
			x.Start()
			power.FailAt(k, fault)
			want := map[string]int64{}
			for i := range 60 {
				key := fmt.Sprint("k", i)
				want[key] = l.append(key, 100)
				x.Dispatched()
			}
			for x.Position() < l.visible.Load() {
				x.Dispatched()
				runtime.Gosched()
			}
			more = power.Calls() > k
			x.Stop(true)
			for key, at := range want {
				if got := x.find(t, key); !slices.Equal(got, []int64{at}) {
					t.Fatalf("%v at call %d: %s at %v, want %d", fault, k, key, got, at)
				}
			}
			if err := x.Close(); err != nil && !errors.Is(err, fault) {
				t.Fatal(err)
			}
		}
	}
}

// TestIndexOff: files stay as they are, and later another start goes on with them.
func TestIndexOff(t *testing.T) {
	disk, l := memfs.New(1), new(tape)
	for _, off := range []bool{false, true, false} {
		cfg := l.config(disk)
		cfg.Off = off
		x := l.open(t, cfg, nil)
		x.Start()
		l.append("k", 10)
		x.Dispatched()
		x.Stop(true)
		if off {
			if got, _, err := x.Find(index.Query{Topic: "T", Key: "k", Max: 1}); !errors.Is(err, ErrNoIndex) {
				t.Errorf("found %v, %v", got, err)
			}
		} else if got := x.find(t, "k"); !slices.Equal(got, l.offsets) {
			t.Errorf("found %v, want %v", got, l.offsets)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNoRecord: where no record stands the rest of the file is passed over, and the next goes in.
func TestNoRecord(t *testing.T) {
	l := new(tape)
	bad := l.append("bad", 100)
	for len(l.b) < 2*tapeBytes {
		l.append("good", 700)
	}
	copy(l.b[bad:], "\x00\x00\x00\x10junk")
	x := l.open(t, l.config(memfs.New(1)), nil)
	defer x.Close()
	x.Start()
	x.Stop(true)
	got := x.find(t, "good")
	if len(got) == 0 || got[0] != tapeBytes || x.Position() != l.visible.Load() {
		t.Errorf("found %v, position %d of %d", got, x.Position(), l.visible.Load())
	}
}

// TestFollowsMin: when the log begins later, files that have only what is gone go, and what lies before is not
// read again.
func TestFollowsMin(t *testing.T) {
	disk, l := memfs.New(1), new(tape)
	var min atomic.Int64
	cfg := l.config(disk)
	cfg.Min = min.Load
	x := l.open(t, cfg, nil)
	x.Start()
	for range 60 { // three files
		l.append("k", 100)
	}
	x.Stop(true)
	files := func() int {
		names, err := disk.List("/index")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	before := files()
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	min.Store(0)
	x = l.open(t, cfg, nil)
	x.Start()
	min.Store(2 * tapeBytes)
	l.append("k", 100)
	x.Stop(true)
	if after := files(); before < 3 || after >= before {
		t.Errorf("%d files, %d after the log began later", before, after)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}
