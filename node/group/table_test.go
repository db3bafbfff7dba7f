package group

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"ringmq/store/sidefile"
	"ringmq/store/vfs"
	"ringmq/store/vfs/faultfs"
	"ringmq/store/vfs/memfs"
)

const path = "/subscriptionGroup.json"

func options(auto bool) Options {
	return Options{AutoCreate: auto, Now: func() time.Time { return time.UnixMilli(1_700_000_000_000) }}
}

func open(t testing.TB, fsys vfs.FS, auto bool) *Table {
	t.Helper()
	tab, err := Load(fsys, path, options(auto))
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func disk(t testing.TB, data []byte) *memfs.FS {
	t.Helper()
	d := memfs.New(1)
	if err := sidefile.Write(d, path, data); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestPredefinedGroups(t *testing.T) {
	tab := open(t, memfs.New(1), false)
	for _, name := range predefined {
		if c := tab.Get([]byte(name)); c == nil || c.Name != name || !c.Consume || c.RetryMaxTimes != 16 {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if c := tab.Get([]byte("g")); c != nil {
		t.Errorf("g: %+v", c)
	}
}

func TestEnsure(t *testing.T) {
	d := memfs.New(1)
	tab := open(t, d, true)
	c, err := tab.Ensure("g")
	if err != nil || c.Name != "g" || !c.NotifyIDsChanged || !c.ConsumeBroadcast || c.RetryQueues != 1 {
		t.Fatalf("Ensure: %+v, %v", c, err)
	}
	if again, err := tab.Ensure("g"); err != nil || again != c || tab.Get([]byte("g")) != c {
		t.Errorf("again: %+v, %v", again, err)
	}
	if _, v := tab.Snapshot(); v.Counter != 1 {
		t.Errorf("version %+v after one group", v)
	}
	if open(t, d, false).Get([]byte("g")) == nil {
		t.Error("the group is not on the disk")
	}
}

func TestEnsureRefuses(t *testing.T) {
	o := options(true)
	bad := errors.New("ugly")
	o.CheckName = func(name string) error {
		if strings.Contains(name, "/") {
			return bad
		}
		return nil
	}
	tab, err := Load(memfs.New(1), path, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tab.Ensure("../g"); !errors.Is(err, ErrNotExist) || !errors.Is(err, bad) {
		t.Errorf("a name that does not pass: %v", err)
	}
	off := open(t, memfs.New(1), false)
	if _, err := off.Ensure("g"); !errors.Is(err, ErrNotExist) {
		t.Errorf("auto creation off: %v", err)
	}
	if c, err := off.Ensure("CID_RMQ_SYS_x"); err != nil || c == nil {
		t.Errorf("one of the broker's own: %+v, %v", c, err)
	}
}

// TestStockFiles opens files that a stock broker wrote, adds a group, and compares what was written as
// strictly as a JSON parser can.
func TestStockFiles(t *testing.T) {
	for _, name := range []string{"plain", "pop", "retry"} {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile("testdata/" + name + ".subscriptionGroup.json")
			if err != nil {
				t.Fatal(err)
			}
			type file struct {
				Forbidden map[string]any            `json:"forbiddenTable"`
				Groups    map[string]map[string]any `json:"subscriptionGroupTable"`
			}
			var stock, ours file
			if err := json.Unmarshal(data, &stock); err != nil {
				t.Fatal(err)
			}
			d := disk(t, data)
			if _, err := open(t, d, true).Ensure("Added"); err != nil {
				t.Fatal(err)
			}
			written, _, err := sidefile.Read(d, path, func([]byte) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(written, &ours); err != nil {
				t.Fatal(err)
			}
			for group, want := range stock.Groups {
				if got := ours.Groups[group]; fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s: %v, stock has %v", group, got, want)
				}
			}
			if ours.Groups["Added"] == nil || fmt.Sprint(ours.Forbidden) != fmt.Sprint(stock.Forbidden) {
				t.Errorf("written:\n%s", written)
			}
		})
	}
}

func TestMembersThatAreMissing(t *testing.T) {
	d := disk(t, []byte(`{"forbiddenTable":{"g":{"T":1}},"subscriptionGroupTable":{"g":{"consumeEnable":false,
		"groupRetryPolicy":{"exponentialRetryPolicy":{"initial":5000,"max":7200000,"multiplier":2},"type":"EXPONENTIAL"}},"h":null}}`))
	tab := open(t, d, true)
	c := tab.Get([]byte("g"))
	if c == nil || c.Name != "g" || c.Consume || !c.ConsumeBroadcast || c.RetryMaxTimes != 16 || c.ConsumeTimeoutMin != 15 {
		t.Fatalf("g: %+v, want what Java starts with", c)
	}
	if _, err := tab.Ensure("new"); err != nil {
		t.Fatal(err)
	}
	written, _, err := sidefile.Read(d, path, func([]byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"multiplier": 2`, `"type": "EXPONENTIAL"`, `"T": 1`} {
		if !strings.Contains(string(written), want) {
			t.Errorf("lost %s:\n%s", want, written)
		}
	}
}

func TestBothFilesBroken(t *testing.T) {
	if _, err := Load(disk(t, []byte("{")), path, options(true)); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "move both away") {
		t.Errorf("Load: %v, want an error that names the file and a remedy", err)
	}
}

// TestAckedSurvives cuts the power at the k-th disk call, for every k: a group that was acknowledged is there
// afterwards.
func TestAckedSurvives(t *testing.T) {
	for k := 1; ; k++ {
		disk := memfs.New(uint64(k))
		power := faultfs.Wrap(disk)
		tab := open(t, power, true)
		power.CutAt(k)
		acked := 0
		for ; acked < 3; acked++ {
			name := fmt.Sprintf("g%d", acked)
			if _, err := tab.Ensure(name); err != nil {
				if tab.Get([]byte(name)) != nil {
					t.Fatalf("k=%d: %s is visible though %v", k, name, err)
				}
				break
			}
		}
		if !power.IsCut() {
			t.Logf("tried %d places", k)
			return
		}
		for seed := range uint64(4) {
			after := open(t, disk.Crash(rand.New(rand.NewPCG(seed, 0)), int(seed)*33), true)
			for i := range acked {
				if after.Get(fmt.Appendf(nil, "g%d", i)) == nil {
					t.Fatalf("k=%d seed=%d: g%d was acknowledged and is gone", k, seed, i)
				}
			}
		}
	}
}

// TestEnsureAtOnce: of many heartbeats that bring one unknown group, one creates it.
func TestEnsureAtOnce(t *testing.T) {
	tab := open(t, memfs.New(1), true)
	var all sync.WaitGroup
	got := make([]*Config, 8)
	for i := range got {
		all.Go(func() {
			c, err := tab.Ensure("g")
			if err != nil {
				t.Error(err)
			}
			got[i] = c
		})
	}
	all.Wait()
	for _, c := range got {
		if c != got[0] {
			t.Fatal("more than one was created")
		}
	}
	if _, v := tab.Snapshot(); v.Counter != 1 {
		t.Errorf("version %+v after one group", v)
	}
}

func TestGetAllocatesNothing(t *testing.T) {
	tab := open(t, memfs.New(1), true)
	name := []byte("TOOLS_CONSUMER")
	if n := testing.AllocsPerRun(100, func() { tab.Get(name) }); n != 0 {
		t.Errorf("Get allocates %v times", n)
	}
}
