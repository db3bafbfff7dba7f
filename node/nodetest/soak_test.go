package nodetest_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
	"ringmq/store/record"
	"ringmq/store/vfs/osfs"
)

const (
	soakTopic  = "Soak"
	soakQueues = 4
)

// soak is a node on a real disk, whose small segments are removed and used again all the time, and clients of all manners.
type soak struct {
	t    *testing.T
	addr string
	seed uint64
	ends [soakQueues]atomic.Int64 // a queue offset that was seen in each

	sent, verified, conns, broken atomic.Int64
}

// TestSoak: producers, consumers that are quick, slow, stuck and cut off, strangers, and a node that is started again and
// again, with its clients gone first or not. Every record that arrives is whole, the one that was asked for, and where it
// belongs, though its segment may have become another one while it waited in a socket. Without clients the node owes and
// holds nothing, and without the node no descriptor, mapping or goroutine is left (the last by TestMain).
//
// RINGMQ_SOAK=10m runs it for so long.
func TestSoak(t *testing.T) {
	span := 20 * time.Second
	if os.Getenv("RINGMQ_PROVE") != "" {
		span = 3 * time.Minute
	}
	if text := os.Getenv("RINGMQ_SOAK"); text != "" {
		var err error
		if span, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	s := &soak{t: t, seed: rand.Uint64()}
	t.Logf("seed %d", s.seed)
	rng := rand.New(rand.NewPCG(s.seed, 0))
	dir := t.TempDir()
	s.round(dir, time.Second, "32768", true) // afterwards the runtime has what it keeps
	http.DefaultClient.CloseIdleConnections()
	files := len(openFiles(t))
	rounds := 1
	for end := time.Now().Add(span); time.Now().Before(end) && !t.Failed(); rounds++ {
		sendfile := []string{"1", "3000", "32768"}[rng.IntN(3)] // by sendfile, by both ways, and as usual
		s.round(dir, min(time.Until(end), time.Second+upTo(rng, 5*time.Second)), sendfile, rounds%2 == 0)
	}
	http.DefaultClient.CloseIdleConnections()
	nodetest.Until(t, "no descriptor is open beside those after the first round", func() bool { return len(openFiles(t)) <= files })
	t.Logf("%d rounds: %d connections, %d messages sent, %d received whole, %d connections broken off", rounds, s.conns.Load(), s.sent.Load(), s.verified.Load(), s.broken.Load())
	if s.sent.Load() == 0 || s.verified.Load() == 0 || s.broken.Load() == 0 {
		t.Error("there was nothing to see")
	}
}

// round is one life of the node.
func (s *soak) round(dir string, span time.Duration, sendfile string, clientsFirst bool) {
	n := nodetest.Start(s.t, nodetest.Setup{FS: osfs.New(osfs.Options{}), RealTime: true, Config: map[string]string{
		"storePathRootDir": dir, "adminListen": "127.0.0.1:0", "mappedFileSizeCommitLog": strconv.Itoa(1 << 20), "mappedFileSizeConsumeQueue": "60000",
		"logRetentionBytes": strconv.Itoa(3 << 20), "cleanResourceInterval": "20", "sendfileMinBytes": sendfile, "defaultTopicQueueNums": strconv.Itoa(soakQueues),
	}})
	s.addr = n.Addr()
	ctx, cancel := context.WithTimeout(s.t.Context(), span)
	defer cancel()
	var clients sync.WaitGroup
	for name, role := range []func(context.Context, *rand.Rand, net.Conn) error{
		s.produce, s.produce, s.produce, s.consume, s.consume, s.consume, s.consumeSlowly, s.consumeSlowly, s.stall, s.stall, s.disturb,
	} {
		clients.Go(func() { s.play(ctx, rand.New(rand.NewPCG(s.seed, uint64(1+name))), role) })
	}
	<-ctx.Done()
	if clientsFirst {
		clients.Wait()
		s.idle("http://" + n.AdminAddr())
	}
	n.Stop()
	clients.Wait()
	for _, name := range openFiles(s.t) {
		if strings.HasPrefix(name, dir) || strings.Contains(name, "io_uring") {
			s.t.Errorf("%s is still open", name)
		}
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range bytes.Lines(maps) {
		if bytes.Contains(line, []byte(dir)) || bytes.Contains(line, []byte("ringmq-mirror")) || bytes.Contains(line, []byte("io_uring")) {
			s.t.Errorf("still mapped: %s", line)
		}
	}
}

// play has a client live its role, on connection after connection, until the round is over.
func (s *soak) play(ctx context.Context, rng *rand.Rand, role func(context.Context, *rand.Rand, net.Conn) error) {
	for ctx.Err() == nil {
		d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
			if rng.IntN(3) > 0 {
				return nil
			}
			return errors.Join(raw.Control(func(fd uintptr) { // a narrow window
				err = errors.Join(
					unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096),
					unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, 536))
			}), err)
		}}
		conn, err := d.DialContext(ctx, "tcp", s.addr)
		if err != nil {
			continue // the node is about to stop
		}
		s.conns.Add(1)
		over := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
		err = role(ctx, rng, conn)
		over()
		if rng.IntN(3) == 0 {
			_ = conn.(*net.TCPConn).SetLinger(0) // a reset: the client was killed
		}
		conn.Close()
		switch {
		case err == nil:
		case errors.Is(err, errWrong):
			s.t.Error(err)
		default:
			s.broken.Add(1) // by the node's end, or the round's
		}
	}
}

