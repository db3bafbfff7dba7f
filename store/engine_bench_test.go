package store

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringmq/store/vfs/osfs"
)

// engineRun is how long each loop of BenchmarkEngine runs in one round.
const engineRun = time.Second

// BenchmarkEngine is the store alone, SYNC, with some messages of 1 KiB under way at all times, on segments that were
// used before. Each turn of b is a round of four loops on one disk, because its speed changes by the minute:
//
//	ring, posix  the store with either engine
//	bare         one pwrite of as many records and one fdatasync, in a file that was written before: plain group commit
//	fio          the same by fio(1), where it is installed
//
// Reported are medians: of ring over bare, of ring over the better of posix and bare, and of bare over fio, which shows
// that the bare loop is no weak yardstick.
//
//	go test ./store -run '^$' -bench Engine -benchtime 5x
func BenchmarkEngine(b *testing.B) {
	for _, producers := range []int{64, 256} {
		b.Run(fmt.Sprintf("size=1024/producers=%d", producers), func(b *testing.B) { benchEngine(b, producers) })
	}
}

func benchEngine(b *testing.B, producers int) {
	var ring, posix *engineLoop
	ring, posix = newEngineLoop(b, osfs.Auto, producers), newEngineLoop(b, osfs.POSIX, producers)
	bare := path.Join(b.TempDir(), "bare")
	block := make([]byte, producers*ring.put.Bytes)
	writeZeros(b, bare, 256<<20)
	rates := map[string][]float64{}
	note := func(name string, rate float64) { rates[name] = append(rates[name], rate) }
	for b.Loop() {
		r, p, g := ring.run(engineRun), posix.run(engineRun), bareLoop(b, bare, block, engineRun)*float64(producers)
		note("ring/s", r)
		note("ring/bare", r/g)
		note("ring/best", r/max(p, g))
		if f, ok := fioLoop(b, bare, len(block)); ok {
			note("ring/fio", r/(f*float64(producers)))
			note("bare/fio", g/(f*float64(producers)))
		}
	}
	for name, all := range rates {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], name)
	}
	b.ReportMetric(float64(ring.Stats().Recycled), "recycled")
}

// engineLoop is a store that holds as many messages under way as there are producers.
type engineLoop struct {
	*harness
	put   Put
	puts  []Put
	ends  []int64 // of what is under way, in order
	drops chan struct{}
}

// newEngineLoop runs the loop until segments are used again.
func newEngineLoop(b *testing.B, engine osfs.IOEngine, producers int) *engineLoop {
	o := Options{Dir: path.Join(b.TempDir(), string(engine)), FlushSync: true, SegmentBytes: 64 << 20}
	o.Retention.MaxBytes = 4 * o.SegmentBytes
	l := &engineLoop{harness: openTest(b, osfs.New(osfs.Options{IOEngine: engine}), o), drops: make(chan struct{}, 1)}
	b.Cleanup(func() {
		close(l.drops)
		if err := l.Close(); err != nil {
			b.Error(err)
		}
	})
	l.put = l.harness.put("T", 0, make([]byte, 1024))
	l.puts = make([]Put, producers)
	go func() { // as a node's goroutine for retention
		for range l.drops {
			l.retainRound(context.Background())
		}
	}()
	for l.Stats().Recycled < 4 {
		l.run(100 * time.Millisecond)
	}
	return l
}

// run appends for a while and returns visible messages per second.
func (l *engineLoop) run(span time.Duration) float64 {
	begin, done := time.Now(), 0
	for time.Since(begin) < span {
		puts := l.puts[:cap(l.puts)-len(l.ends)]
		for i := range puts {
			puts[i] = l.put
			if err := l.Reserve(puts[i].Bytes); err != nil {
				puts = puts[:i] // no room right now
				break
			}
		}
		if len(puts) > 0 {
			l.Append(puts)
		}
		for i := range puts {
			l.ends = append(l.ends, puts[i].End)
		}
		if len(l.ends) == 0 {
			continue
		}
		l.await(func() bool { return l.Marks().Visible >= l.ends[0] || l.Err() != nil })
		visible := l.Marks().Visible
		n := 0
		for n < len(l.ends) && l.ends[n] <= visible {
			n++
		}
		l.ends = l.ends[:copy(l.ends, l.ends[n:])]
		done += n
		select {
		case l.drops <- struct{}{}:
		default:
		}
	}
	return float64(done) / time.Since(begin).Seconds()
}

func writeZeros(b *testing.B, name string, bytes int) {
	if err := os.WriteFile(name, make([]byte, bytes), 0o600); err != nil {
		b.Fatal(err)
	}
}

// bareLoop writes block and makes it durable, again and again in turn through a file that was written before, and
// returns how often per second.
func bareLoop(b *testing.B, name string, block []byte, span time.Duration) float64 {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	begin, n, at := time.Now(), 0, int64(0)
	for ; time.Since(begin) < span; n++ {
		if at+int64(len(block)) > info.Size() {
			at = 0
		}
		if _, err := f.WriteAt(block, at); err != nil {
			b.Fatal(err)
		}
		if err := datasync(f); err != nil {
			b.Fatal(err)
		}
		at += int64(len(block))
	}
	return float64(n) / time.Since(begin).Seconds()
}

// fioLoop is bareLoop by fio.
func fioLoop(b *testing.B, name string, bytes int) (perSecond float64, ok bool) {
	if _, err := exec.LookPath("fio"); err != nil {
		return 0, false
	}
	out, err := exec.Command("fio", "--name=bare", "--filename="+name, "--rw=write", fmt.Sprint("--bs=", bytes), "--size=256M", "--overwrite=1",
		"--ioengine=psync", "--fdatasync=1", "--time_based", fmt.Sprint("--runtime=", int(engineRun.Seconds())), "--output-format=json").Output()
	if err != nil {
		b.Fatalf("fio: %v", err)
	}
	var report struct {
		Jobs []struct{ Write struct{ Iops float64 } }
	}
	if err := json.Unmarshal(out, &report); err != nil || len(report.Jobs) != 1 {
		b.Fatalf("fio: %v\n%s", err, out)
	}
	return report.Jobs[0].Write.Iops, true
}

func datasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
