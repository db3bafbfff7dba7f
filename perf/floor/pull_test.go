package floor

import (
	"bytes"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"ringmq/netio/wire"
	"ringmq/perf/load"
)

// startPull runs a server on a free port until the end of the test.
func startPull(t *testing.T, dir string, l Layout) (addr string) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr = lis.Addr().String()
	lis.Close()
	p, err := NewPull(dir, l)
	if err != nil {
		t.Fatal(err)
	}
	var run sync.WaitGroup
	run.Go(func() {
		if err := p.Run(addr); err != nil {
			t.Error(err)
		}
	})
	<-p.Up()
	t.Cleanup(func() {
		p.Stop()
		run.Wait()
		p.Close()
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("left behind: %v %v", left, err)
		}
	})
	return addr
}

// TestPull: both forms answer a load of pulls, round after round over their queues.
func TestPull(t *testing.T) {
	for _, sendfile := range []bool{false, true} {
		dir := t.TempDir()
		t.Run("run", func(t *testing.T) {
			l := Layout{Queues: 3, Records: 100, RecordBytes: 20_000, Most: 32, Sendfile: sendfile}
			r, err := load.Consume{Plain: true, Addr: startPull(t, dir, l), Conns: 4, Queues: 3, For: time.Second / 4}.Run(t.Context())
			if err != nil || r.Messages == 0 || r.Pulls == 0 || r.Bytes < r.Messages*20_000 || r.P99() <= 0 {
				t.Errorf("sendfile=%v: %+v %v", sendfile, r, err)
			}
		})
	}
}

// TestPullSendsTheRecords: the bytes of an answer are those that were asked for, of more bytes than a socket takes at once.
func TestPullSendsTheRecords(t *testing.T) {
	for _, sendfile := range []bool{false, true} {
		dir := t.TempDir()
		t.Run("run", func(t *testing.T) {
			addr := startPull(t, dir, Layout{Queues: 2, Records: 40, RecordBytes: 100_000, Most: 32, Sendfile: sendfile})
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			for _, at := range []struct{ offset, want int }{{0, 32}, {32, 8}, {39, 1}} {
				var cmd wire.Command
				cmd.Request(wire.PullMessage, 7)
				(&wire.PullRequest{Topic: []byte("T"), QueueID: 1, QueueOffset: int64(at.offset)}).Append(&cmd)
				if _, err := conn.Write(cmd.Append(nil)); err != nil {
					t.Fatal(err)
				}
				prefix := make([]byte, 4)
				if _, err := io.ReadFull(conn, prefix); err != nil {
					t.Fatal(err)
				}
				n, err := wire.FrameBytes(prefix)
				if err != nil {
					t.Fatal(err)
				}
				frame := append(prefix, make([]byte, n-4)...)
				if _, err := io.ReadFull(conn, frame[4:]); err != nil {
					t.Fatal(err)
				}
				var a wire.Command
				var h wire.PullAnswer
				if err := a.Parse(frame); err != nil || a.Opaque != 7 || a.Code != wire.Success {
					t.Fatalf("%+v %v", a, err)
				}
				if err := h.Parse(&a); err != nil || h.NextBeginOffset != int64(at.offset+at.want) || h.MaxOffset != 40 {
					t.Fatalf("%+v %v", h, err)
				}
				var want []byte
				for i := range at.want {
					want = append(want, bytes.Repeat([]byte{recordByte(2*(at.offset+i) + 1)}, 100_000)...)
				}
				if !bytes.Equal(a.Body, want) {
					t.Fatalf("a body of %d bytes is not that of %d records from %d on", len(a.Body), at.want, at.offset)
				}
			}
		})
	}
	if _, err := NewPull(t.TempDir(), Layout{}); err == nil {
		t.Error("a layout of nothing was taken")
	}
}
