package store

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"ringmq/store/vfs/faultfs"
	"ringmq/store/vfs/memfs"
)

// TestTornEndOnFullDisk: the node was killed while the disk filled up, and the end of its log is torn. There is no room
// for the copy that is made before anything is cut. The store does not cut without it, nor stay away: what is whole is
// read, as often as it is opened, and with room it goes on as ever.
func TestTornEndOnFullDisk(t *testing.T) {
	disk, o, sent := killed(t, 6)
	flip(t, disk, "/s", o.SegmentBytes, sent[9].Offset+200)
	file := fmt.Sprintf("/s/commitlog/%020d", sent[9].Offset/o.SegmentBytes*o.SegmentBytes)
	before := readFile(t, disk, file)
	disk.SetSpace(1)
	for range 2 {
		h := openTest(t, disk, o)
		if n := h.wholeBodies(sent); n != 9 {
			t.Fatalf("%d messages, want those before the torn one", n)
		}
		err := h.Reserve(100)
		if !errors.Is(err, ErrUncut) || !errors.Is(h.Err(), ErrUncut) || !strings.Contains(err.Error(), "make room") {
			t.Errorf("reserve: %v, store: %v", err, h.Err())
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		if got := readFile(t, disk, file); !bytes.Equal(got, before) {
			t.Fatal("the log was changed")
		}
		if names, _ := disk.List("/s/cut"); len(names) > 0 {
			t.Errorf("left in cut/: %v", names)
		}
	}
	if _, err := Rebuild(disk, o); !errors.Is(err, ErrUncut) {
		t.Errorf("rebuild: %v", err)
	}
	disk.SetSpace(0)
	h := openTest(t, disk, o)
	defer h.Close()
	if names, _ := disk.List("/s/cut"); len(names) != 1 {
		t.Errorf("copies %v, found %+v", names, h.Stats().Recovered)
	}
	if n := h.wholeBodies(sent); n != 9 || !h.send(h.put("T", 0, []byte("again"))) {
		t.Errorf("%d messages, %v", n, h.Err())
	}
}

// wholeBodies holds the messages that there are to what was sent, and counts them.
func (h *harness) wholeBodies(sent []Put) (n int) {
	h.t.Helper()
	for ; int64(n) < h.Queue("T", 0).Max(); n++ {
		if got := h.body("T", 0, int64(n)); !bytes.Equal(got, sent[n].Body) {
			h.t.Errorf("message %d is %.10q", n, got)
		}
	}
	return n
}

// TestOpenOnFullDisk: a store opens on a disk without a free block, be it after a clean stop or a kill. What it has
// is read; messages are refused for want of space, and taken by themselves once there is room.
func TestOpenOnFullDisk(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed=%v", killed), func(t *testing.T) {
			disk := memfs.New(1)
			power := faultfs.Wrap(disk)
			o := tinyOptions("/s")
			o.QueueFlushInterval, o.NoIndex = time.Millisecond, true
			if killed {
				o.checkpointBytes = 1 << 40 // all entries are still in memory
			}
			h := openTest(t, power, o)
			h.sendFiles(4)
			want := h.bodies()
			if killed {
				power.CutAt(power.Calls())
				_ = power.MkdirAll("/off")
				_ = h.Close() // nothing reaches the disk
			} else if err := h.Close(); err != nil {
				t.Fatal(err)
			}
			disk.SetSpace(1)

			for range 2 { // the second comes after a kill on the full disk
				power = faultfs.Wrap(disk)
				h = openTest(t, power, o)
				if got := h.bodies(); !slices.Equal(got, want) {
					t.Fatalf("%d messages, want %d", len(got), len(want))
				}
				p := h.put("T", 0, make([]byte, 2000))
				var err error
				for !errors.Is(err, ErrNoSpace) { // some fit into the newest file yet
					if err = h.Reserve(p.Bytes); err == nil {
						puts := []Put{p}
						if h.Append(puts); puts[0].Err == nil {
							h.await(func() bool { return h.Marks().Visible >= puts[0].End })
						}
					}
					runtime.Gosched()
				}
				want = h.bodies()
				power.CutAt(power.Calls())
				_ = power.MkdirAll("/off")
				_ = h.Close()
			}

			h = openTest(t, disk, o)
			defer h.Close()
			disk.SetSpace(0)
			p := h.put("T", 0, []byte("again"))
			for !h.send(p) {
				runtime.Gosched()
			}
			if got := h.bodies(); len(got) != len(want)+1 {
				t.Errorf("%d messages, want %d", len(got), len(want)+1)
			}
			if err := h.Close(); err != nil {
				t.Fatal(err)
			}
			checkStockView(t, disk, "/s")
		})
	}
}
