package log

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"testing"
	"time"

	"ringmq/store/vfs"
	"ringmq/store/vfs/osfs"
)

// BenchmarkOneSender is one sender that waits for each message to be durable, beside the bare call it
// cannot do without: fdatasync after a write of the same bytes to a file that was written before. They
// take turns, because a disk's speed changes by the minute. Both medians are reported.
func BenchmarkOneSender(b *testing.B) {
	for _, engine := range []osfs.IOEngine{osfs.Auto, osfs.POSIX} {
		for _, size := range []int{1 << 10, 16 << 10} {
			b.Run(fmt.Sprintf("engine=%s/size=%d", engine, size), func(b *testing.B) { benchOneSender(b, engine, size) })
		}
	}
}

func benchOneSender(b *testing.B, engine osfs.IOEngine, size int) {
	fsys, dir := osfs.New(osfs.Options{IOEngine: engine}), b.TempDir()
	r := newRig(b, fsys, nil, func(c *Config) {
		c.Dirs, c.SegmentBytes, c.StagingBytes = []string{path.Join(dir, "log")}, 64<<20, 1<<20
	})
	bare := prepared(b, fsys, path.Join(dir, "bare"), 64<<20)
	defer bare.Close()
	record := make([]byte, size)
	var ours, theirs []time.Duration
	for i := 0; b.Loop(); i++ {
		begin := time.Now()
		end := r.append(size, 'x')
		r.await(func() bool { return r.Durable() >= end })
		ours = append(ours, time.Since(begin))

		begin = time.Now()
		if _, err := bare.WriteAt(record, int64(i*size)%(32<<20)); err != nil {
			b.Fatal(err)
		}
		if err := bare.Sync(); err != nil {
			b.Fatal(err)
		}
		theirs = append(theirs, time.Since(begin))
	}
	b.ReportMetric(float64(median(ours).Microseconds()), "p50-µs")
	b.ReportMetric(float64(median(theirs).Microseconds()), "bare-p50-µs")
	b.ReportMetric(float64(r.Stats().Inline)/float64(r.Stats().Flushes), "inline/flush")
	if err := errors.Join(r.drain(), r.Close()); err != nil {
		b.Fatal(err)
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// prepared is a file whose blocks were all written.
func prepared(b *testing.B, fsys vfs.FS, name string, bytes int) vfs.File {
	f, err := fsys.Create(name)
	if err == nil {
		_, err = f.WriteAt(make([]byte, bytes), 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		b.Fatal(err)
	}
	return f
}

// BenchmarkSegments appends 64 KiB at a time, each durable before the next, over segments that are new or
// were used before.
func BenchmarkSegments(b *testing.B) {
	for _, recycle := range []bool{false, true} {
		b.Run(fmt.Sprintf("recycle=%t/size=65536", recycle), func(b *testing.B) { benchSegments(b, recycle) })
	}
}

func benchSegments(b *testing.B, recycle bool) {
	const size = 64 << 10
	r := newRig(b, osfs.New(osfs.Options{}), nil, func(c *Config) {
		c.Dirs, c.SegmentBytes, c.StagingBytes, c.Recycle = []string{path.Join(b.TempDir(), "log")}, 16<<20, 1<<20, recycle
	})
	step := func() {
		r.await(func() bool { return r.Reserve(size) == nil })
		r.Release(size)
		end := r.append(size, 'x')
		r.await(func() bool { return r.Durable() >= end })
		if all := *r.segments.Load(); len(all) > 2 {
			if err := r.Drop(all[0].base, true, nil); err != nil {
				b.Fatal(err)
			}
		}
	}
	for range 1024 { // four segments: the first that were used before come next
		step()
	}
	b.SetBytes(size)
	for b.Loop() {
		step()
	}
	b.ReportMetric(float64(r.Stats().Recycled), "recycled")
	if err := errors.Join(r.drain(), r.Close()); err != nil {
		b.Fatal(err)
	}
}
