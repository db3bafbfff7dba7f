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
	want := map[osfs.IOEngine]string{osfs.Auto: "io_uring", osfs.POSIX: "posix"}
	if ring, err := uring.NewRing(2); err != nil {
		t.Log("no ring here: ", err)
		want[osfs.Auto] = "posix"
	} else if err := ring.Close(); err != nil {
		t.Fatal(err)
	}
	for engine, name := range want {
		t.Run(string(engine), func(t *testing.T) {
			h := openTest(t, osfs.New(osfs.Options{IOEngine: engine}), Options{
				Dir: path.Join(t.TempDir(), "s"), SegmentBytes: 1 << 20, FlushSync: true,
			})
			defer h.Close()
			p := h.put("T", 0, make([]byte, 200<<10)) // too much for the call that flushes as it writes
			if err := h.Reserve(p.Bytes); err != nil {
				t.Fatal(err)
			}
			puts := []Put{p}
			h.Append(puts)
			h.await(func() bool { return h.Marks().Durable >= puts[0].End })
			if s := h.log.Stats(); s.Engine != name || s.Completed == 0 || s.Completed+s.Inline < s.Flushes {
				t.Errorf("%d of %d flushes completed in %s, want all in %s", s.Completed, s.Flushes, s.Engine, name)
			}
		})
	}
}
