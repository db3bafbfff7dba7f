package store

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"

	"ringmq/store/vfs"
	"ringmq/store/vfs/faultfs"
	"ringmq/store/vfs/memfs"
)

// TestRebuildFindsEveryMessage: a queue whose messages are all older than the checkpoint is not missed
// by an open when its directory is gone. Rebuild brings it back, and whatever else the files say wrongly.
func TestRebuildFindsEveryMessage(t *testing.T) {
	fsys := memfs.New(1)
	fillForRebuild(t, fsys)
	if err := removeAll(fsys, "/s/consumequeue/Old"); err != nil {
		t.Fatal(err)
	}
	rebuildAndCheck(t, fsys)
	rebuildAndCheck(t, fsys) // also of what is right
}

// TestRebuildAtEveryCall cuts the power at each disk call of a rebuild: the next open finds all messages.
func TestRebuildAtEveryCall(t *testing.T) {
	for k := 0; ; k++ {
		for seed := range uint64(4) {
			disk := memfs.New(seed)
			fillForRebuild(t, disk)
			power := faultfs.Wrap(disk)
			power.CutAt(k)
			_, err := Rebuild(power, rebuildOptions())
			if !power.IsCut() {
				t.Logf("cut at %d places", k)
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			h := openTest(t, disk.Crash(rand.New(rand.NewPCG(seed, uint64(k))), int(seed)*33), rebuildOptions())
			if err := missing(h); err != nil {
				t.Fatalf("cut at call %d, seed %d: %v", k, seed, err)
			}
			if err := h.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestRebuildKeepsSizes: new queue files are as long as those before, although nobody says how long; an
// odd one among them is not asked. Otherwise the node's own setting would be refused afterwards.
func TestRebuildKeepsSizes(t *testing.T) {
	for _, spoil := range []func(fsys vfs.FS) error{
		func(vfs.FS) error { return nil },
		func(fsys vfs.FS) error { return fsys.Remove("/s/ringmq.checkpoint") },
		func(fsys vfs.FS) error {
			f, err := fsys.Open("/s/consumequeue/New/0/00000000000000000400")
			if err != nil {
				return err
			}
			return errors.Join(f.Truncate(777), f.Close(), fsys.Remove("/s/ringmq.checkpoint"), fsys.Remove("/s/ringmq.checkpoint.bak"))
		},
	} {
		fsys := memfs.New(1)
		fillForRebuild(t, fsys)
		if err := spoil(fsys); err != nil {
			t.Fatal(err)
		}
		o := rebuildOptions()
		o.SegmentBytes, o.QueueFileBytes = 0, 0
		if _, err := Rebuild(fsys, o); err != nil {
			t.Fatal(err)
		}
		rebuildAndCheck(t, fsys)
	}
}

// TestRebuildRefuses: what is all that there is of the messages is not removed.
func TestRebuildRefuses(t *testing.T) {
	fsys := memfs.New(1)
	fillForRebuild(t, fsys)
	if err := removeAll(fsys, "/s/commitlog"); err != nil {
		t.Fatal(err)
	}
	if _, err := Rebuild(fsys, rebuildOptions()); err == nil {
		t.Error("rebuilt from a log without files")
	}
	if _, err := fsys.Stat("/s/consumequeue/Old/0"); err != nil {
		t.Errorf("the queues are gone: %v", err)
	}

	fsys = memfs.New(1)
	h := openTest(t, fsys, rebuildOptions())
	if _, err := Rebuild(fsys, rebuildOptions()); !errors.Is(err, ErrLocked) {
		t.Errorf("of a store that is open: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
}

func rebuildOptions() Options {
	return Options{Dir: "/s", SegmentBytes: 8192, QueueFileBytes: 400, FlushSync: true, MaxMessageBytes: 1024, StagingBytes: 64 << 10, Log: slog.New(slog.DiscardHandler)}
}

// Messages of fillForRebuild: oldCount in one queue, then newCount in another.
const oldCount, newCount = 30, 60

// fillForRebuild makes /s with a queue that has no message in the newest file of the log.
func fillForRebuild(t testing.TB, fsys vfs.FS) {
	t.Helper()
	h := openTest(t, fsys, rebuildOptions())
	for i := range oldCount + newCount {
		topic := "Old"
		if i >= oldCount {
			topic = "New"
		}
		puts := []Put{h.put(topic, 0, fmt.Appendf(nil, "message %d %0100d", i, i))}
		if err := h.Reserve(puts[0].Bytes); errors.Is(err, ErrBusy) {
			h.await(func() bool { err = h.Reserve(puts[0].Bytes); return !errors.Is(err, ErrBusy) })
		}
		h.Append(puts)
		if puts[0].Err != nil {
			t.Fatal(puts[0].Err)
		}
		h.await(func() bool { return h.Marks().Visible >= puts[0].End })
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
}

func rebuildAndCheck(t *testing.T, fsys vfs.FS) {
	t.Helper()
	done, err := Rebuild(fsys, rebuildOptions())
	if err != nil || done.Records != oldCount+newCount || done.CutBytes != 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	h := openTest(t, fsys, rebuildOptions())
	if err := missing(h); err != nil {
		t.Error(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	checkStockView(t, fsys, "/s")
}

// missing reports a queue that does not have all its messages.
func missing(h *harness) error {
	for topic, want := range map[string]int64{"Old": oldCount, "New": newCount} {
		if q := h.Queue(topic, 0); q == nil || q.Min() != 0 || q.Max() != want {
			return fmt.Errorf("%s has not %d messages: %+v", topic, want, q)
		}
	}
	return nil
}
