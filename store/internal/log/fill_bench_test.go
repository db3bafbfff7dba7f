package log

import (
	"errors"
	"fmt"
	"path"
	"testing"
	"time"

	"ringmq/store/vfs/osfs"
)

// BenchmarkFirstFill fills a log in a fresh directory and one whose files were used before, in short turns,
// because a disk's speed changes by the second: only the ratio means something. inflight bytes of records are on
// their way; each is durable before another comes. 80 KiB is 64 senders of 1 KiB, 1280 KiB is 1,024. For a
// ratio that can be repeated:
//
//	go test ./store/internal/log -run - -bench FirstFill -benchtime 100x
func BenchmarkFirstFill(b *testing.B) {
	for _, inflight := range []int64{80 << 10, 1280 << 10} {
		b.Run(fmt.Sprintf("inflight=%d", inflight), func(b *testing.B) { benchFirstFill(b, inflight) })
	}
}

const (
	fillRecord  = 1280
	fillSegment = 16 << 20
	fillTurn    = 4 << 20
)

func benchFirstFill(b *testing.B, inflight int64) {
	dir := b.TempDir()
	open := func(name string) *rig {
		return newRig(b, osfs.New(osfs.Options{}), nil, func(c *Config) {
			c.Dirs, c.SegmentBytes, c.StagingBytes, c.FlushDepth, c.Recycle = []string{path.Join(dir, name)}, fillSegment, 16<<20, 1, true
		})
	}
	used := open("used")
	for used.Stats().Recycled == 0 {
		used.load(inflight)
		used.dropOld()
	}
	begin := time.Now()
	r := open("fresh")
	opened := time.Since(begin)
	var fresh, again, bytes float64 // seconds
	for b.Loop() {
		begin = time.Now()
		used.load(inflight)
		again += time.Since(begin).Seconds()
		used.dropOld()

		begin = time.Now()
		r.load(inflight)
		r.awaitZeros() // none come in the other's turn
		fresh += time.Since(begin).Seconds()
		bytes += fillTurn
	}
	b.ReportMetric(again/fresh, "ratio")
	b.ReportMetric(bytes/fresh/1e6, "fresh-MB/s")
	b.ReportMetric(bytes/again/1e6, "recycled-MB/s")
	b.ReportMetric(float64(opened.Microseconds())/1000, "open-ms")
	b.ReportMetric(0, "ns/op")
	if err := errors.Join(used.drain(), used.Close(), r.drain(), r.Close()); err != nil {
		b.Fatal(err)
	}
}

// load appends a turn's bytes and waits until they are durable.
func (r *rig) load(inflight int64) {
	r.Lock()
	end := r.TailLocked()
	r.Unlock()
	for goal := end + fillTurn; end < goal; {
		r.await(func() bool { return end-r.Durable() < inflight })
		for end < goal && end-r.Durable() < inflight {
			r.await(func() bool { return r.Reserve(fillRecord) == nil })
			r.Release(fillRecord)
			end = r.append(fillRecord, 'x')
		}
	}
	r.await(func() bool { return r.Durable() >= end })
}

// dropOld has all but two segments used again.
func (r *rig) dropOld() {
	for all := *r.segments.Load(); len(all) > 2 && all[0].end() <= r.Durable(); all = *r.segments.Load() {
		if err := r.Drop(all[0].base, true, nil); err != nil {
			r.t.Fatal(err)
		}
	}
}

// awaitZeros waits until all zeros are safe that were asked for.
func (r *rig) awaitZeros() {
	r.zeros.mu.Lock()
	defer r.zeros.mu.Unlock()
	for r.zeros.g != nil && r.zeros.next < r.zeros.goal {
		r.zeros.calm.Wait()
	}
}
