package rpc_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
	"ringmq/store/vfs/faultfs"
	"ringmq/store/vfs/memfs"
)

// coldNode is a node whose messages in queues 0 and 1 of T, about 2 MiB, are not in memory.
type coldNode struct {
	*nodetest.Node
	disk *faultfs.FS
	sent [2]int64 // messages of each queue
}

const firstSegment = "00000000000000000000"

func startCold(t *testing.T) *coldNode {
	t.Helper()
	n := &coldNode{disk: faultfs.Wrap(memfs.New(1))}
	n.Node = nodetest.Start(t, nodetest.Setup{FS: n.disk, Config: map[string]string{"enablePropertyFilter": "true"}})
	c := n.Client()
	for i := range 300 {
		h := nodetest.SendHeader("T", int32(i%2))
		h.Properties = props("price", fmt.Sprint(i), "TAGS", []string{"a", "b", "c"}[i%3])
		c.Must(wire.SendMessageV2, h, bytes.Repeat([]byte{byte(i)}, 100*(1+i%150)))
		n.sent[i%2]++
	}
	n.disk.SetCold(true)
	return n
}

// gate holds the reads of the first segment until open; begun is closed with the first.
func (n *coldNode) gate(t *testing.T) (begun <-chan struct{}, open func()) {
	in, out := make(chan struct{}), make(chan struct{})
	var first, last sync.Once
	open = func() { last.Do(func() { close(out) }) }
	t.Cleanup(open) // before the node stops
	n.disk.SetReads(func(name string, _ int64, _ int) error {
		if strings.HasSuffix(name, firstSegment) {
			first.Do(func() { close(in) })
			<-out
		}
		return nil
	})
	return in, open
}

// TestColdPulls: pulls of what is not in memory are answered as those of what is, byte for byte, by tags, by properties and
// without; most of them by what was read before anybody asked.
func TestColdPulls(t *testing.T) {
	n := startCold(t)
	c := n.Client()
	var pulls int
	var asked, waited int64
	walk := func(h *wire.PullRequest) (all []string) {
		for h.QueueOffset = 0; ; pulls++ {
			ans := c.Ask(wire.PullMessage, h, nil)
			p := pullAnswer(t, ans)
			all = append(all, fmt.Sprint(ans.Code, string(ans.Remark), p.NextBeginOffset, p.MinOffset, p.MaxOffset, len(ans.Body)), string(ans.Body))
			if ans.Code == wire.PullNotFound {
				return all
			}
			h.QueueOffset = p.NextBeginOffset
		}
	}
	for name, change := range map[string]func(*wire.PullRequest){
		"all": func(*wire.PullRequest) {},
		"tag": func(h *wire.PullRequest) { h.Subscription = []byte("b") },
		"sql": func(h *wire.PullRequest) {
			h.ExpressionType, h.Subscription = []byte("SQL92"), []byte("price BETWEEN 50 AND 250")
		},
		"one": func(h *wire.PullRequest) { h.MaxMsgNums = 1 },
	} {
		for queue := range int32(2) {
			h := nodetest.PullHeader("G", "T", queue, 0)
			change(h)
			n.disk.SetCold(false)
			hot := walk(h)
			n.disk.SetCold(true)
			pulls = 0
			before := n.Stats().Cold
			cold := walk(h)
			asked += int64(pulls)
			waited += n.Stats().Cold - before
			if len(hot) < 3 || !slices.Equal(cold, hot) {
				t.Errorf("%s: %d cold answers differ from %d hot ones", name, len(cold)/2, len(hot)/2)
			}
		}
	}
	if waited == 0 || waited > asked/2 {
		t.Errorf("%d of %d pulls waited for the disk", waited, asked)
	}
}

// TestColdReadFails: where the disk cannot be read the pull fails and says where; other pulls go on.
func TestColdReadFails(t *testing.T) {
	n := startCold(t)
	n.disk.SetReads(func(name string, _ int64, _ int) error {
		if strings.HasSuffix(name, firstSegment) {
			return unix.EIO
		}
		return nil
	})
	c := n.Client()
	if _, ans := c.Pull("G", "T", 0, 0); ans.Code != wire.SystemError || !strings.Contains(string(ans.Remark), "input/output error") {
		t.Errorf("answered %d %q", ans.Code, ans.Remark)
	}
	if got, ans := c.Pull("G", "T", 0, n.sent[0]-1); len(got) != 1 {
		t.Errorf("a message of another file: %d %q", ans.Code, ans.Remark)
	}
	n.disk.SetReads(nil)
	if got, ans := c.Pull("G", "T", 0, 0); len(got) == 0 {
		t.Errorf("once the disk reads again: %d %q", ans.Code, ans.Remark)
	}
}

