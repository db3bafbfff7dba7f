package store

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"ringmq/store/vfs/faultfs"
	"ringmq/store/vfs/memfs"
)

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
