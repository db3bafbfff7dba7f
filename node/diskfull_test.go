package node_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
	"ringmq/store/vfs/faultfs"
	"ringmq/store/vfs/memfs"
)

// get fetches one of the node's pages.
func get(t *testing.T, n *nodetest.Node, page string) (status int, body string) {
	t.Helper()
	res, err := http.Get("http://" + n.AdminAddr() + "/" + page)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// metric is what the page of metrics says.
func metric(t *testing.T, n *nodetest.Node, name string) (value string) {
	t.Helper()
	_, body := get(t, n, "metrics")
	for line := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(line, name+"{"); ok {
			return strings.TrimSpace(rest[strings.IndexByte(rest, '}')+1:])
		}
	}
	t.Fatalf("no metric %s", name)
	return ""
}

// TestDiskLevels: on a disk that is too full sends are refused with 14 and the reason, reads go on, health tells of
// it without turning red, and sends are taken again without a restart.
func TestDiskLevels(t *testing.T) {
	disk := memfs.New(1)
	n := nodetest.Start(t, nodetest.Setup{FS: disk, Config: map[string]string{"adminListen": "127.0.0.1:0", "cleanResourceInterval": "1000"}})
	c := n.Client()
	c.Send("T", 0, "first")
	free, total, _ := disk.Space("/data")
	used := total - free
	ask := func() *wire.Command {
		n.Clock.Advance(time.Second)
		return c.Ask(wire.SendMessageV2, nodetest.SendHeader("T", 0), []byte("x"))
	}
	disk.SetSpace(used + used/20)
	nodetest.Until(t, "sends are refused", func() bool { return ask().Code != wire.Success })
	if ans := ask(); ans.Code != wire.ServiceNotAvailable || !strings.Contains(string(ans.Remark), "messages are refused from 90 % on") {
		t.Errorf("refused with %d: %s", ans.Code, ans.Remark)
	}
	if records, _ := c.Pull("G", "T", 0, 0); len(records) == 0 || string(records[0].Body) != "first" {
		t.Errorf("%d messages can be read", len(records))
	}
	for _, page := range []string{"healthz", "readyz"} {
		if status, body := get(t, n, page); status != http.StatusOK || !strings.Contains(body, "messages are refused") {
			t.Errorf("%s: %d %s", page, status, body)
		}
	}
	if got := metric(t, n, "ringmq_store_refusing"); got != "1" {
		t.Errorf("the metric says %s", got)
	}
	disk.SetSpace(0)
	nodetest.Until(t, "sends are taken again", func() bool { return ask().Code == wire.Success })
	if status, body := get(t, n, "healthz"); status != http.StatusOK || body != "ok\n" {
		t.Errorf("healthz: %d %s", status, body)
	}
}

// TestOldMessagesGo: consumers that ask for what is gone are told where the queue begins.
func TestOldMessagesGo(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{Config: map[string]string{
		"adminListen": "127.0.0.1:0", "mappedFileSizeCommitLog": "65536", "logRetentionBytes": "200000",
		"cleanResourceInterval": "1000", "deleteCommitLogFilesInterval": "0", "flushIntervalConsumeQueue": "1",
	}})
	c := n.Client()
	sent := 0
	nodetest.Until(t, "the first message is gone", func() bool {
		c.Send("T", 0, strings.Repeat("x", 30_000))
		sent++
		n.Clock.Advance(60 * time.Second)
		_, ans := c.Pull("G", "T", 0, 0)
		return ans.Code == wire.PullOffsetMoved
	})
	_, ans := c.Pull("G", "T", 0, 0)
	var h wire.PullAnswer
	if err := h.Parse(ans); err != nil {
		t.Fatal(err)
	}
	if h.MinOffset <= 0 || h.NextBeginOffset != h.MinOffset || h.MaxOffset != int64(sent) {
		t.Errorf("after %d messages: %+v", sent, h)
	}
	if records, _ := c.Pull("G", "T", 0, h.MinOffset); len(records) == 0 || records[0].QueueOffset != h.MinOffset {
		t.Errorf("%d messages from the first offset on", len(records))
	}
	if got := metric(t, n, "ringmq_store_removed_segments_total"); got == "0" {
		t.Error("the metric counts no removed file")
	}
}

