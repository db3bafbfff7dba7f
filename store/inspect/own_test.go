package inspect

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ringmq/store"
	"ringmq/store/internal/mark"
	"ringmq/store/record"
	"ringmq/store/vfs"
	"ringmq/store/vfs/memfs"
	"ringmq/store/vfs/osfs"
)

// childDir makes the test binary a process that fills the store there until it is killed.
const childDir = "INSPECT_TEST_FILL"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		fmt.Fprintln(os.Stderr, fillForever(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

var host = netip.MustParseAddrPort("127.0.0.1:10911")

func ownOptions(dir string) store.Options {
	return store.Options{Dir: dir, SegmentBytes: 64 << 10, QueueFileBytes: 2000, FlushSync: true, StagingBytes: 64 << 10, MaxMessageBytes: 16 << 10, Log: slog.New(slog.DiscardHandler)}
}

// filler appends messages to four queues and waits for each batch.
type filler struct {
	*store.Store
	marks chan store.Marks
	sent  int
}

func openFiller(fsys vfs.FS, dir string) (*filler, error) {
	f := &filler{marks: make(chan store.Marks, 1)}
	o := ownOptions(dir)
	o.OnMarks = func(m store.Marks) {
		select {
		case <-f.marks: // only the newest counts
		default:
		}
		f.marks <- m
	}
	o.OnFail = func(error) { close(f.marks) }
	var err error
	f.Store, err = store.Open(fsys, o)
	return f, err
}

// send stores n messages durably.
func (f *filler) send(n int) error {
	puts := make([]store.Put, n)
	for i := range puts {
		topic, id := "Own"+strconv.Itoa(f.sent%2), int32(f.sent/2%2)
		body := fmt.Appendf(nil, "message %d %s", f.sent, strings.Repeat("x", f.sent%200))
		puts[i] = store.Put{Queue: f.OpenQueue(topic, id), Message: record.Message{
			Topic: topic, QueueID: id, BornMs: 1, Born: host, Store: host, Body: body, BodyCRC: record.BodyCRC(body), Props: []byte("TAGS\x01a\x02"),
		}}
		var err error
		if puts[i].Bytes, err = f.RecordBytes(&puts[i].Message); err != nil {
			return err
		}
		for err = f.Reserve(puts[i].Bytes); errors.Is(err, store.ErrBusy); err = f.Reserve(puts[i].Bytes) {
			if _, ok := <-f.marks; !ok {
				return f.Err()
			}
		}
		if err != nil {
			return err
		}
		f.sent++
	}
	f.Append(puts)
	end := int64(0)
	for _, p := range puts {
		if p.Err != nil {
			return p.Err
		}
		end = max(end, p.End)
	}
	for f.Marks().Visible < end {
		if _, ok := <-f.marks; !ok {
			return f.Err()
		}
	}
	return nil
}

func fillForever(dir string) error {
	f, err := openFiller(osfs.New(osfs.Options{Log: slog.New(slog.DiscardHandler)}), dir)
	for ; err == nil; err = f.send(7) {
		fmt.Println(f.sent)
	}
	return err
}

// TestOwnDirectory: one that ringmq closed is clean, also with several files of everything.
func TestOwnDirectory(t *testing.T) {
	fsys := memfs.New(1)
	f, err := openFiller(fsys, "/s")
	for range 200 {
		err = errors.Join(err, f.send(5))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	r := verify(t, fsys, Options{Dir: "/s"})
	if r.Level != OK || r.Records != 1000 || r.Entries != 1000 || r.Queues != 4 || r.Writer != "ringmq" || !r.Closed {
		t.Errorf("%+v\n%s", r, describe(r))
	}
	if len(f.Stats().Recovered.CutFile) > 0 {
		t.Errorf("something was cut: %+v", f.Stats().Recovered)
	}
}

// TestDurableMarkTells: where checkpoint or mark say that the log was durable up to a place, a bad one
// before it is damage although nothing follows; behind it, it is a torn tail although whole records do.
// Opening judges likewise.
func TestDurableMarkTells(t *testing.T) {
	fsys := memfs.New(1)
	f, err := openFiller(fsys, "/s")
	if err = errors.Join(err, f.send(40), f.Close()); err != nil {
		t.Fatal(err)
	}
	const log = "/s/commitlog/00000000000000000000"
	whole := readFile(t, fsys, log)
	end := int(verify(t, fsys, Options{Dir: "/s"}).End)

	edit(t, fsys, log, zero(end-1, end))
	if v := find(t, verify(t, fsys, Options{Dir: "/s"}), log[3:]); v.Kind != Damage {
		t.Errorf("the last byte is lost: %+v", v)
	}
	edit(t, fsys, log, zero(end/2, len(whole)))
	if v := find(t, verify(t, fsys, Options{Dir: "/s"}), log[3:]); v.Kind != Damage {
		t.Errorf("the second half is lost: %+v", v)
	}

	writeFile(t, fsys, log, whole)
	g, err := openFiller(fsys, "/s")
	if err = errors.Join(err, g.send(40)); err != nil {
		t.Fatal(err)
	}
	crashed := fsys.Crash(newRand(t), 100) // a power cut that takes nothing
	edit(t, crashed, log, flip(end+200))
	setMark(t, crashed, int64(end))
	r := verify(t, crashed, Options{Dir: "/s"})
	if v := find(t, r, log[3:]); v.Kind != TornTail || v.At < int64(end) || r.Beyond < 30 || r.Level != Repairable {
		t.Errorf("a bit is lost behind the mark: %+v, %d beyond", v, r.Beyond)
	}
	torn := crashed.Crash(newRand(t), 100)
	setMark(t, torn, int64(end)+2000)
	if v := find(t, verify(t, torn, Options{Dir: "/s"}), log[3:]); v.Kind != Damage || v.At != find(t, r, log[3:]).At {
		t.Errorf("a bit is lost below the mark: %+v", v)
	}
	h, err := openFiller(torn, "/s")
	if err != nil || !errors.Is(h.Err(), store.ErrDamaged) {
		t.Fatalf("opened: %v, %v", err, h.Err())
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if err := g.Close(); err == nil {
		t.Error("the file system that crashed still works")
	}
}

func setMark(t *testing.T, fsys vfs.FS, durable int64) {
	t.Helper()
	m, err := mark.Open(fsys, "/s")
	if err == nil {
		err = errors.Join(m.Set(durable), m.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestMissingEndIsFound: without its last file the log is well-formed, but not all that was durable.
func TestMissingEndIsFound(t *testing.T) {
	fsys := memfs.New(1)
	f, err := openFiller(fsys, "/s")
	for range 60 {
		err = errors.Join(err, f.send(10))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	names, err := fsys.List("/s/commitlog")
	if err != nil || len(names) < 2 {
		t.Fatal(names, err)
	}
	last := names[len(names)-1]
	if err := fsys.Remove("/s/commitlog/" + last); err != nil {
		t.Fatal(err)
	}
	if v := find(t, verify(t, fsys, Options{Dir: "/s"}), "commitlog/"+last); v.Kind != Damage || v.Level != Damaged {
		t.Errorf("%+v", v)
	}
}

// TestBesideANode: a store that is open is looked at without disturbing it, and what it has in memory
// only is no fault.
func TestBesideANode(t *testing.T) {
	dir := t.TempDir()
	fsys := osfs.New(osfs.Options{Log: slog.New(slog.DiscardHandler)})
	f, err := openFiller(fsys, dir)
	if err = errors.Join(err, f.send(100)); err != nil {
		t.Fatal(err)
	}
	r := verify(t, fsys, Options{Dir: dir})
	if !r.Provisional() || r.Level != OK || r.Records != 100 {
		t.Errorf("held by %q, %v, %d records\n%s", r.HeldBy, r.Level, r.Records, describe(r))
	}
	if _, err := store.Open(fsys, ownOptions(dir)); !errors.Is(err, store.ErrLocked) {
		t.Errorf("looking dropped the lock: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, fsys, Options{Dir: dir}); r.Provisional() || r.Level != OK {
		t.Errorf("after the stop: held by %q, %v\n%s", r.HeldBy, r.Level, describe(r))
	}
}

// TestAfterAKill: a process that was killed at work leaves nothing that counts as damage, every message
// that it told of, and a directory that is clean once it was opened and closed.
func TestAfterAKill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	fsys := osfs.New(osfs.Options{Log: slog.New(slog.DiscardHandler)})
	told := int64(0)
	for round := range 3 {
		told += fillAndKill(t, dir, 300, func(pid int) {
			r := verify(t, fsys, Options{Dir: dir})
			if r.Level != OK || r.HeldBy != fmt.Sprintf("process %d", pid) {
				t.Fatalf("round %d, at work: %v, held by %q\n%s", round, r.Level, r.HeldBy, describe(r))
			}
		})
		r := verify(t, fsys, Options{Dir: dir})
		if r.Level != Repairable || r.HeldBy != "" || r.Closed || r.Writer != "ringmq" || r.Records < told {
			t.Fatalf("round %d: %v, %d records of %d, %+v\n%s", round, r.Level, r.Records, told, r, describe(r))
		}
		told = r.Records
		f, err := openFiller(fsys, dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if r := verify(t, fsys, Options{Dir: dir}); r.Level != OK || r.Records < told || r.Entries != r.Records {
			t.Fatalf("round %d: %v, %d records of %d\n%s", round, r.Level, r.Records, told, describe(r))
		}
	}
}

// fillAndKill runs a child until it has told of at least n stored messages, calls beside, kills it, and
// returns how many it told of.
func fillAndKill(t *testing.T, dir string, n int64, beside func(pid int)) (told int64) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childDir+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Process.Kill() // should the test end early
	lines := bufio.NewScanner(out)
	for told < n && lines.Scan() {
		if told, err = strconv.ParseInt(lines.Text(), 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	beside(child.Process.Pid)
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // what was told before the kill counts
		if more, err := strconv.ParseInt(lines.Text(), 10, 64); err == nil {
			told = max(told, more)
		}
	}
	_ = child.Wait() // killed, as it says
	if told < n {
		t.Fatalf("the child stored %d messages of %d", told, n)
	}
	return told
}
