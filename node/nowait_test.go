package node_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
	"ringmq/store/vfs"
	"ringmq/store/vfs/memfs"
)

// noWait is a message that is answered when the kernel has it.
func noWait(body string) *wire.Command {
	h := nodetest.SendHeader("T", 0)
	h.Properties = []byte("WAIT\x01false\x02")
	return nodetest.NewRequest(wire.SendMessageV2, h, []byte(body))
}

// hold makes flushes wait, at most until the test ends: the node could not stop.
func hold(t *testing.T, disk *memfs.FS) {
	disk.HoldFlushes()
	t.Cleanup(disk.ReleaseAll)
}

func sendNoWait(t *testing.T, c *nodetest.Client, body string) {
	t.Helper()
	if ans, err := c.Try(noWait(body)); err != nil || ans.Code != wire.Success {
		t.Fatalf("%s: answered %+v, %v", body, ans, err)
	}
}

// bodies starts a node on a disk and reads the queue to which the messages went.
func bodies(t *testing.T, fsys vfs.FS) (list []string) {
	t.Helper()
	c := nodetest.Start(t, nodetest.Setup{FS: fsys}).Client()
	records, _ := c.Pull("G", "T", 0, 0)
	for i, r := range records {
		if r.QueueOffset != int64(i) {
			t.Errorf("message %d stands at %d", i, r.QueueOffset)
		}
		list = append(list, string(r.Body))
	}
	return list
}

// TestNoWaitAnswersBeforeTheFlush: WAIT=false is answered when the message is written, and shown to
// consumers only when it is on the disk.
func TestNoWaitAnswersBeforeTheFlush(t *testing.T) {
	disk := memfs.New(1)
	n := nodetest.Start(t, nodetest.Setup{FS: disk})
	c := n.Client()
	c.Send("T", 0, "x")
	hold(t, disk)
	const unflushed = 4 // the first one or two begin a flush, which then holds up none of the others
	for range unflushed {
		sendNoWait(t, c, "y")
	}
	if records, _ := c.Pull("G", "T", 0, 0); len(records) != 1 {
		t.Errorf("%d messages are visible before the flush, want 1", len(records))
	}
	disk.ReleaseAll()
	nodetest.Until(t, "the messages are visible", func() bool {
		records, _ := c.Pull("G", "T", 0, 0)
		return len(records) == 1+unflushed
	})
}

// TestNoWaitSurvivesAKill: what was answered is with the kernel, so a killed process loses none of it, though no flush
// had ended.
func TestNoWaitSurvivesAKill(t *testing.T) {
	disk := memfs.New(1)
	n := nodetest.Start(t, nodetest.Setup{FS: disk})
	c := n.Client()
	c.Send("T", 0, "m0")
	hold(t, disk)
	want := []string{"m0"}
	for i := range 20 {
		want = append(want, fmt.Sprint("m", i+1))
		sendNoWait(t, c, want[i+1])
	}
	killed := disk.AfterCrash(rand.New(rand.NewPCG(1, 1)), 100) // with all that the page cache holds
	disk.ReleaseAll()
	if got := bodies(t, killed); !slices.Equal(got, want) {
		t.Errorf("after the kill there are %q, want %q", got, want)
	}
}

// TestNoWaitWhenTheFlushFails: messages that were answered before the flush failed are never shown, since the disk does
// not have them, and none is acknowledged any more.
func TestNoWaitWhenTheFlushFails(t *testing.T) {
	disk := memfs.New(1)
	n := nodetest.Start(t, nodetest.Setup{FS: disk})
	c := n.Client()
	c.Send("T", 0, "safe")
	hold(t, disk)
	for range 3 {
		sendNoWait(t, c, "answered")
	}
	disk.WaitHeld(1)
	disk.Release(0, errors.New("the disk is gone"))
	nodetest.Until(t, "the node has failed", func() bool { return n.Err() != nil })
	disk.ReleaseAll()
	if ans, err := c.Try(noWait("late")); err != nil || ans.Code != wire.ServiceNotAvailable {
		t.Errorf("the next one was answered %+v, %v", ans, err)
	}
	if records, _ := c.Pull("G", "T", 0, 0); len(records) != 1 || string(records[0].Body) != "safe" {
		t.Errorf("%d messages are shown, want the one that is safe", len(records))
	}
	n.Kill()
	killed := disk.Crash(rand.New(rand.NewPCG(1, 1)), 0)
	if got := bodies(t, killed); !slices.Equal(got, []string{"safe"}) {
		t.Errorf("the disk has %q", got)
	}
}

// TestStopKeepsWhatNobodyWaitsFor: a clean stop makes durable what was answered early and what is never answered.
func TestStopKeepsWhatNobodyWaitsFor(t *testing.T) {
	for _, kind := range []string{"WAIT=false", "one-way"} {
		t.Run(kind, func(t *testing.T) {
			disk := memfs.New(1)
			n := nodetest.Start(t, nodetest.Setup{FS: disk})
			c := n.Client()
			c.Send("T", 0, "m0")
			hold(t, disk)
			want := []string{"m0"}
			for i := range 10 {
				want = append(want, fmt.Sprint("m", i+1))
				if kind == "WAIT=false" {
					sendNoWait(t, c, want[i+1])
				} else if err := c.Oneway(nodetest.NewRequest(wire.SendMessageV2, nodetest.SendHeader("T", 0), []byte(want[i+1]))); err != nil {
					t.Fatal(err)
				}
			}
			nodetest.Until(t, "all were taken", func() bool { return n.Stats().Sends == int64(len(want)) })
			stopHeld(t, n, disk)
			if _, err := disk.Stat("/data/abort"); err == nil {
				t.Error("abort is left after a clean stop")
			}
			if got := bodies(t, disk.Crash(rand.New(rand.NewPCG(1, 1)), 0)); !slices.Equal(got, want) {
				t.Errorf("after the stop the disk has %q, want %q", got, want)
			}
		})
	}
}