// TestFullDisk: when there is no room for the next file of the log, sends get 14, reads go on, and sends are taken
// again by themselves.
func TestFullDisk(t *testing.T) {
	disk := memfs.New(1)
	n := nodetest.Start(t, nodetest.Setup{FS: disk, Config: map[string]string{
		"mappedFileSizeCommitLog": "65536", "diskMaxUsedSpaceRatio": "100", "diskSpaceCleanForciblyRatio": "100", "diskSpaceWarningLevelRatio": "100",
	}})
	c := n.Client()
	c.Send("T", 0, "first")
	c.Pull("G", "T", 0, 0) // the group is known from now on
	free, total, _ := disk.Space("/data")
	disk.SetSpace(total - free)
	ask := func() *wire.Command {
		return c.Ask(wire.SendMessageV2, nodetest.SendHeader("T", 0), []byte(strings.Repeat("x", 20_000)))
	}
	acked, code := 1, wire.Success
	for {
		if code = ask().Code; code != wire.Success && code != wire.SystemBusy {
			break
		} else if code == wire.Success {
			acked++
		}
	}
	if code != wire.ServiceNotAvailable {
		t.Errorf("refused with %v", code)
	}
	if status := n.Err(); status != nil {
		t.Errorf("health: %v", status)
	}
	read := 0
	for read < acked {
		records, ans := c.Pull("G", "T", 0, int64(read))
		if len(records) == 0 {
			t.Fatalf("%d of %d acknowledged messages can be read: %d", read, acked, ans.Code)
		}
		read += len(records)
	}
	disk.SetSpace(0)
	nodetest.Until(t, "sends are taken again", func() bool { return ask().Code == wire.Success })
}

// TestStartOnFullDisk: a node starts without a free block, answers pulls, and refuses sends until there is room.
func TestStartOnFullDisk(t *testing.T) {
	disk := memfs.New(1)
	setup := nodetest.Setup{FS: disk, Config: map[string]string{"cleanResourceInterval": "1000"}}
	n := nodetest.Start(t, setup)
	c := n.Client()
	c.Send("T", 0, "first")
	c.Pull("G", "T", 0, 0) // the group is known from now on
	n.Stop()
	disk.SetSpace(1)
	n = nodetest.Start(t, setup)
	c = n.Client()
	if records, ans := c.Pull("G", "T", 0, 0); len(records) != 1 {
		t.Errorf("%d messages were read: %d", len(records), ans.Code)
	}
	ask := func() wire.Code {
		n.Clock.Advance(time.Second)
		return c.Ask(wire.SendMessageV2, nodetest.SendHeader("T", 0), []byte("x")).Code
	}
	nodetest.Until(t, "sends are refused", func() bool { return ask() == wire.ServiceNotAvailable })
	disk.SetSpace(0)
	nodetest.Until(t, "sends are taken", func() bool { return ask() == wire.Success })
}

// TestFailedWrite: a write of the log that fails is as final as a flush that does.
func TestFailedWrite(t *testing.T) {
	power := faultfs.Wrap(memfs.New(1))
	n := nodetest.Start(t, nodetest.Setup{FS: power, Config: map[string]string{
		"adminListen": "127.0.0.1:0", "flushIntervalConsumeQueue": fmt.Sprint(time.Hour.Milliseconds()),
	}})
	c := n.Client()
	c.Send("T", 0, "safe")
	c.Pull("G", "T", 0, 0) // the group is known from now on
	power.FailIn("/commitlog/", 0, 8, syscall.EIO)
	for i := range 2 {
		if ans := c.Ask(wire.SendMessageV2, nodetest.SendHeader("T", 0), []byte("lost")); ans.Code != wire.ServiceNotAvailable {
			t.Errorf("send %d: %v %s", i, ans.Code, ans.Remark)
		}
	}
	if records, _ := c.Pull("G", "T", 0, 0); len(records) != 1 || string(records[0].Body) != "safe" {
		t.Errorf("%d messages can be read, want the one that is safe", len(records))
	}
	if status, _ := get(t, n, "healthz"); status != http.StatusServiceUnavailable {
		t.Errorf("health: %d", status)
	}
	if got := metric(t, n, "ringmq_store_refusing"); got != "1" {
		t.Errorf("the metric says %s", got)
	}
	nodetest.Until(t, "the route loses the write permission", func() bool {
		return route(t, n, "T").QueueDatas[0].Perm == 4
	})
	n.Kill()
}
