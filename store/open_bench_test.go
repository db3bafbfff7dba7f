package store

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"testing"

	"ringmq/store/vfs/faultfs"
	"ringmq/store/vfs/osfs"
)

// BenchmarkOpen opens a store with a log of many MiB (RINGMQ_OPEN_MIB, default 64): closed, killed right
// before its next checkpoint, and killed with none that can be used, so that all of the log is read.
// walked-MiB tells how much was.
func BenchmarkOpen(b *testing.B) {
	mib, err := strconv.Atoi(os.Getenv("RINGMQ_OPEN_MIB"))
	if err != nil {
		mib = 64
	}
	for _, state := range []string{"closed", "killed", "unknown"} {
		b.Run(fmt.Sprintf("log=%dMiB/state=%s", mib, state), func(b *testing.B) {
			o := Options{Dir: path.Join(b.TempDir(), "s"), FlushSync: true, NoIndex: true}
			if mib <= 64 {
				o.SegmentBytes = 64 << 20
			}
			restore := fillForOpen(b, o, int64(mib)<<20, state)
			for b.Loop() {
				h := openTest(b, osfs.New(osfs.Options{}), o)
				b.StopTimer()
				found := h.Stats().Recovered
				b.ReportMetric(float64(found.End-found.From)/(1<<20), "walked-MiB")
				if err := h.Close(); err != nil {
					b.Fatal(err)
				}
				restore()
				b.StartTimer()
			}
		})
	}
}

// fillForOpen makes the directory. The returned function brings back what tells how it was left.
func fillForOpen(b *testing.B, o Options, size int64, state string) (restore func()) {
	power := faultfs.Wrap(osfs.New(osfs.Options{}))
	h := openTest(b, power, o)
	body := make([]byte, 4000)
	for h.Marks().Visible < size {
		puts := make([]Put, 200)
		for i := range puts {
			puts[i] = h.put("T", int32(i%8), body)
		}
		if !h.send(puts...) {
			b.Fatal(h.Err())
		}
	}
	if state != "closed" {
		power.CutAt(power.Calls())
	}
	if err := h.Close(); err != nil && state == "closed" {
		b.Fatal(err)
	}
	names := []string{"ringmq.checkpoint", "ringmq.checkpoint.bak", "checkpoint", "abort"}
	kept := map[string][]byte{}
	for _, name := range names {
		data, err := os.ReadFile(path.Join(o.Dir, name))
		if err == nil && (state != "unknown" || name == "abort") {
			kept[name] = data
		}
	}
	restore = func() {
		for _, name := range names {
			err := os.Remove(path.Join(o.Dir, name))
			if data, ok := kept[name]; ok {
				err = os.WriteFile(path.Join(o.Dir, name), data, 0o644)
			}
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				b.Fatal(err)
			}
		}
	}
	restore()
	return restore
}
