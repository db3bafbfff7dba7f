package node_test

import (
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
	"ringmq/store/record"
	"ringmq/store/vfs"
	"ringmq/store/vfs/memfs"
	"ringmq/store/vfs/vfstest"
)

// golden is a directory that a stock broker 5.5.0 has left, on a disk in memory.
func golden(t *testing.T, name string) vfs.FS {
	t.Helper()
	fsys := memfs.New(1)
	vfstest.EachArchived(t, "../store/testdata/golden/"+name+".tar.gz", func(file string, data []byte) {
		vfstest.WriteFile(t, fsys, path.Join("/data", file), data)
	})
	return fsys
}

// startAt starts a node on a stock broker's directory, at a time in ms.
func startAt(t *testing.T, fsys vfs.FS, ms int64) *nodetest.Node {
	t.Helper()
	clock := nodetest.NewClock()
	clock.Step(time.UnixMilli(ms).Sub(clock.Now()))
	return nodetest.Start(t, nodetest.Setup{FS: fsys, Clock: clock, Config: map[string]string{
		"mappedFileSizeCommitLog": "131072", "maxHashSlotNum": "100", "maxIndexNum": "400", "recordCheck": "off",
	}})
}

// upTo moves the clock to a time in ms.
func upTo(n *nodetest.Node, ms int64) { n.Clock.Advance(time.UnixMilli(ms).Sub(n.Clock.Now())) }

// wait pulls until a queue has so many messages from an offset on.
func wait(t *testing.T, c *nodetest.Client, name string, queue int32, from int64, count int) (records []record.Record) {
	t.Helper()
	nodetest.Until(t, fmt.Sprintf("%d messages in %s/%d from %d on", count, name, queue, from), func() bool {
		records = pullAll(c, name, queue, from)
		return len(records) >= count
	})
	return records
}

// pullAll pulls everything that a queue has from an offset on.
func pullAll(c *nodetest.Client, name string, queue int32, from int64) (all []record.Record) {
	for {
		records, _ := c.Pull("G", name, queue, from)
		if len(records) == 0 {
			return all
		}
		all = append(all, records...)
		from = records[len(records)-1].QueueOffset + 1
	}
}

// bodiesOf returns the bodies that a queue has from an offset on.
func bodiesOf(c *nodetest.Client, name string, queue int32, from int64) (all []string) {
	for _, r := range pullAll(c, name, queue, from) {
		all = append(all, string(r.Body))
	}
	return all
}

// TestGoldenDelay: what waited on a stock broker when it was stopped is delivered at its time, each once, and what it
// had delivered is not delivered again.
func TestGoldenDelay(t *testing.T) {
	fsys := golden(t, "delay")
	const stopped = 1796008487000
	n := startAt(t, fsys, stopped)
	c := n.Client()
	if ans := c.Ask(wire.GetAllDelayOffset, nil, nil); ans.Code != wire.Success || !strings.Contains(string(ans.Body), `"offsetTable":{"1":2,"14":0,"18":0,"2":2,"3":1,"4":0,"5":0}`) || !strings.Contains(string(ans.Body), `"dataVersion":{`) {
		t.Errorf("offsets of the levels: %d %s", ans.Code, ans.Body)
	}
	due := []struct {
		ms    int64
		queue int32
		from  int64
		body  string
	}{
		{1796008502479, 0, 3, "level and timer"},
		{1796008532370, 1, 5, "level 5"},
		{1796009072379, 0, 4, "level 14"},
		{1796015672389, 0, 5, "level 18"},
		{1796015672408, 1, 6, "level 19"},
		{1796015672414, 1, 7, "level 99"},
	}
	for _, d := range due {
		upTo(n, d.ms)
		if got := bodiesOf(c, "DelayT", d.queue, d.from); len(got) != 0 {
			t.Errorf("at %d: %q is there too early", d.ms, got)
		}
		upTo(n, d.ms+1)
		r := wait(t, c, "DelayT", d.queue, d.from, 1)
		if len(r) != 1 || string(r[0].Body) != d.body || r[0].QueueOffset != d.from {
			t.Errorf("at %d: %+v, want %q", d.ms+1, r, d.body)
		}
	}
	n.Stop()
	offsets := string(vfstest.ReadFile(t, fsys, "/data/config/delayOffset.json"))
	for _, want := range []string{`"1": 2`, `"2": 2`, `"3": 1`, `"4": 1`, `"5": 1`, `"14": 1`, `"18": 3`} {
		if !strings.Contains(offsets, want) {
			t.Errorf("%s is not in %s", want, offsets)
		}
	}
	n = startAt(t, fsys, due[len(due)-1].ms+1000)
	c = n.Client()
	c.Send("DelayT", 0, "end")
	upTo(n, due[len(due)-1].ms+10_000)
	if got := bodiesOf(c, "DelayT", 0, 3); !slices.Equal(got, []string{"level and timer", "level 14", "level 18", "end"}) {
		t.Errorf("after a restart queue 0 has %q", got)
	}
	if got := bodiesOf(c, "DelayT", 1, 5); !slices.Equal(got, []string{"level 5", "level 19", "level 99"}) {
		t.Errorf("after a restart queue 1 has %q", got)
	}
}

