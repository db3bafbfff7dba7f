package store

import (
	"path"
	"testing"

	"ringmq/store/vfs/osfs"
	"ringmq/uring"
)

// TestFlushesGoThroughTheRing: where the kernel and its policy permit a ring, the log's flushes complete in
// it, not in what stands in for it; and in what stands in where that is asked for.
func TestFlushesGoThroughTheRing(t *testing.T) {
	inRing := map[osfs.IOEngine]bool{osfs.Auto: true}
	if ring, err := uring.NewRing(2); err != nil {
		t.Log("no ring here: ", err)
		inRing[osfs.Auto] = false
	} else if err := ring.Close(); err != nil {
		t.Fatal(err)
	}
	for _, engine := range []osfs.IOEngine{osfs.Auto, osfs.POSIX} {
		t.Run(string(engine), func(t *testing.T) {
			h := openTest(t, osfs.New(osfs.Options{IOEngine: engine}), Options{
				Dir: path.Join(t.TempDir(), "s"), SegmentBytes: 1 << 20, FlushSync: true, FlushDepth: 2,
			})
			defer h.Close()
			p := h.put("T", 0, make([]byte, 200<<10)) // too much for the call that flushes as it writes
			if err := h.Reserve(p.Bytes); err != nil {
				t.Fatal(err)
			}
			puts := []Put{p}
			h.Append(puts)
			h.await(func() bool { return h.Marks().Durable >= puts[0].End })
			s := h.Stats()
			right, wrong := s.FlushedByCall, s.FlushedByRing
			if inRing[engine] {
				right, wrong = wrong, right
			}
			if right == 0 || wrong > 0 || right+s.FlushedInline < s.Flushes {
				t.Errorf("%d of %d flushes completed in the ring, %d by calls, %d inline: in the ring %v is wanted",
					s.FlushedByRing, s.Flushes, s.FlushedByCall, s.FlushedInline, inRing[engine])
			}
		})
	}
}
