package cold

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"ringmq/store/vfs"
	"ringmq/store/vfs/osfs"
	"ringmq/store/vfs/vfstest"
	"ringmq/uring"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// segmentBytes is no whole number of pieces.
const segmentBytes = 9*pieceBytes + 3*pageBytes

// disk is a log in memory whose reads wait, fail and are noted.
type disk struct {
	t       testing.TB
	r       *Reader
	data    []byte
	durable atomic.Int64
	held    atomic.Int64 // segments in use

	mu    sync.Mutex
	reads []Range // in segments
	gate  chan struct{}
	fail  map[int64]error // by physical offset of the read
	gone  int64           // offsets below it were removed
}

// segment is one file of the disk.
type segment struct {
	d    *disk
	base int64
}

func (s segment) Direct() (vfs.Direct, error) { return s, nil }
func (s segment) Release()                    { s.d.held.Add(-1) }
func (s segment) Close() error                { return nil }
func (s segment) Fd() int                     { return -1 }
func (s segment) Past() bool                  { return true }
func (s segment) Forget(int64, int64)         {}
func (s segment) Again(error) bool            { return false }

func (s segment) ReadAt(p []byte, off int64) (int, error) {
	d := s.d
	d.mu.Lock()
	gate, err := d.gate, d.fail[s.base+off]
	d.reads = append(d.reads, Range{s.base + off, len(p)})
	d.mu.Unlock()
	if gate != nil {
		<-gate
	}
	if err != nil {
		return 0, err
	}
	return copy(p, d.data[s.base+off:min(s.base+segmentBytes, int64(len(d.data)))]), nil
}

func newDisk(t testing.TB, segments int) *disk {
	d := &disk{t: t, data: make([]byte, segments*segmentBytes), fail: map[int64]error{}}
	dice := rand.NewChaCha8([32]byte{1})
	_, _ = dice.Read(d.data)
	d.durable.Store(int64(len(d.data)))
	d.r = New(Options{
		Bytes: MinBytes, Durable: d.durable.Load, Log: slog.New(slog.DiscardHandler), Span: d.span,
		Acquire: func(base int64) (Segment, bool) {
			if _, _, ok := d.span(base); !ok {
				return nil, false
			}
			d.held.Add(1)
			return segment{d, base}, true
		},
	})
	t.Cleanup(func() {
		d.r.Close()
		if n := d.held.Load(); n != 0 {
			t.Errorf("%d segments are still held", n)
		}
	})
	return d
}

func (d *disk) span(off int64) (base, end int64, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if off < d.gone || off >= int64(len(d.data)) {
		return 0, 0, false
	}
	base = off / segmentBytes * segmentBytes
	return base, base + segmentBytes, true
}

// take checks the bytes of a Take, and returns what was lent.
func (d *disk) take(ranges ...Range) []uring.MemRange {
	d.t.Helper()
	lent, copied, err := d.r.Take(ranges)
	if err != nil {
		d.t.Fatal(err)
	}
	var want []byte
	for _, g := range ranges {
		want = append(want, d.data[g.Offset:g.Offset+int64(g.Bytes)]...)
	}
	got := copied
	for _, m := range lent {
		got = append(got, m.Bytes...)
	}
	if !bytes.Equal(got, want) {
		d.t.Fatalf("%d bytes of %v are not those of the disk", len(got), ranges)
	}
	return lent
}

func release(lent []uring.MemRange) {
	for _, m := range lent {
		m.Release()
	}
}

