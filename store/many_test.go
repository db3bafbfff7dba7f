package store

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path"
	"runtime"
	"strings"
	"testing"
	"time"

	"ringmq/store/vfs/osfs"
)

// TestManyQueues fills thousands of queues a little, as a node with thousands of topics does: the open files
// and the memory of their tails stay within bounds, and every message is found, also after a restart.
func TestManyQueues(t *testing.T) {
	const queues, each = 3000, 3
	o := tinyOptions(path.Join(t.TempDir(), "s"))
	o.SegmentBytes, o.StagingBytes, o.checkpointBytes, o.QueueFlushInterval = 1<<20, 1<<20, 256<<10, time.Millisecond
	h := openTest(t, osfs.New(osfs.Options{Log: slog.New(slog.DiscardHandler)}), o)
	topic := func(i int) string { return fmt.Sprint("T", i/8) }
	for round := range each {
		for i := 0; i < queues; i += 100 {
			var puts []Put
			for j := i; j < i+100; j++ {
				puts = append(puts, h.put(topic(j), int32(j%8), fmt.Appendf(nil, "%d %d", j, round)))
			}
			if !h.send(puts...) {
				t.Fatal(h.Err())
			}
		}
		fewQueueFiles(t, o.Dir)
	}
	h.awaitCheckpoint()
	check := func() {
		t.Helper()
		for i := range queues {
			for round := range each {
				if got := h.body(topic(i), int32(i%8), int64(round)); !bytes.Equal(got, fmt.Appendf(nil, "%d %d", i, round)) {
					t.Fatalf("queue %d: %q", i, got)
				}
			}
		}
	}
	check()
	if fewQueueFiles(t, o.Dir) == 0 {
		t.Error("no queue file stays open")
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h = openTest(t, osfs.New(osfs.Options{Log: slog.New(slog.DiscardHandler)}), o)
	defer h.Close()
	check()
}

// awaitCheckpoint waits until a checkpoint holds so much that no other is due.
func (h *harness) awaitCheckpoint() {
	for h.Stats().Checkpoint+h.o.checkpointBytes < h.Marks().Visible {
		h.keeper.Dispatched(h.Marks().Visible)
		runtime.Gosched()
	}
}

// fewQueueFiles waits until no more files are open than are kept so, and returns how many those are. There may be a few
// more while somebody closes what he took out, and descriptors change hands while they are counted.
func fewQueueFiles(t *testing.T, dir string) int {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		n := openQueueFiles(t, dir)
		if n <= keptOpenFiles() {
			return n
		}
		if time.Now().After(end) {
			t.Fatalf("%d queue files are open, %d at most are kept so", n, keptOpenFiles())
		}
	}
}

// openQueueFiles counts this process's open files of queues.
func openQueueFiles(t testing.TB, dir string) (n int) {
	return openFilesBelow(t, path.Join(dir, "consumequeue"))
}

func openFilesBelow(t testing.TB, dir string) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && strings.HasPrefix(name, dir+"/") {
			n++
		}
	}
	return n
}

// BenchmarkQueues sends batches that go round many queues or few. anon-MB is the process's anonymous and
// shared memory at the end, staging and index included.
func BenchmarkQueues(b *testing.B) {
	for _, queues := range []int{8, 40_000} {
		for _, flushSync := range []bool{true, false} {
			b.Run(fmt.Sprintf("queues=%d/sync=%v", queues, flushSync), func(b *testing.B) {
				benchQueues(b, queues, Options{FlushSync: flushSync})
			})
		}
	}
}

// BenchmarkIndex sends the same with and without the index, which puts three keys of each message in.
func BenchmarkIndex(b *testing.B) {
	for _, flushSync := range []bool{true, false} {
		for _, off := range []bool{true, false} {
			b.Run(fmt.Sprintf("sync=%v/index=%v", flushSync, !off), func(b *testing.B) {
				benchQueues(b, 8, Options{FlushSync: flushSync, NoIndex: off})
			})
		}
	}
}

func benchQueues(b *testing.B, queues int, o Options) {
	const batch = 256
	o.Dir, o.SegmentBytes = path.Join(b.TempDir(), "s"), 256<<20
	h := openTest(b, osfs.New(osfs.Options{Log: slog.New(slog.DiscardHandler)}), o)
	defer h.Close()
	body := make([]byte, 1024)
	all := make([]Put, queues)
	for i := range all {
		all[i] = h.put(fmt.Sprint("Topic", i/8), int32(i%8), body)
		all[i].Props = fmt.Appendf(nil, "UNIQ_KEY\x01FD0000000000000000000000%08x\x02KEYS\x01k%d\x02TAGS\x01a\x02", i, i)
		all[i].Bytes, _ = h.RecordBytes(&all[i].Message)
	}
	puts := make([]Put, batch)
	at := 0
	b.SetBytes(batch * 1024)
	worst := time.Duration(0)
	for b.Loop() {
		for i := range puts {
			puts[i] = all[at%queues]
			at++
		}
		from := time.Now()
		if !h.send(puts...) {
			b.Fatal(h.Err())
		}
		worst = max(worst, time.Since(from))
	}
	b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "msg/s")
	b.ReportMetric(anonMB(b), "anon-MB")
	b.ReportMetric(float64(worst.Milliseconds()), "worst-ms")
	b.ReportMetric(float64(openQueueFiles(b, o.Dir)), "queue-files")
}

func anonMB(b *testing.B) (mb float64) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		var kb float64
		if n, _ := fmt.Sscanf(line, "RssAnon: %f", &kb); n == 1 {
			mb += kb / 1024
		}
		if n, _ := fmt.Sscanf(line, "RssShmem: %f", &kb); n == 1 {
			mb += kb / 1024
		}
	}
	return mb
}
