package store

import (
	"fmt"
	"os"
	"path"
	"sync"
	"sync/atomic"
	"testing"

	"ringmq/store/record"
	"ringmq/store/vfs/osfs"
)

// TestAppendAllocates pins that a message costs no allocation on its way from Reserve to its queue. A
// turn of 64 messages may cost a few: its flush, a queue's tail that begins anew.
func TestAppendAllocates(t *testing.T) {
	h := openTest(t, osfs.New(osfs.Options{}), Options{
		Dir: path.Join(t.TempDir(), "s"), SegmentBytes: 64 << 20, FlushSync: true,
	})
	defer h.Close()
	puts := make([]Put, 64)
	for i := range puts {
		puts[i] = h.put("T", int32(i%4), make([]byte, 1024))
	}
	visible := func() bool { return h.Marks().Visible >= puts[len(puts)-1].End }
	turn := func() {
		for i := range puts {
			if err := h.Reserve(puts[i].Bytes); err != nil {
				t.Fatal(err)
			}
		}
		h.Append(puts)
		h.await(visible)
	}
	turn() // slices grow
	if each := testing.AllocsPerRun(200, turn); each > 16 {
		t.Errorf("%v allocations for %d messages", each, len(puts))
	}
}

// BenchmarkAppend: producers that each wait for their message, no network; the bare loop beside it is
// one write of 1,024 of the same records and an fdatasync, on a file that was prepared in the same way.
func BenchmarkAppend(b *testing.B) {
	const size = 1024
	for _, flushSync := range []bool{true, false} {
		for _, producers := range []int{64, 256} {
			name := fmt.Sprintf("size=%d/flush=%s/producers=%d", size, map[bool]string{true: "sync", false: "async"}[flushSync], producers)
			b.Run(name, func(b *testing.B) { benchAppend(b, flushSync, producers, size) })
		}
	}
	b.Run("size=1024/bare=write+fdatasync/records=1024", func(b *testing.B) { benchBare(b, size) })
}

func benchAppend(b *testing.B, flushSync bool, producers, size int) {
	h := openTest(b, osfs.New(osfs.Options{}), Options{Dir: path.Join(b.TempDir(), "s"), FlushSync: flushSync})
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.SetBytes(int64(size))
	b.ResetTimer()
	for i := range producers {
		wg.Go(func() {
			puts := []Put{h.put("T", int32(i%8), make([]byte, size))}
			for left.Add(-1) >= 0 {
				h.await(func() bool { return h.Reserve(puts[0].Bytes) == nil })
				h.Append(puts)
				h.await(func() bool { return h.Marks().Visible >= puts[0].End })
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	s := h.Stats()
	b.ReportMetric(float64(s.Flushes)/float64(b.N), "flushes/op")
	if err := h.Close(); err != nil {
		b.Fatal(err)
	}
}

func benchBare(b *testing.B, size int) {
	const together = 1024
	f, err := os.Create(path.Join(b.TempDir(), "bare"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	m := record.Message{Topic: "T", Born: testHost, Store: testHost, Body: make([]byte, size), Props: []byte("TAGS\x01a\x02")}
	n, err := m.Size(record.CheckTrailer)
	if err != nil {
		b.Fatal(err)
	}
	block := make([]byte, 0, together*n)
	for range together {
		block = m.Append(block, record.CheckTrailer, 0, 0, 0)
	}
	zeros := make([]byte, 256<<10)
	prepared := int64(0)
	b.SetBytes(int64(size))
	b.ResetTimer()
	for at := int64(0); at < int64(b.N*n); at += int64(len(block)) {
		for ; prepared < at+int64(len(block)); prepared += int64(len(zeros)) { // as the log does, ahead of the records
			if _, err := f.WriteAt(zeros, prepared); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := f.WriteAt(block, at); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}