// TestColdHoarder: a consumer whose many pulls hang on the disk holds up neither the loop nor the cold pulls of others, and what
// is beyond its share is refused.
func TestColdHoarder(t *testing.T) {
	n := startCold(t)
	begun, open := n.gate(t)
	hoarder, other := n.Client(), n.Client()
	var answers sync.WaitGroup
	answered := make(chan wire.Code, 300)
	pull := nodetest.PullHeader("G", "T", 0, 0)
	for range 300 {
		answers.Go(func() {
			ans, err := hoarder.Try(nodetest.NewRequest(wire.PullMessage, pull, nil))
			if err != nil {
				t.Error(err)
				return
			}
			answered <- ans.Code
		})
	}
	<-begun
	nodetest.Until(t, "the share is used up", func() bool { return n.Stats().Overloaded == 300-256 })
	for range 3 {
		if got, ans := other.Pull("G", "T", 1, n.sent[1]-2); len(got) != 2 {
			t.Fatalf("another's cold pull: %d %q", ans.Code, ans.Remark)
		}
		other.Send("T", 2, "x")
	}
	open()
	answers.Wait()
	close(answered)
	codes := map[wire.Code]int{}
	for code := range answered {
		codes[code]++
	}
	if codes[wire.Success] != 256 || codes[wire.SystemBusy] != 300-256 {
		t.Errorf("answers by code: %v", codes)
	}
}

// TestColdPeersLeave: of two whose pulls wait for the disk one closes and one ends its side only. The latter gets its answer, the
// former takes nothing with it, and a node that stops at that moment finishes what it owes.
func TestColdPeersLeave(t *testing.T) {
	n := startCold(t)
	begun, open := n.gate(t)
	dial := func() *net.TCPConn {
		conn, err := net.Dial("tcp", n.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := conn.Write(nodetest.NewRequest(wire.PullMessage, nodetest.PullHeader("G", "T", 0, 0), nil).Append(nil)); err != nil {
			t.Fatal(err)
		}
		return conn.(*net.TCPConn)
	}
	n.Client().Pull("G", "T", 3, 0) // makes the group
	gone, half := dial(), dial()
	<-begun
	nodetest.Until(t, "both pulls wait", func() bool { return n.Stats().Cold == 2 })
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	if err := half.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() {
		n.Stop()
		close(stopped)
	}()
	open()
	<-stopped
	b, err := io.ReadAll(half)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) == 0 {
		return // the node stopped before the peer's end was seen: connections are ended then
	}
	var ans wire.Command
	if err := ans.Parse(b); err != nil || ans.Code != wire.Success || len(nodetest.Records(t, ans.Body)) == 0 {
		t.Errorf("answered %d %q, %v", ans.Code, ans.Remark, err)
	}
}

// TestColdHalfClosed: a peer that ends its side behind a pull of what is not in memory gets its answer.
func TestColdHalfClosed(t *testing.T) {
	n := startCold(t)
	n.Client().Pull("G", "T", 3, 0) // makes the group
	begun, open := n.gate(t)
	conn, err := net.Dial("tcp", n.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(nodetest.NewRequest(wire.PullMessage, nodetest.PullHeader("G", "T", 0, 0), nil).Append(nil)); err != nil {
		t.Fatal(err)
	}
	<-begun
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	open()
	b, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	var ans wire.Command
	if err := ans.Parse(b); err != nil || ans.Code != wire.Success || len(nodetest.Records(t, ans.Body)) == 0 {
		t.Errorf("answered %d %q, %v", ans.Code, ans.Remark, err)
	}
}

// TestPullLimitsBehind: how many messages one pull gets in the newest part of the log, which is 40 % of the memory, and farther back,
// with the stock broker's defaults and with its keys. The first message comes in any case.
func TestPullLimitsBehind(t *testing.T) {
	keys := map[string]string{
		"maxTransferCountOnMessageInMemory": "7", "maxTransferBytesOnMessageInMemory": "6000",
		"maxTransferCountOnMessageInDisk": "2", "maxTransferBytesOnMessageInDisk": "2500",
	}
	for _, tc := range []struct {
		name           string
		config         map[string]string
		body, messages int // more than the memory, 200,000 bytes
		behind, newest int // messages in a pull
	}{
		{"counts", nil, 900, 400, 8, 32},
		{"bytes", nil, 15_000, 27, 4, 5}, // five are in memory
		{"counts by keys", keys, 100, 1600, 2, 7},
		{"bytes by keys", keys, 900, 400, 2, 5},
		{"large ones", keys, 15_000, 27, 1, 1},
		{"more memory", map[string]string{"accessMessageInMemoryMaxRatio": "80"}, 900, 400, 8, 32},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := nodetest.Start(t, nodetest.Setup{MemoryBytes: 200_000, Config: tc.config}).Client()
			body := strings.Repeat("x", tc.body)
			for range tc.messages {
				c.Send("T", 0, body)
			}
			inBetween := tc.behind // 30 % from the end of some 450,000 bytes
			if tc.name == "more memory" {
				inBetween = tc.newest
			}
			for from, want := range map[int]int{0: tc.behind, tc.messages * 7 / 10: inBetween, tc.messages - tc.newest: tc.newest} {
				if got, ans := c.Pull("G", "T", 0, int64(from)); len(got) != want {
					t.Errorf("at %d of %d: %d messages, want %d (%d %s)", from, tc.messages, len(got), want, ans.Code, ans.Remark)
				}
			}
		})
	}
}