// settled waits until nothing is being read, and returns what was read since the last call.
func (d *disk) settled() []Range {
	for {
		d.r.mu.Lock()
		var p *piece
		for _, q := range d.r.pieces {
			if q.segment != nil {
				p = q
			}
		}
		d.r.mu.Unlock()
		if p == nil {
			break
		}
		<-p.done
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	reads := d.reads
	d.reads = nil
	return reads
}

// TestReadsOn: who reads on from pull to pull waits for the first pieces only; the next ones are read before they are wanted,
// over the end of a segment too, and none is read twice.
func TestReadsOn(t *testing.T) {
	d := newDisk(t, 3)
	const pull = 40 << 10
	missed := 0
	for off := int64(0); off < int64(len(d.data)); {
		n := min(pull, segmentBytes-off%segmentBytes)
		lent, found := d.r.Lookup(nil, off, int(n))
		if !found {
			missed++
			lent = d.take(Range{off, int(n)})
		}
		for _, m := range lent {
			if !bytes.Equal(m.Bytes, d.data[off:off+int64(len(m.Bytes))]) {
				t.Fatalf("other bytes at %d", off)
			}
			off += int64(len(m.Bytes))
		}
		release(lent)
		d.r.mu.Lock()
		reading := d.r.reading
		d.r.mu.Unlock()
		if reading > mostAhead+1 {
			t.Fatalf("%d pieces are being read", reading)
		}
		for p := range d.flying() {
			<-p.done
		}
	}
	if missed > 4 {
		t.Errorf("waited %d times", missed)
	}
	s, pieces := d.r.Stats(), int64(3*10)
	if s.Reads > pieces+2 { // the first piece in parts
		t.Errorf("%d reads of %d pieces", s.Reads, pieces)
	}
	if s.Ahead < pieces-3 {
		t.Errorf("%d of %d pieces were read ahead", s.Ahead, pieces)
	}
}

func (d *disk) flying() map[*piece]bool {
	d.r.mu.Lock()
	defer d.r.mu.Unlock()
	all := map[*piece]bool{}
	for _, p := range d.r.pieces {
		if p.segment != nil {
			all[p] = true
		}
	}
	return all
}

// TestFewBytes: of messages that lie far apart only their pages are read, and nothing ahead.
func TestFewBytes(t *testing.T) {
	d := newDisk(t, 2)
	release(d.take(Range{100, 1000}, Range{5*pieceBytes + 4000, 200}, Range{segmentBytes + 7*pageBytes, pageBytes}))
	got := map[Range]bool{}
	for _, g := range d.settled() {
		got[g] = true
	}
	for _, want := range []Range{{0, pageBytes}, {5 * pieceBytes, 2 * pageBytes}, {segmentBytes + 7*pageBytes, pageBytes}} {
		if !got[want] || len(got) != 3 {
			t.Errorf("%v: want %v among three", got, want)
		}
	}
	release(d.take(Range{100, 1000}))
	if again := d.settled(); len(again) != 0 {
		t.Errorf("%v was read again", again)
	}
	release(d.take(Range{3 * pageBytes, 1000})) // another place of that piece: now all of it
	if again := d.settled(); len(again) != 1 || again[0] != (Range{0, pieceBytes}) {
		t.Errorf("%v, want the first piece", again)
	}
}

// TestNothingFresh: what is not durable is not read past the cache, where its pages may be dirty; nor is it read ahead.
func TestNothingFresh(t *testing.T) {
	d := newDisk(t, 1)
	d.durable.Store(2*pieceBytes + 5*pageBytes + 17)
	if _, _, err := d.r.Take([]Range{{2*pieceBytes + 5*pageBytes, 10}}); !errors.Is(err, ErrFresh) {
		t.Errorf("a page that is durable in part: %v", err)
	}
	for off := int64(0); off < 2*pieceBytes+5*pageBytes; off += 5 * pageBytes {
		release(d.take(Range{off, min(5*pageBytes, int(2*pieceBytes+5*pageBytes-off))}))
	}
	for _, g := range d.settled() {
		if g.Offset+int64(g.Bytes) > 2*pieceBytes+5*pageBytes {
			t.Errorf("%v was read", g)
		}
	}
	d.durable.Store(segmentBytes)
	release(d.take(Range{2*pieceBytes + 5*pageBytes, pageBytes}))
}

// TestError: a read that fails fails those who wait for it, with its place, and nobody else; who comes later tries again.
func TestError(t *testing.T) {
	d := newDisk(t, 1)
	d.fail[pieceBytes] = unix.EIO
	if _, _, err := d.r.Take([]Range{{100, 10}, {pieceBytes, 100 << 10}}); !errors.Is(err, unix.EIO) || !bytes.Contains([]byte(err.Error()), []byte("262144")) {
		t.Fatalf("got %v, want EIO at 262144", err)
	}
	release(d.take(Range{100, 10}))
	d.settled()
	d.mu.Lock()
	clear(d.fail)
	d.mu.Unlock()
	release(d.take(Range{pieceBytes, 100 << 10}))
	if s := d.r.Stats(); s.Failed != 1 {
		t.Errorf("%d reads failed", s.Failed)
	}
}

// TestShortFile: a file that ends early is an error, not zeros.
func TestShortFile(t *testing.T) {
	d := newDisk(t, 1)
	d.data = d.data[:pieceBytes+pageBytes]
	d.durable.Store(segmentBytes)
	if _, _, err := d.r.Take([]Range{{pieceBytes, 2 * pageBytes}}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
}

// TestLentOut: consumers that do not read their answers keep half of the memory at most. Others get copies then, so nobody waits
// for somebody's socket.
func TestLentOut(t *testing.T) {
	d := newDisk(t, 20)
	var kept []uring.MemRange
	places := d.r.places()
	for i := range 3 * places {
		base := int64(i) % 20 * segmentBytes
		kept = append(kept, d.take(Range{base + int64(i/20)*pieceBytes%(9*pieceBytes), 1000})...)
		d.settled()
	}
	d.r.mu.Lock()
	lent := d.r.lent
	d.r.mu.Unlock()
	if lent != places/2 {
		t.Errorf("%d of %d pieces are lent out, want half", lent, places)
	}
	if d.r.Stats().Copied == 0 {
		t.Error("nothing was copied")
	}
	big := Range{segmentBytes, segmentBytes} // more than one Take may hold
	release(d.take(big))
	release(kept)
	lentNow := d.take(Range{0, 1000})
	if len(lentNow) != 1 {
		t.Errorf("%d pieces are lent out, want 1", len(lentNow))
	}
	release(lentNow)
}

// TestRoomIsWaitedFor: takers that find every place in use wait, and go on when others are done.
func TestRoomIsWaitedFor(t *testing.T) {
	d := newDisk(t, 20)
	var kept []uring.MemRange
	for i := range d.r.places() / 2 { // as much as may be lent out
		kept = append(kept, d.take(Range{int64(i%20)*segmentBytes + int64(i/20)*4*pieceBytes, 1000})...)
	}
	d.settled()
	gate := make(chan struct{})
	d.mu.Lock()
	d.gate = gate
	d.mu.Unlock()
	var all sync.WaitGroup
	for taker := range takers {
		all.Go(func() {
			for round := range 3 {
				var ranges []Range
				for i := range heldPieces { // each taker, each round: others
					ranges = append(ranges, Range{int64(taker*5+i%5)*segmentBytes + int64(2+round+i/5*4)%9*pieceBytes, 100})
				}
				lent, _, err := d.r.Take(ranges)
				if err != nil {
					t.Error(err)
				}
				release(lent)
			}
		})
	}
	close(gate)
	all.Wait()
	release(kept)
}

// TestClose: who waits is told, what is lent out stays, and the memory goes when the last of it is back.
func TestClose(t *testing.T) {
	d := newDisk(t, 2)
	kept := d.take(Range{100, 1000})
	want := bytes.Clone(kept[0].Bytes)
	d.settled()
	gate := make(chan struct{})
	d.mu.Lock()
	d.gate = gate
	d.mu.Unlock()
	waiting := make(chan error)
	go func() {
		lent, _, err := d.r.Take([]Range{{segmentBytes, 1000}})
		release(lent)
		waiting <- err
	}()
	for len(d.flying()) == 0 {
	}
	closed := make(chan struct{})
	go func() {
		d.r.Close()
		close(closed)
	}()
	close(gate)
	if err := <-waiting; err != nil {
		t.Errorf("a read that was under way: %v", err)
	}
	<-closed
	if _, _, err := d.r.Take([]Range{{0, 1}}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if !bytes.Equal(kept[0].Bytes, want) || d.r.arena == nil {
		t.Error("the memory is gone while somebody has it")
	}
	release(kept)
	if d.r.arena != nil {
		t.Error("the memory is still there")
	}
}

// TestRemoved: bytes of a segment that is gone are an error of its own, so that the caller can look where the log begins.
func TestRemoved(t *testing.T) {
	d := newDisk(t, 2)
	d.mu.Lock()
	d.gone = segmentBytes
	d.mu.Unlock()
	if _, _, err := d.r.Take([]Range{{100, 10}}); !errors.Is(err, ErrGone) {
		t.Errorf("got %v", err)
	}
	release(d.take(Range{segmentBytes, 10}))
}

// TestIdle: pieces that nobody wants any more give their memory back; those that are lent out stay.
func TestIdle(t *testing.T) {
	d := newDisk(t, 2)
	release(d.take(Range{0, 100 << 10}))
	kept := d.take(Range{segmentBytes, 10})
	d.r.trim()
	if n := d.r.Stats().Held; n < 2*pieceBytes {
		t.Errorf("%d bytes are held: they were wanted a moment ago", n)
	}
	d.settled()
	d.r.trim()
	if n := d.r.Stats().Held; n != pieceBytes {
		t.Errorf("%d bytes are held, want one piece", n)
	}
	release(kept)
	d.r.trim()
	if n := d.r.Stats().Held; n != 0 {
		t.Errorf("%d bytes are held", n)
	}
	release(d.take(Range{0, 10}))
}

// TestManyAtOnce: pulls from all over, with and without wait, get the bytes of the disk.
func TestManyAtOnce(t *testing.T) {
	d := newDisk(t, 12)
	var all sync.WaitGroup
	for taker := range uint64(takers) {
		all.Go(func() {
			dice := rand.New(rand.NewPCG(taker, 3))
			for range 60 {
				var ranges []Range
				off := dice.Int64N(12 * segmentBytes)
				for range 1 + dice.IntN(9) {
					n := 1 + dice.IntN(100<<10)
					if off%segmentBytes+int64(n) > segmentBytes || off+int64(n) > int64(len(d.data)) {
						break
					}
					ranges = append(ranges, Range{off, n})
					off += int64(n) + dice.Int64N(100<<10)
				}
				lent := d.take(ranges...)
				if len(ranges) > 0 {
					if found, ok := d.r.Lookup(nil, ranges[0].Offset, ranges[0].Bytes); ok {
						release(found)
					}
					b := make([]byte, ranges[0].Bytes)
					if d.r.Copy(b, ranges[0].Offset) && !bytes.Equal(b, d.data[ranges[0].Offset:][:len(b)]) {
						t.Error("Copy: other bytes")
					}
				}
				release(lent)
			}
		})
	}
	all.Wait()
}

// real is a file on the machine's disk, with its pages out of the cache.
type real struct {
	vfs.File
	mu     sync.Mutex
	direct vfs.Direct
}

func (f *real) Direct() (vfs.Direct, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.direct != nil {
		return f.direct, nil
	}
	var err error
	f.direct, err = vfs.OpenDirect(f.File)
	return f.direct, err
}
func (f *real) Release() {}

// ringMaker is what osfs has for this package.
type ringMaker interface {
	NewRing(entries uint32) (*uring.Ring, error)
}

// readReal reads a real file with an engine, past the page cache or, with buffered, through it, and reports the engine and
// whether the page cache is as it was before.
func readReal(t *testing.T, dir string, engine osfs.IOEngine, buffered bool, logs io.Writer) (ringed, left bool) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(logs, nil))
	fsys := osfs.New(osfs.Options{IOEngine: engine, Log: log})
	file, err := fsys.Create(filepath.Join(dir, "f-"+string(engine)))
	if err != nil {
		t.Fatal(err)
	}
	f := &real{File: file}
	data := make([]byte, 9*pieceBytes)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(data)
	_, err = f.WriteAt(data, 0)
	if err := errors.Join(err, f.Sync(), f.File.(interface{ DropCache() error }).DropCache()); err != nil {
		t.Fatal(err)
	}
	if buffered {
		if d, err := f.Direct(); err != nil || !d.Again(unix.EINVAL) || d.Past() {
			t.Fatalf("cannot do without O_DIRECT: %v", err)
		}
	}
	r := New(Options{
		Bytes: MinBytes, Log: log, Durable: func() int64 { return int64(len(data)) }, Ring: fsys.(ringMaker).NewRing,
		Span: func(off int64) (int64, int64, bool) {
			return 0, int64(len(data)), off >= 0 && off < int64(len(data))
		},
		Acquire: func(int64) (Segment, bool) { return f, true },
	})
	var got []byte
	for off := 0; off < len(data); off += 96 << 10 {
		b := make([]byte, min(96<<10, len(data)-off))
		if err := r.ReadAt(b, int64(off)); err != nil {
			t.Fatal(err)
		}
		got = append(got, b...)
	}
	if !bytes.Equal(got, data) {
		t.Error("other bytes than in the file")
	}
	_, ringed = r.engine.(*ring)
	if s := r.Stats(); (s.Buffered == s.Reads) != buffered {
		t.Errorf("%d of %d reads went through the page cache", s.Buffered, s.Reads)
	}
	cached, known := vfs.Cached(f.File, 0, int64(len(data)))
	r.Close()
	if err := errors.Join(f.direct.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return ringed, known && !cached
}

// TestEngines: the ring and the threads read the same and leave the page cache alone, with O_DIRECT and without.
func TestEngines(t *testing.T) {
	for _, engine := range []osfs.IOEngine{osfs.Auto, osfs.POSIX} {
		for _, buffered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/buffered=%v", engine, buffered), func(t *testing.T) {
				var logs bytes.Buffer
				before := descriptors(t)
				ringed, left := readReal(t, t.TempDir(), engine, buffered, &logs)
				if after := descriptors(t); after > before {
					t.Errorf("%d descriptors before, %d after", before, after)
				}
				if engine == osfs.POSIX && ringed {
					t.Error("a ring, with ioEngine=posix")
				}
				if engine == osfs.Auto && !ringed {
					t.Skip(logs.String())
				}
				if !left {
					t.Skip("this file system has no page cache to leave alone, or the kernel does not tell")
				}
			})
		}
	}
}

