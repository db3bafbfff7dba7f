package filter_test

import (
	"fmt"
	"log/slog"
	"net/netip"
	"path"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringmq/node/filter"
	"ringmq/node/group"
	"ringmq/store"
	"ringmq/store/record"
	"ringmq/store/vfs/osfs"
)

// typical is what a Java client and its broker make of a message with three properties of its user.
func typical(i int) []byte {
	return fmt.Appendf(nil, "KEYS\x01order-%d\x02region\x01%s\x02UNIQ_KEY\x01FD0000000000000000000000000000022D925FFD2B27960F80380000\x02"+
		"price\x01%d.95\x02CLUSTER\x01DefaultCluster\x02amount\x01%d\x02WAIT\x01true\x02TAGS\x01%s\x02MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02",
		i, []string{"north", "south", "east", "west"}[i%4], i%1000, i%10, []string{"often", "rare"}[(i%100)/99])
}

// filled is a store with one queue of 128 MiB of messages at most, in the page cache.
func filled(b *testing.B, body int) (*store.Store, *store.Queue) {
	b.Helper()
	s, err := store.Open(osfs.New(osfs.Options{}), store.Options{
		Dir: path.Join(b.TempDir(), "s"), SegmentBytes: 256 << 20, NoIndex: true, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	q := s.OpenQueue("T", 0)
	host := netip.MustParseAddrPort("127.0.0.1:10911")
	for i := 0; i < min(50_000, 128<<20/body); {
		var puts []store.Put
		total := 0
		for range 500 {
			p := store.Put{Queue: q, Message: record.Message{Topic: "T", Born: host, Store: host, Body: make([]byte, body), Props: typical(i)}}
			if p.Bytes, err = s.RecordBytes(&p.Message); err != nil {
				b.Fatal(err)
			}
			total += p.Bytes
			puts = append(puts, p)
			i++
		}
		for s.Reserve(total) != nil {
		}
		s.Append(puts)
		for q.Max() < int64(i) {
		}
	}
	return s, q
}

// cpuTime is what the process has used.
func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkGet goes through a queue as a consumer that filters does, on one core. An operation is one message of the queue,
// whether it passes or not. M/cpu-s is millions of them in a second of CPU time, on a
// busy machine too.
func BenchmarkGet(b *testing.B) {
	tags, err := group.NewSubscription("T", "rare", group.Tag, 0)
	if err != nil {
		b.Fatal(err)
	}
	expr, err := filter.Compile("amount > 2 AND region IN ('north', 'south') AND price BETWEEN 900.0 AND 910.0")
	if err != nil {
		b.Fatal(err)
	}
	for _, bc := range []struct {
		name string
		body int
		get  store.Get
	}{
		{"tags", 128, store.Get{Match: tags.Match}},
		{"sql", 128, store.Get{MatchProps: expr.Match}},
		{"sql", 1024, store.Get{MatchProps: expr.Match}},
		{"sql", 16 << 10, store.Get{MatchProps: expr.Match}},
	} {
		b.Run(fmt.Sprintf("filter=%s/body=%d", bc.name, bc.body), func(b *testing.B) {
			s, q := filled(b, bc.body)
			benchmarkGet(b, s, q, bc.get)
		})
	}
}

func benchmarkGet(b *testing.B, s *store.Store, q *store.Queue, g store.Get) {
	g.MaxCount, g.MaxBytes = 32, 256<<10
	var got store.Got
	b.ReportAllocs()
	b.ResetTimer()
	passed, before := 0, cpuTime(b)
	for n := int64(0); n < int64(b.N); {
		from := g.Offset
		if err := s.Get(q, g, &got); err != nil {
			b.Fatal(err)
		}
		n += got.Next - from
		passed += got.Count
		if g.Offset = got.Next; g.Offset >= q.Max() {
			g.Offset = 0
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "M/s")
	b.ReportMetric(float64(b.N)/(cpuTime(b)-before).Seconds()/1e6, "M/cpu-s")
	b.ReportMetric(100*float64(passed)/float64(b.N), "passed-%")
}
