package rpc_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"testing"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
	"ringmq/store/vfs/osfs"
)

// raw is a connection that sends the same frames again and again and only counts the answers, so
// that whatever is allocated is the node's.
type raw struct {
	node   *nodetest.Node
	conn   net.Conn
	in     *bufio.Reader
	frames []byte
	count  int
}

// newRaw connects to a node on the machine's file system, with count sends of size bytes prepared. more are properties that
// they have beside the usual ones.
func newRaw(t testing.TB, config map[string]string, count, size int, more ...string) *raw {
	t.Helper()
	keys := map[string]string{"storePathRootDir": t.TempDir(), "mappedFileSizeCommitLog": fmt.Sprint(64 << 20), "mappedFileSizeConsumeQueue": "6000000"}
	for key, value := range config {
		keys[key] = value
	}
	n := nodetest.Start(t, nodetest.Setup{FS: osfs.New(osfs.Options{}), Config: keys})
	n.Client().Send("T", 0, "makes the topic")
	conn, err := net.Dial("tcp", n.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	r := &raw{node: n, conn: conn, in: bufio.NewReaderSize(conn, 64<<10), count: count}
	h := nodetest.SendHeader("T", 0)
	h.Properties = props("KEYS", "k", "UNIQ_KEY", "FD0000000000000000000000000000022D925FFD2B27960F80380000", "WAIT", "true", "TAGS", "a")
	h.Properties = append(h.Properties, props(more...)...)
	req := nodetest.NewRequest(wire.SendMessageV2, h, bytes.Repeat([]byte("x"), size))
	for range count {
		r.frames = req.Append(r.frames)
	}
	return r
}

// round sends all frames and waits for all answers.
func (r *raw) round(t testing.TB) {
	if _, err := r.conn.Write(r.frames); err != nil {
		t.Fatal(err)
	}
	for range r.count {
		prefix, err := r.in.Peek(4)
		if err != nil {
			t.Fatal(err)
		}
		n := 4 + int(binary.BigEndian.Uint32(prefix))
		head, err := r.in.Peek(min(n, 24))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(head, []byte(`{"code":0,`)) {
			t.Fatalf("answer %q", head)
		}
		if _, err := r.in.Discard(n); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSendAllocatesNothing looks at the whole way of a message: frame, header, checks, append,
// write, flush, queue entry, answer. What little there is belongs to a batch, not to a message.
func TestSendAllocatesNothing(t *testing.T) {
	const count = 64
	for _, flush := range []string{"SYNC_FLUSH", "ASYNC_FLUSH"} {
		for _, level := range []string{"0", "18"} {
			t.Run(flush+"/delay="+level, func(t *testing.T) {
				r := newRaw(t, map[string]string{"flushDiskType": flush}, count, 1024, "DELAY", level)
				for range 20 {
					r.round(t) // buffers grow to their size
				}
				least := math.Inf(1) // on a busy machine the rounds fall apart into more batches, each with a few
				for range 5 {
					least = min(least, testing.AllocsPerRun(20, func() { r.round(t) })/count)
				}
				if least > 0.2 {
					t.Errorf("%.2f allocations per message", least)
				}
			})
		}
	}
}

// TestPullAllocatesNothing: what a pull of 32 messages from the page cache makes is its subscription, where it brings one;
// a member of a group brings none.
func TestPullAllocatesNothing(t *testing.T) {
	const count = 16
	r := newRaw(t, nil, 64, 1024)
	r.round(t) // there is something to pull
	beat(t, r.node.Client(), "c", "G", nil)
	h := nodetest.PullHeader("G", "T", 0, 1)
	h.SysFlag, h.Subscription = 0, nil
	req := nodetest.NewRequest(wire.PullMessage, h, nil)
	r.frames, r.count = nil, count
	for range count {
		r.frames = req.Append(r.frames)
	}
	for range 20 {
		r.round(t) // buffers grow to their size
	}
	least := math.Inf(1)
	for range 5 {
		least = min(least, testing.AllocsPerRun(20, func() { r.round(t) })/count)
	}
	if least > 0.2 {
		t.Errorf("%.2f allocations per pull", least)
	}
}

// BenchmarkSend is one connection with a number of sends in flight.
func BenchmarkSend(b *testing.B) {
	for _, flush := range []string{"SYNC_FLUSH", "ASYNC_FLUSH"} {
		for _, size := range []int{128, 1024} {
			for _, level := range []string{"0", "18"} {
				b.Run(fmt.Sprintf("size=%d/flush=%s/delay=%s/inflight=64", size, flush, level), func(b *testing.B) {
					const count = 64
					r := newRaw(b, map[string]string{"flushDiskType": flush}, count, size, "DELAY", level)
					b.SetBytes(int64(size * count))
					b.ReportAllocs()
					for b.Loop() {
						r.round(b)
					}
					b.ReportMetric(float64(b.N)*count/b.Elapsed().Seconds(), "msgs/s")
				})
			}
		}
	}
}
