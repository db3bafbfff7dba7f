package floor

import (
	"bytes"
	"context"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"ringmq/netio/wire"
	"ringmq/perf/load"
)

// start runs a server on a free port until the end of the test.
func start(t *testing.T, dir string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr = l.Addr().String()
	l.Close()
	s, err := NewServer(dir, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var run sync.WaitGroup
	run.Go(func() {
		if err := s.Run(addr, 2); err != nil {
			t.Error(err)
		}
	})
	<-s.Up()
	t.Cleanup(func() {
		s.Stop()
		run.Wait()
	})
	return addr
}

// TestServer: both forms answer every request of a load, each with its own opaque, and leave no file.
func TestServer(t *testing.T) {
	dir := t.TempDir()
	t.Run("run", func(t *testing.T) {
		for _, d := range []string{"", dir} {
			addr := start(t, d)
			r, err := load.Send{Addr: addr, Conns: 3, InFlight: 4, Bytes: 100, For: time.Second}.Run(context.Background())
			if err != nil || r.OK == 0 || len(r.Refused) > 0 || r.P99() < r.P50() || r.P50() <= 0 {
				t.Errorf("dir=%q: %+v %v", d, r, err)
			}
		}
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// TestAnswerFrames: whole frames are answered in order, half ones wait, broken ones are told.
func TestAnswerFrames(t *testing.T) {
	var in []byte
	for i := range 3 {
		var cmd wire.Command
		cmd.Request(wire.SendMessageV2, int32(1000+i))
		cmd.Set("topic", "T")
		cmd.Body = bytes.Repeat([]byte("x"), i*100)
		in = cmd.Append(in)
	}
	n, out, err := answerFrames(in[:len(in)-1])
	if err != nil || n == 0 || n >= len(in)-200 {
		t.Fatalf("%d of %d bytes, %v", n, len(in), err)
	}
	for i := range 2 {
		size, err := wire.FrameBytes(out)
		if err != nil {
			t.Fatal(err)
		}
		var a wire.Command
		if err := a.Parse(out[:size]); err != nil || a.Opaque != int32(1000+i) || a.Code != wire.Success || !a.IsAnswer() {
			t.Errorf("answer %d: %+v %v", i, a, err)
		}
		out = out[size:]
	}
	if len(out) != 0 {
		t.Errorf("%d bytes more", len(out))
	}
	for _, bad := range []string{"\xff\xff\xff\xff\x00\x00\x00\x00", "\x00\x00\x00\x06\x00\x00\x00\x09ab", "\x00\x00\x00\x06\x00\x00\x00\x02{}"} {
		if _, _, err := answerFrames([]byte(bad)); err == nil {
			t.Errorf("%q was answered", bad)
		}
	}
}
