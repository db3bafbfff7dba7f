package topic

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ringmq/netio/wire"
	"ringmq/store/sidefile"
	"ringmq/store/vfs"
	"ringmq/store/vfs/faultfs"
	"ringmq/store/vfs/memfs"
)

const path = "/topics.json"

func options() Options {
	return Options{
		System: SystemOptions{
			Broker: "broker-a", Cluster: "DefaultCluster", DefaultQueues: 8, ReviveQueues: 8,
			AutoCreate: true, ClusterTopic: true, BrokerTopic: true, Timer: true,
		},
		Now: func() time.Time { return time.UnixMilli(1_700_000_000_000) },
	}
}

func open(t testing.TB, fsys vfs.FS, o Options) *Table {
	t.Helper()
	tab, err := Load(fsys, path, o)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// disk returns a file system that holds data as topics.json.
func disk(t testing.TB, data []byte) *memfs.FS {
	t.Helper()
	d := memfs.New(1)
	if err := sidefile.Write(d, path, data); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSystemTopicsOfAnEmptyBroker(t *testing.T) {
	tab := open(t, memfs.New(1), options())
	all, _ := tab.Snapshot()
	var got []string
	for name, c := range all {
		got = append(got, fmt.Sprintf("%s %d/%d %v", name, c.ReadQueues, c.WriteQueues, c.Perm))
	}
	slices.Sort(got)
	want := []string{
		"BenchmarkTest 1024/1024 RW-", "DefaultCluster 16/16 RWX", "DefaultCluster_REPLY_TOPIC 1/1 RW-",
		"OFFSET_MOVED_EVENT 1/1 RW-", "RMQ_SYS_TRANS_HALF_TOPIC 1/1 RW-", "RMQ_SYS_TRANS_OP_HALF_TOPIC 1/1 RW-",
		"SCHEDULE_TOPIC_XXXX 18/18 RW-", "SELF_TEST_TOPIC 1/1 RW-", "TBW102 8/8 RWX", "broker-a 1/1 RWX",
		"rmq_sys_REVIVE_LOG_DefaultCluster 8/8 RW-", "rmq_sys_SYNC_BROKER_MEMBER_broker-a 1/1 --X", "rmq_sys_wheel_timer 1/1 RW-",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, name := range []string{"broker-a", "DefaultCluster_REPLY_TOPIC", "TBW102", "rmq_sys_anything"} {
		if !tab.IsSystem(name) {
			t.Errorf("%s is no system topic", name)
		}
	}
	if tab.IsSystem("TopicTest") {
		t.Error("TopicTest is a system topic")
	}
}

func TestSystemTopicsBySwitch(t *testing.T) {
	o := options()
	o.System.AutoCreate, o.System.ClusterTopic, o.System.BrokerTopic, o.System.Timer = false, false, false, false
	o.System.Trace = "RMQ_SYS_TRACE_TOPIC"
	tab := open(t, memfs.New(1), o)
	for name, want := range map[string]string{
		"TBW102": "missing", "rmq_sys_wheel_timer": "missing", "RMQ_SYS_TRACE_TOPIC": "RW-", "DefaultCluster": "--X", "broker-a": "--X",
	} {
		got := "missing"
		if c := tab.Get([]byte(name)); c != nil {
			got = c.Perm.String()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestStockFiles opens files that a stock broker wrote, changes them, and reads what was written as strictly
// as a JSON parser can.
func TestStockFiles(t *testing.T) {
	for _, name := range []string{"plain", "pop", "tx"} {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile("testdata/" + name + ".topics.json")
			if err != nil {
				t.Fatal(err)
			}
			var stock struct {
				DataVersion wire.DataVersion
				Topics      map[string]map[string]any `json:"topicConfigTable"`
			}
			if err := json.Unmarshal(data, &stock); err != nil {
				t.Fatal(err)
			}
			d := disk(t, data)
			tab := open(t, d, options())
			if err := tab.Put(simple("Added", 2, PermRead)); err != nil {
				t.Fatal(err)
			}
			if _, v := tab.Snapshot(); v.Counter <= stock.DataVersion.Counter {
				t.Errorf("version %+v after %+v", v, stock.DataVersion)
			}
			written, _, err := sidefile.Read(d, path, func([]byte) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			var ours struct {
				Topics map[string]map[string]any `json:"topicConfigTable"`
			}
			if err := json.Unmarshal(written, &ours); err != nil {
				t.Fatal(err)
			}
			for topic, want := range stock.Topics {
				if got := ours.Topics[topic]; fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s: %v, stock has %v", topic, got, want)
				}
			}
			if ours.Topics["Added"] == nil || !strings.HasPrefix(string(written), "{\n\t\"dataVersion\":") {
				t.Errorf("written:\n%s", written)
			}
		})
	}
}

func TestMembersThatAreMissing(t *testing.T) {
	tab := open(t, disk(t, []byte(`{topicConfigTable:{"T":{"topicName":"T"}, 'U':null,},}`)), options())
	c := tab.Get([]byte("T"))
	if c == nil || c.ReadQueues != 16 || c.WriteQueues != 16 || c.Perm != 6 || c.FilterType != SingleTag || c.Attributes == nil {
		t.Errorf("T: %+v, want what Java starts with", c)
	}
	if tab.Get([]byte("U")) != nil {
		t.Error("U is there")
	}
}

// A stock broker that runs with autoCreateTopicEnable=false takes the inherit bit off its template for good;
// topics could then not be created any more after the setting was taken back.
func TestTemplateLeftWithoutInherit(t *testing.T) {
	data := []byte(`{"topicConfigTable":{"TBW102":{"topicName":"TBW102","perm":6,"readQueueNums":4,"writeQueueNums":4}}}`)
	tab := open(t, disk(t, data), options())
	if c := tab.Get([]byte(Default)); c.Perm != 7 || c.WriteQueues != 4 {
		t.Errorf("template: %+v", c)
	}
	off := options()
	off.System.AutoCreate = false
	if c := open(t, disk(t, data), off).Get([]byte(Default)); c.Perm != 6 {
		t.Errorf("template with auto creation off: %+v", c)
	}
}

func TestAutoCreate(t *testing.T) {
	tab := open(t, memfs.New(1), options())
	for _, w := range []struct {
		name, template string
		want           int32
		unit           bool
		queues         int32
		sysFlag        int32
		err            error
	}{
		{"A", Default, 4, false, 4, 0, nil},
		{"B", Default, 100, false, 8, 0, nil},
		{"C", Default, -3, false, 0, 0, nil},
		{"D", "DefaultCluster", 100, true, 16, FlagUnit, nil},
		{"E", "nobody", 4, false, 0, 0, ErrNoTemplate},
		{"F", "BenchmarkTest", 4, false, 0, 0, ErrNotInheritable},
		{"A", "nobody", 1, false, 4, 0, nil}, // it exists already
	} {
		c, err := tab.AutoCreate(w.name, w.template, w.want, w.unit)
		if !errors.Is(err, w.err) {
			t.Errorf("%+v: %v", w, err)
			continue
		}
		if w.err != nil {
			continue
		}
		if c.ReadQueues != w.queues || c.WriteQueues != w.queues || c.Perm != 6 || c.SysFlag != w.sysFlag || tab.Get([]byte(w.name)) != c {
			t.Errorf("%+v: %+v", w, c)
		}
	}
	for _, bad := range []string{"", "../x", "a/b", "a\x00b", strings.Repeat("a", 128), "%RETRY%../"} {
		if c, err := tab.AutoCreate(bad, Default, 4, false); err == nil {
			t.Errorf("%q was created: %+v", bad, c)
		}
	}
}

// A stock broker that refuses an auto-creation changes its template by it. Here a refusal changes nothing.
func TestAutoCreateOffHasNoSideEffect(t *testing.T) {
	o := options()
	o.System.AutoCreate = false
	tab := open(t, disk(t, []byte(`{"topicConfigTable":{"TBW102":{"perm":7}}}`)), o)
	before, version := tab.Snapshot()
	if _, err := tab.AutoCreate("A", Default, 4, false); !errors.Is(err, ErrNotInheritable) {
		t.Fatalf("AutoCreate: %v", err)
	}
	if after, v := tab.Snapshot(); len(after) != len(before) || after[Default] != before[Default] || v != version {
		t.Errorf("the refusal changed the table")
	}
}

func TestGroupTopics(t *testing.T) {
	tab := open(t, memfs.New(1), options())
	retry, err := tab.EnsureRetry("g", 3, false)
	if err != nil || retry.Name != "%RETRY%g" || retry.WriteQueues != 3 || retry.Perm != 6 {
		t.Errorf("retry: %+v, %v", retry, err)
	}
	again, err := tab.EnsureRetry("g", 1, true)
	if err != nil || again != retry {
		t.Errorf("again: %+v, %v", again, err)
	}
	if unit, err := tab.EnsureRetry("u", 1, true); err != nil || unit.SysFlag != FlagUnitSub {
		t.Errorf("of a client in unit mode: %+v, %v", unit, err)
	}
	dlq, err := tab.EnsureDLQ("g")
	if err != nil || dlq.Name != "%DLQ%g" || dlq.WriteQueues != 1 || dlq.Perm != 6 {
		t.Errorf("dlq: %+v, %v", dlq, err)
	}
}

func TestChangesAreAnnouncedAfterTheyAreSeen(t *testing.T) {
	fsys := faultfs.Wrap(memfs.New(1))
	tab := open(t, fsys, options())
	var heard []wire.DataVersion
	tab.OnChange(func() {
		_, v := tab.Snapshot()
		heard = append(heard, v)
	})
	_, start := tab.Snapshot()
	if err := tab.Put(simple("T", 4, PermRead)); err != nil {
		t.Fatal(err)
	}
	calls := fsys.Calls()
	if err := tab.Put(simple("T", 4, PermRead)); err != nil {
		t.Fatal(err)
	}
	if fsys.Calls() != calls {
		t.Error("an equal topic was written again")
	}
	if err := tab.Put(simple("T", 4, PermWrite)); err != nil {
		t.Fatal(err)
	}
	if len(heard) != 2 || heard[0].Counter != start.Counter+1 || heard[1].Counter != start.Counter+2 {
		t.Errorf("from %+v heard %+v", start, heard)
	}
}

// TestAckedSurvives cuts the power at the k-th disk call of a few changes, for every k: what was acknowledged
// is there afterwards, and nothing was visible that was not.
func TestAckedSurvives(t *testing.T) {
	for k := 1; ; k++ {
		disk := memfs.New(uint64(k))
		power := faultfs.Wrap(disk)
		tab := open(t, power, options())
		power.CutAt(k)
		var acked []string
		for i := range 3 {
			name := fmt.Sprintf("T%d", i)
			if err := tab.Put(simple(name, 4, PermRead)); err != nil {
				if tab.Get([]byte(name)) != nil {
					t.Fatalf("k=%d: %s is visible though %v", k, name, err)
				}
				break
			}
			acked = append(acked, name)
		}
		if !power.IsCut() {
			t.Logf("tried %d places", k)
			return
		}
		for seed := range uint64(4) {
			after := open(t, disk.Crash(rand.New(rand.NewPCG(seed, 0)), int(seed)*33), options())
			for _, name := range acked {
				if after.Get([]byte(name)) == nil {
					t.Fatalf("k=%d seed=%d: %s was acknowledged and is gone", k, seed, name)
				}
			}
		}
	}
}

func TestBothFilesBroken(t *testing.T) {
	d := disk(t, []byte("{"))
	if _, err := Load(d, path, options()); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "move both away") {
		t.Errorf("Load: %v, want an error that names the file and a remedy", err)
	}
}

func TestFailedWriteChangesNothing(t *testing.T) {
	fsys := faultfs.Wrap(memfs.New(1))
	tab := open(t, fsys, options())
	fsys.FailAt(1, fs.ErrPermission)
	if err := tab.Put(simple("T", 4, PermRead)); !errors.Is(err, fs.ErrPermission) {
		t.Fatalf("Put: %v", err)
	}
	if tab.Get([]byte("T")) != nil {
		t.Error("the topic is visible")
	}
	if err := tab.Put(simple("T", 4, PermRead)); err != nil {
		t.Fatalf("Put after the disk came back: %v", err)
	}
}

// TestReadersDoNotWait reads while topics are created; the race detector watches.
func TestReadersDoNotWait(t *testing.T) {
	tab := open(t, memfs.New(1), options())
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for seen := 0; ; {
				all, _ := tab.Snapshot()
				if len(all) < seen {
					t.Errorf("%d topics after %d", len(all), seen)
					return
				}
				seen = len(all)
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for i := range 20 {
				if _, err := tab.AutoCreate(fmt.Sprintf("T-%d-%d", w, i), Default, 4, false); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	for w := range 2 {
		for i := range 20 {
			if tab.Get(fmt.Appendf(nil, "T-%d-%d", w, i)) == nil {
				t.Errorf("T-%d-%d is missing", w, i)
			}
		}
	}
}

func TestGetAllocatesNothing(t *testing.T) {
	tab := open(t, memfs.New(1), options())
	name := []byte(Default)
	if n := testing.AllocsPerRun(100, func() { tab.Get(name) }); n != 0 {
		t.Errorf("Get allocates %v times", n)
	}
}