// errWrong is what must not happen, whatever else does.
var errWrong = errors.New("wrong")

func (s *soak) produce(_ context.Context, rng *rand.Rand, conn net.Conn) error {
	for range 1 + rng.IntN(300) {
		body := make([]byte, 1+rng.IntN(3000))
		if rng.IntN(20) == 0 {
			body = make([]byte, 1+rng.IntN(200_000))
		}
		for i := range body {
			body[i] = byte(rng.Uint32())
		}
		a, err := s.ask(conn, nodetest.NewRequest(wire.SendMessageV2, nodetest.SendHeader(soakTopic, int32(rng.IntN(soakQueues))), body))
		if err != nil {
			return err
		}
		switch a.Code {
		case wire.Success:
			s.sent.Add(1)
		case wire.SystemBusy, wire.ServiceNotAvailable: // the node stops, or has no room
		default:
			return fmt.Errorf("%w: send: code %d: %s", errWrong, a.Code, a.Remark)
		}
		time.Sleep(upTo(rng, 3*time.Millisecond)) // its pace: the disk is not what is tested
	}
	return nil
}

func (s *soak) consume(_ context.Context, rng *rand.Rand, conn net.Conn) error {
	return s.follow(rng, conn, conn)
}

func (s *soak) consumeSlowly(_ context.Context, rng *rand.Rand, conn net.Conn) error {
	return s.follow(rng, conn, slowReader{conn, rng})
}

// follow pulls from one queue, by chance from its end on, and sometimes leaves in the middle of an answer.
func (s *soak) follow(rng *rand.Rand, conn net.Conn, in io.Reader) error {
	queue := int32(rng.IntN(soakQueues))
	at := int64(0)
	if rng.IntN(2) == 0 {
		at = s.ends[queue].Load()
	}
	for range 1 + rng.IntN(40) {
		if _, err := conn.Write(soakPull(queue, at, 0).Append(nil)); err != nil {
			return err
		}
		if rng.IntN(50) == 0 {
			_, err := io.CopyN(io.Discard, in, int64(rng.IntN(20_000)))
			return err
		}
		var err error
		if at, err = s.take(in, queue, at); err != nil {
			return err
		}
		s.ends[queue].Store(at)
	}
	return nil
}

// stall asks for much at once, reads a little, waits until the segments may be others, and then reads on, or not.
func (s *soak) stall(ctx context.Context, rng *rand.Rand, conn net.Conn) error {
	queue := int32(rng.IntN(soakQueues))
	a, err := s.ask(conn, nodetest.NewRequest(wire.GetMinOffset, &wire.QueueRequest{Topic: soakTopic, QueueID: queue}, nil))
	if err != nil {
		return err
	}
	var h wire.OffsetAnswer
	if err := h.Parse(a); err != nil {
		return err
	}
	pulls := 1 + rng.IntN(30)
	var out []byte
	for range pulls {
		out = soakPull(queue, h.Offset, 0).Append(out)
	}
	if _, err := conn.Write(out); err != nil {
		return err
	}
	select {
	case <-time.After(upTo(rng, 2500*time.Millisecond)):
	case <-ctx.Done():
	}
	if rng.IntN(3) == 0 {
		return nil
	}
	for range pulls {
		if _, err := s.take(conn, queue, h.Offset); err != nil {
			return err
		}
	}
	return nil
}

// disturb sends nothing, part of a request, or what is none.
func (s *soak) disturb(ctx context.Context, rng *rand.Rand, conn net.Conn) error {
	request := soakPull(0, 0, 0).Append(nil)
	switch rng.IntN(3) {
	case 0:
		for i := range request {
			request[i] = byte(rng.Uint32())
		}
	case 1:
		request = request[:rng.IntN(len(request))]
	}
	_, err := conn.Write(request)
	select {
	case <-time.After(upTo(rng, 50*time.Millisecond)):
	case <-ctx.Done():
	}
	return err
}

