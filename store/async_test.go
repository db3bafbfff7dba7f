package store

import (
	"math/rand/v2"
	"testing"

	"ringmq/store/internal/log"
	"ringmq/store/vfs/memfs"
)

// TestAsyncLossIsBounded: with ASYNC_FLUSH and a disk that flushes nothing any more, messages are
// acknowledged until 64 MiB are in danger. A power cut then takes that much at most.
func TestAsyncLossIsBounded(t *testing.T) {
	disk := memfs.New(1)
	o := Options{Dir: "/s", SegmentBytes: 16 << 20, StagingBytes: 8 << 20}
	h := openTest(t, disk, o)
	disk.HoldFlushes()
	puts := []Put{h.put("T", 0, make([]byte, 1<<20))}
	for puts[0].End <= log.UnflushedBytes { // more than may be acknowledged
		h.await(func() bool { return h.Reserve(puts[0].Bytes) == nil })
		h.Append(puts)
	}
	h.await(func() bool { return h.Marks().Written > log.UnflushedBytes-o.SegmentBytes })
	acknowledged := h.Marks().Written
	after := disk.Crash(rand.New(rand.NewPCG(1, 1)), 0)
	_ = h.Close() // ends the goroutines

	h = openTest(t, after, o)
	defer h.Close()
	lost := acknowledged - h.Stats().Recovered.End
	t.Logf("%d of %d acknowledged bytes are lost", lost, acknowledged)
	if lost <= 0 || lost > log.UnflushedBytes {
		t.Errorf("lost %d bytes of the log, want some, and %d at most", lost, log.UnflushedBytes)
	}
}
