package log

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"testing"
	"time"

	"ringmq/store/vfs/osfs"
)

// BenchmarkFirstFill fills a log in a fresh directory and one whose files were used before, in turns, because
// a disk's speed changes by the minute: only the ratio means something. Each message is durable before its
// sender has another; inflight bytes are under way. More rounds: -benchtime 15x.
func BenchmarkFirstFill(b *testing.B) {
	for _, inflight := range []int{80 << 10, 1280 << 10} {
		b.Run(fmt.Sprintf("inflight=%d", inflight), func(b *testing.B) { benchFirstFill(b, inflight) })
	}
}

const (
	fillRecord  = 1280
	fillSegment = 16 << 20
	fillBytes   = 3 * fillSegment / 2 // each round; a roll is part of it
)

func benchFirstFill(b *testing.B, inflight int) {
	dir := b.TempDir()
	open := func(name string) *rig {
		return newRig(b, osfs.New(osfs.Options{}), nil, func(c *Config) {
			c.Dirs, c.SegmentBytes, c.StagingBytes, c.FlushDepth, c.Recycle = []string{path.Join(dir, name)}, fillSegment, 16<<20, 1, true
		})
	}
	used := open("used")
	for range 3 {
		used.load(inflight)
	}
	var ratios, fresh, recycled []float64
	for i := 0; b.Loop(); i++ {
		begin := time.Now()
		used.load(inflight)
		recycled = append(recycled, fillBytes/time.Since(begin).Seconds()/1e6)

		name := fmt.Sprint("fresh", i)
		begin = time.Now()
		r := open(name)
		r.load(inflight)
		fresh = append(fresh, fillBytes/time.Since(begin).Seconds()/1e6)
		if err := errors.Join(r.drain(), r.Close(), os.RemoveAll(path.Join(dir, name))); err != nil {
			b.Fatal(err)
		}
		ratios = append(ratios, fresh[i]/recycled[i])
	}
	b.ReportMetric(middle(ratios), "ratio")
	b.ReportMetric(middle(fresh), "fresh-MB/s")
	b.ReportMetric(middle(recycled), "recycled-MB/s")
	b.ReportMetric(0, "ns/op")
	b.Logf("recycled %d of %d; ratios %.2f", used.Stats().Recycled, used.Stats().Segments, ratios)
	if err := errors.Join(used.drain(), used.Close()); err != nil {
		b.Fatal(err)
	}
}

func middle(f []float64) float64 {
	slices.Sort(f)
	return f[len(f)/2]
}

// load appends, and drops what is old.
func (r *rig) load(inflight int) {
	r.Lock()
	end := r.TailLocked()
	r.Unlock()
	goal := end + fillBytes
	for end < goal {
		r.await(func() bool { return end-r.Durable() < int64(inflight) })
		for end < goal && end-r.Durable() < int64(inflight) {
			r.await(func() bool { return r.Reserve(fillRecord) == nil })
			r.Release(fillRecord)
			end = r.append(fillRecord, 'x')
		}
		if all := *r.segments.Load(); len(all) > 2 && all[0].end() < r.Durable() {
			if err := r.Drop(all[0].base, true); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	r.await(func() bool { return r.Durable() >= end })
}