func soakPull(queue int32, at int64, opaque int32) *wire.Command {
	h := nodetest.PullHeader("soak", soakTopic, queue, at)
	h.SysFlag |= wire.PullSuspend
	h.SuspendTimeoutMillis = 200
	cmd := nodetest.NewRequest(wire.PullMessage, h, nil)
	cmd.Opaque = opaque
	return cmd
}

// ask sends a request and reads its answer.
func (s *soak) ask(conn net.Conn, req *wire.Command) (*wire.Command, error) {
	if _, err := conn.Write(req.Append(nil)); err != nil {
		return nil, err
	}
	return readSoakFrame(conn)
}

func readSoakFrame(in io.Reader) (*wire.Command, error) {
	prefix := make([]byte, 4)
	if _, err := io.ReadFull(in, prefix); err != nil {
		return nil, err
	}
	n, err := wire.FrameBytes(prefix)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errWrong, err)
	}
	frame := append(prefix, make([]byte, n-4)...)
	if _, err := io.ReadFull(in, frame[4:]); err != nil {
		return nil, err
	}
	var a wire.Command
	if err := a.Parse(frame); err != nil {
		return nil, fmt.Errorf("%w: %w", errWrong, err)
	}
	return &a, nil
}

// take reads the answer to a pull at an offset and returns where to go on. Every record is held to its checks.
func (s *soak) take(in io.Reader, queue int32, at int64) (int64, error) {
	a, err := readSoakFrame(in)
	if err != nil {
		return at, err
	}
	switch a.Code {
	case wire.Success, wire.PullNotFound, wire.PullRetryImmediately, wire.PullOffsetMoved:
	case wire.TopicNotExist:
		return at, nil // no message was sent yet
	default:
		return at, fmt.Errorf("%w: pull: code %d: %s", errWrong, a.Code, a.Remark)
	}
	var h wire.PullAnswer
	if err := h.Parse(a); err != nil {
		return at, fmt.Errorf("%w: %w", errWrong, err)
	}
	const physAt = 28 // in a record
	for body, first := a.Body, true; len(body) > 0; first = false {
		if len(body) < physAt+8 {
			return at, fmt.Errorf("%w: %d bytes behind the last record", errWrong, len(body))
		}
		var r record.Record
		if err := record.Verify(body, int64(binary.BigEndian.Uint64(body[physAt:])), &r); err != nil {
			return at, fmt.Errorf("%w: queue %d at %d: %w", errWrong, queue, at, err)
		}
		if first && r.QueueOffset > at {
			at = r.QueueOffset // those before it were removed while the pull looked for them
		}
		if string(r.Topic) != soakTopic || r.QueueID != queue || r.QueueOffset != at {
			return at, fmt.Errorf("%w: %s queue %d at %d came for queue %d at %d", errWrong, r.Topic, r.QueueID, r.QueueOffset, queue, at)
		}
		s.verified.Add(1)
		body = body[r.Size:]
		at++
	}
	return h.NextBeginOffset, nil
}

// slowReader reads little at a time, with pauses.
type slowReader struct {
	net.Conn
	rng *rand.Rand
}

func (r slowReader) Read(p []byte) (int, error) {
	if r.rng.IntN(8) == 0 {
		time.Sleep(upTo(r.rng, 3*time.Millisecond))
	}
	return r.Conn.Read(p[:min(len(p), 1+r.rng.IntN(8000))])
}

// idle waits until a node without clients owes and holds nothing.
func (s *soak) idle(page string) {
	s.t.Helper()
	for _, name := range []string{
		"ringmq_net_connections", "ringmq_net_buffered_in_bytes", "ringmq_net_buffered_out_bytes", "ringmq_net_queued_bytes",
		"ringmq_net_owed_answers", "ringmq_net_held_connections", "ringmq_rpc_pulls_waiting", "ringmq_store_staged_bytes",
	} {
		nodetest.Until(s.t, name+" is 0", func() bool {
			_, text := get(s.t, page+"/metrics")
			found := false
			for line := range strings.Lines(text) {
				if full, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.HasPrefix(full, name+"{") {
					if found = true; value != "0" {
						return false
					}
				}
			}
			if !found {
				s.t.Fatalf("no metric %s", name)
			}
			return true
		})
	}
}

// openFiles are what the process has open, as the kernel names it.
func openFiles(t *testing.T) (names []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if name, err := os.Readlink(link); err == nil { // the one that listed them is gone
			names = append(names, name)
		}
	}
	return names
}

// upTo is a time below d.
func upTo(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(d)))
}
