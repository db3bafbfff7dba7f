package log

import (
	"errors"
	"path"
	"slices"
	"testing"
	"time"

	"ringmq/store/vfs/osfs"
)

// BenchmarkRoll is one sender that waits for each message to be durable, over 50 small segments: a message
// that finds its segment full enters the next, which should be there. The slowest in a thousand, and the
// median of those that enter a segment, stand beside the median of all. late counts refusals because the next
// segment was not ready.
func BenchmarkRoll(b *testing.B) {
	const segments, segment, size = 50, 512 << 10, 8 << 10
	var all, rolls []time.Duration
	var late int64
	for b.Loop() {
		r := newRig(b, osfs.New(osfs.Options{}), nil, func(c *Config) {
			c.Dirs, c.SegmentBytes, c.StagingBytes = []string{path.Join(b.TempDir(), "log")}, segment, 1<<20
		})
		for last := int64(0); last < segments*segment; {
			begin := time.Now()
			r.await(func() bool { return r.Reserve(size) == nil })
			r.Release(size)
			end := r.append(size, 'x')
			r.await(func() bool { return r.Durable() >= end })
			took := time.Since(begin)
			if all = append(all, took); end/segment > last/segment {
				rolls = append(rolls, took)
			}
			last = end
		}
		late += r.Stats().Busy
		if err := errors.Join(r.drain(), r.Close()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(median(all).Microseconds()), "p50-µs")
	b.ReportMetric(float64(all[len(all)*999/1000].Microseconds()), "p99.9-µs") // median has sorted them
	b.ReportMetric(float64(median(rolls).Microseconds()), "roll-p50-µs")
	b.ReportMetric(float64(slices.Max(rolls).Microseconds()), "roll-max-µs")
	b.ReportMetric(float64(late)/float64(len(rolls)), "late/roll")
	b.ReportMetric(0, "ns/op")
}
