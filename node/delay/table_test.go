package delay_test

import (
	"encoding/json"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringmq/node/delay"
	"ringmq/store/sidefile"
	"ringmq/store/vfs"
	"ringmq/store/vfs/faultfs"
	"ringmq/store/vfs/memfs"
)

func load(t testing.TB, fsys vfs.FS) *delay.Table {
	t.Helper()
	tab, err := delay.Load(fsys, offsets, func() time.Time { return time.UnixMilli(1_700_000_000_000) }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// shape is what stands in the file, in strict JSON.
type shape struct {
	DataVersion struct{ StateVersion, Timestamp, Counter int64 }
	OffsetTable map[string]int64
}

func onDisk(t testing.TB, fsys vfs.FS) (f shape) {
	t.Helper()
	b, _, err := sidefile.Read(fsys, offsets, func([]byte) error { return nil })
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestStockFiles reads what a stock broker 5.5.0 has written, numbers without quotes, and writes the same.
func TestStockFiles(t *testing.T) {
	for name, want := range map[string]map[string]int64{
		"delay": {"1": 2, "2": 3, "3": 1, "4": 0, "5": 0, "14": 0, "18": 0},
		"retry": {"1": 4, "2": 3, "3": 1},
	} {
		b, err := os.ReadFile("testdata/" + name + ".delayOffset.json")
		if err != nil {
			t.Fatal(err)
		}
		d := memfs.New(1)
		if err := sidefile.Write(d, offsets, b); err != nil {
			t.Fatal(err)
		}
		tab := load(t, d)
		if got := tab.Done(1); got != want["1"] {
			t.Errorf("%s: level 1 is at %d", name, got)
		}
		tab.Sent(2, 3, 100)
		if err := tab.Persist(99); err != nil {
			t.Fatal(err)
		}
		if b2, _, _ := sidefile.Read(d, offsets, func([]byte) error { return nil }); string(b2) != string(b) {
			t.Errorf("%s: written although nothing was durable: %s", name, b2)
		}
		if err := tab.Persist(100); err != nil {
			t.Fatal(err)
		}
		if got := onDisk(t, d); !maps.Equal(got.OffsetTable, want) || got.DataVersion.Timestamp != 1_700_000_000_000 || got.DataVersion.Counter == 0 {
			t.Errorf("%s: wrote %+v, want %v", name, got, want)
		}
	}
}

// TestPersistedSurvives cuts the power at the k-th disk call, for every k: the offset is one that was reached,
// and not older than the last one that Persist acknowledged.
func TestPersistedSurvives(t *testing.T) {
	for k := 1; ; k++ {
		disk := memfs.New(uint64(k))
		power := faultfs.Wrap(disk)
		tab := load(t, power)
		power.CutAt(k)
		var reached, acked int64
		for reached = 1; reached <= 3; reached++ {
			tab.Sent(1, reached, reached*100)
			if tab.Persist(reached*100) != nil {
				break
			}
			acked = reached
		}
		if !power.IsCut() {
			t.Logf("tried %d places", k)
			return
		}
		for seed := range uint64(4) {
			got := load(t, disk.AfterCrash(rand.New(rand.NewPCG(seed, 0)), int(seed)*33)).Done(1)
			if got < acked || got > reached {
				t.Fatalf("k=%d seed=%d: %d after a crash, acknowledged %d, reached %d", k, seed, got, acked, reached)
			}
		}
	}
}

// TestFailedPersist: what did not get into the file is written with the next try.
func TestFailedPersist(t *testing.T) {
	d := memfs.New(1)
	power := faultfs.Wrap(d)
	tab := load(t, power)
	tab.Sent(1, 7, 0)
	power.FailAt(power.Calls()+1, syscall.EIO)
	if err := tab.Persist(0); err == nil || !strings.Contains(err.Error(), offsets) {
		t.Errorf("persist: %v", err)
	}
	if err := tab.Persist(0); err != nil {
		t.Fatal(err)
	}
	if got := load(t, d).Done(1); got != 7 {
		t.Errorf("on the disk: %d", got)
	}
}

func TestBothFilesBroken(t *testing.T) {
	d := memfs.New(1)
	if err := sidefile.Write(d, offsets, []byte("{")); err != nil {
		t.Fatal(err)
	}
	_, err := delay.Load(d, offsets, time.Now, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), offsets) || !strings.Contains(err.Error(), "move both away") {
		t.Errorf("Load: %v, want an error that names the file and a remedy", err)
	}
}

// FuzzLoad: whatever the file holds, loading ends in a table or an error, and what a table wrote loads.
func FuzzLoad(f *testing.F) {
	for _, name := range []string{"delay", "retry"} {
		b, err := os.ReadFile("testdata/" + name + ".delayOffset.json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"offsetTable":{"1":-1,99999999999:1}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := memfs.New(1)
		if err := sidefile.Write(d, offsets, b); err != nil {
			t.Fatal(err)
		}
		tab, err := delay.Load(d, offsets, time.Now, slog.New(slog.DiscardHandler))
		if err != nil {
			return
		}
		tab.Sent(1, 5, 0)
		if err := tab.Persist(0); err != nil {
			t.Fatal(err)
		}
		if got := load(t, d).Done(1); got != 5 {
			t.Fatalf("level 1 is at %d", got)
		}
	})
}