// TestGoldenRetry: a message that a stock broker has sent round goes on from there: tries, first topic and id are
// those that it wrote.
func TestGoldenRetry(t *testing.T) {
	n := startAt(t, golden(t, "retry"), 1796008695000)
	c := n.Client()
	records, _ := c.Pull("GID_retry", "%RETRY%GID_retry", 0, 3)
	if len(records) != 2 {
		t.Fatalf("%d records", len(records))
	}
	r := records[0] // r0, tried twice
	c.Must(wire.ConsumerSendMsgBack, &wire.SendBackRequest{Offset: r.PhysOffset, Group: []byte("GID_retry"), DelayLevel: 1, MaxReconsumeTimes: 16}, nil)
	n.Clock.Advance(time.Second + time.Millisecond)
	got := wait(t, c, "%RETRY%GID_retry", 0, 5, 1)[0]
	topic, _ := record.Prop(got.Props, "RETRY_TOPIC")
	id, _ := record.Prop(got.Props, "ORIGIN_MESSAGE_ID")
	if got.ReconsumeTimes != 3 || string(topic) != "RetryT" || string(id) != "7F0000010000EDEF0000000000000000" {
		t.Errorf("%+v of %s, %s", got, topic, id)
	}
	if got := bodiesOf(c, "%DLQ%GID_retry", 0, 0); len(got) != 3 {
		t.Errorf("dead letters: %q", got)
	}
}

// TestDelaysAcrossRestarts: what waits goes on waiting over clean stops, and comes once; metrics tell how much that is.
func TestDelaysAcrossRestarts(t *testing.T) {
	for _, flush := range []string{"SYNC_FLUSH", "ASYNC_FLUSH"} {
		t.Run(flush, func(t *testing.T) {
			setup := nodetest.Setup{FS: memfs.New(1), Clock: nodetest.NewClock(), Config: map[string]string{
				"flushDiskType": flush, "messageDelayLevel": "2s 1m", "adminListen": "127.0.0.1:0",
			}}
			n := nodetest.Start(t, setup)
			c := n.Client()
			for i, level := range []string{"1", "1", "2", "9"} {
				h := nodetest.SendHeader("T", 0)
				h.Properties = record.AppendProp(nil, "DELAY", level)
				c.Must(wire.SendMessageV2, h, []byte(fmt.Sprint(i)))
			}
			page := func(want string) {
				t.Helper()
				nodetest.Until(t, want, func() bool {
					ans, err := http.Get("http://" + n.AdminAddr() + "/metrics")
					if err != nil {
						t.Fatal(err)
					}
					defer ans.Body.Close()
					b, err := io.ReadAll(ans.Body)
					return err == nil && strings.Contains(string(b), want)
				})
			}
			labels := fmt.Sprintf(`{cluster=%q,node_type="broker",node_id="b"}`, "DefaultCluster")
			page("ringmq_delay_pending" + labels + " 4")
			n.Clock.Advance(2*time.Second + time.Millisecond)
			wait(t, c, "T", 0, 0, 2)
			page("ringmq_delay_delivered_total" + labels + " 2")
			n.Stop()

			n = nodetest.Start(t, setup)
			c = n.Client()
			n.Clock.Advance(58*time.Second - time.Millisecond)
			c.Send("T", 0, "plain")
			n.Clock.Advance(time.Millisecond)
			wait(t, c, "T", 0, 0, 5)
			page("ringmq_delay_pending" + labels + " 0")
			n.Stop()

			n = nodetest.Start(t, setup)
			n.Clock.Advance(time.Hour)
			if got := bodiesOf(n.Client(), "T", 0, 0); !slices.Equal(got, []string{"0", "1", "plain", "2", "3"}) {
				t.Errorf("queue: %q", got)
			}
		})
	}
}