// deniedEnv makes a test binary a process that may not use some system calls; it holds their names.
const deniedEnv = "COLD_TEST_DENIED"

// TestDenied: where a policy or an old kernel refuses system calls, old messages are read without them, and the log says why.
func TestDenied(t *testing.T) {
	if names := os.Getenv(deniedEnv); names != "" {
		liveDenied(t, names)
		return
	}
	for _, c := range []struct {
		names string
		want  []string
	}{
		{"cachestat", []string{"engine ring", `way=preadv2(RWF_NOWAIT)`, "reason=\"uring: cachestat: function not implemented\""}},
		{"cachestat,preadv2", []string{"engine ring", "way=none", "cachestat: function not implemented, preadv2(RWF_NOWAIT): function not implemented"}},
		{"io_uring", []string{"engine threads", "no io_uring for old messages", "seccomp"}},
		{"io_uring,cachestat,preadv2", []string{"engine threads", "way=none", "seccomp"}},
	} {
		t.Run(c.names, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestDenied$", "-test.v")
			cmd.Env = append(os.Environ(), deniedEnv+"="+c.names)
			out, err := cmd.CombinedOutput()
			if bytes.Contains(out, []byte("no ring on this machine")) {
				t.Skip("no ring on this machine")
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, want := range c.want {
				if n := bytes.Count(out, []byte(want)); n == 0 {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
			if n := bytes.Count(out, []byte("way=")); n > 1 {
				t.Errorf("the way was told of %d times", n)
			}
		})
	}
}

// liveDenied is the child's part of TestDenied.
func liveDenied(t *testing.T, names string) {
	var err error
	if r, without := uring.NewRing(4); without != nil {
		fmt.Println("no ring on this machine")
	} else {
		_ = r.Close()
	}
	for name := range strings.SplitSeq(names, ",") {
		switch name {
		case "cachestat":
			err = errors.Join(err, vfstest.Deny(unix.ENOSYS, unix.SYS_CACHESTAT, unix.SYS_CACHESTAT))
		case "preadv2":
			err = errors.Join(err, vfstest.Deny(unix.ENOSYS, unix.SYS_PREADV2, unix.SYS_PREADV2))
		case "io_uring":
			err = errors.Join(err, vfstest.Deny(unix.EPERM, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_REGISTER))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	var logs bytes.Buffer
	ringed, _ := readReal(t, t.TempDir(), osfs.Auto, false, &logs)
	fmt.Println("engine", map[bool]string{true: "ring", false: "threads"}[ringed])
	fmt.Println(&logs)
}

func descriptors(t *testing.T) int {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(all)
}

// TestManyReadOn: more consumers read on side by side than there is room to read ahead for. None takes from another what was read
// for him: no piece is read twice.
func TestManyReadOn(t *testing.T) {
	const readers, each = 12, 9
	d := newDisk(t, 2*readers) // nobody reads on into what another reads
	for i := range int64(each) {
		for reader := range int64(readers) {
			for off := i * pieceBytes; off < (i+1)*pieceBytes; off += pieceBytes / 2 {
				lent, found := d.r.Lookup(nil, 2*reader*segmentBytes+off, pieceBytes/2)
				if !found {
					lent = d.take(Range{2*reader*segmentBytes + off, pieceBytes / 2})
				}
				release(lent)
			}
			for p := range d.flying() {
				<-p.done
			}
		}
	}
	seen := map[Range]bool{}
	for _, g := range d.settled() {
		if seen[g] {
			t.Errorf("%v was read twice", g)
		}
		seen[g] = true
	}
}

// TestWantedFirst: while many pieces wait to be read ahead, one that somebody waits for is the next.
func TestWantedFirst(t *testing.T) {
	ahead := func(at int64) *piece { return &piece{at: at, ahead: true} }
	waiting := []*piece{ahead(1), ahead(2), {at: 3}, ahead(4), {at: 5}}
	var got []int64
	for len(waiting) > 0 {
		var p *piece
		p, waiting = pick(waiting)
		got = append(got, p.at)
	}
	if !slices.Equal(got, []int64{3, 5, 1, 2, 4}) {
		t.Errorf("in the order %v", got)
	}
}
