package offset

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ringmq/netio/wire"
	"ringmq/store/sidefile"
	"ringmq/store/vfs"
	"ringmq/store/vfs/faultfs"
	"ringmq/store/vfs/memfs"
)

const path = "/consumerOffset.json"

func open(t testing.TB, fsys vfs.FS) *Table {
	t.Helper()
	tab, err := Load(fsys, path, Options{Now: func() time.Time { return time.UnixMilli(1_700_000_000_000) }})
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

func read(t testing.TB, fsys vfs.FS) []byte {
	t.Helper()
	b, _, err := sidefile.Read(fsys, path, func([]byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// show is all offsets as topic@group/queue.
func show(t *Table) map[string]int64 {
	all := map[string]int64{}
	for group, byTopic := range *t.commits.groups.Load() {
		for topic, byQueue := range byTopic {
			for queue := range byQueue {
				if off, ok := t.Get([]byte(group), []byte(topic), queue); ok {
					all[fmt.Sprintf("%s@%s/%d", topic, group, queue)] = off
				}
			}
		}
	}
	return all
}

func TestCommit(t *testing.T) {
	tab := open(t, memfs.New(1))
	g, topic := []byte("g"), []byte("T")
	if _, ok := tab.Get(g, topic, 0); ok {
		t.Error("an offset before any commit")
	}
	for _, off := range []int64{7, 3, 1 << 62, 0} { // a reset may move back
		if err := tab.Commit(g, topic, 0, off); err != nil {
			t.Fatal(err)
		}
		if got, ok := tab.Get(g, topic, 0); !ok || got != off {
			t.Errorf("committed %d, got %d, %v", off, got, ok)
		}
	}
	for _, bad := range []struct {
		queue int32
		off   int64
	}{{-1, 5}, {0, -1}, {1, -5}} {
		if err := tab.Commit(g, topic, bad.queue, bad.off); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
	if got := show(tab); !maps.Equal(got, map[string]int64{"T@g/0": 0}) {
		t.Errorf("table: %v", got)
	}
}

// TestGetDuringTheFirstCommit: the first commit of a queue publishes its place and then stores the offset. Get
// used to return what stood there in between, the least int64, and who answers 0 for an unknown offset sent
// that number to a client.
func TestGetDuringTheFirstCommit(t *testing.T) {
	tab := open(t, memfs.New(1))
	tab.commits.know("g", "T", 0)
	if got, ok := tab.Get([]byte("g"), []byte("T"), 0); ok || got != 0 {
		t.Errorf("before the offset is there: %d, %v, want 0 and false", got, ok)
	}
}

// TestStockFiles: files that a stock broker wrote, with queue numbers that are no JSON keys, load; a change is
// written as JSON that any reader takes, and loads again.
func TestStockFiles(t *testing.T) {
	for name, want := range map[string]map[string]int64{
		"plain": {"TopicPlain@GID_golden/0": 3, "TopicPlain@GID_golden/1": 6, "TopicPlain@GID_golden/3": 0, "TopicPlain@GID_other/0": 5, "TopicOther@GID_other/1": 2},
		"retry": {"RetryT@GID_retry/0": 6, "%RETRY%GID_retry@GID_retry/0": 2},
		"pop":   nil, // only that it survives
	} {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile("testdata/" + name + ".consumerOffset.json")
			if err != nil {
				t.Fatal(err)
			}
			d := disk(t, data)
			tab := open(t, d)
			before := show(tab)
			if want != nil && !maps.Equal(before, want) {
				t.Errorf("loaded %v, want %v", before, want)
			}
			if err := tab.Commit([]byte("new"), []byte("T"), 2, 9); err != nil {
				t.Fatal(err)
			}
			if err := tab.Persist(); err != nil {
				t.Fatal(err)
			}
			written := read(t, d)
			var strict struct {
				DataVersion wire.DataVersion            `json:"dataVersion"`
				OffsetTable map[string]map[string]int64 `json:"offsetTable"`
				Pull        map[string]map[string]int64 `json:"pullOffsetTable"`
			}
			if err := json.Unmarshal(written, &strict); err != nil {
				t.Fatalf("%v in\n%s", err, written)
			}
			if strict.OffsetTable["T@new"]["2"] != 9 || strict.DataVersion.Timestamp != 1_700_000_000_000 || strict.DataVersion.Counter != 1 {
				t.Errorf("written:\n%s", written)
			}
			if name == "retry" && strict.Pull["%RETRY%GID_retry@GID_retry"]["0"] != 3 {
				t.Errorf("the pull offsets are gone:\n%s", written)
			}
			before["T@new/2"] = 9
			if after := show(open(t, d)); !maps.Equal(after, before) {
				t.Errorf("loaded again %v, want %v", after, before)
			}
		})
	}
}

func TestWrongEntriesAreDroppedLoudly(t *testing.T) {
	var log bytes.Buffer
	tab, err := Load(disk(t, []byte(`{"offsetTable":{"nobody":{0:1},"@g":{0:1},"T@":{0:1},"T@g":{0:-4,1:5,-1:7}}}`)), path,
		Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if got := show(tab); !maps.Equal(got, map[string]int64{"T@g/1": 5}) {
		t.Errorf("table: %v", got)
	}
	if n := strings.Count(log.String(), "dropped"); n != 5 {
		t.Errorf("%d lines say dropped, want 5:\n%s", n, &log)
	}
}

func TestPersistOnlyWhatChanged(t *testing.T) {
	fsys := faultfs.Wrap(memfs.New(1))
	tab := open(t, fsys)
	persist := func(want bool) {
		t.Helper()
		before := fsys.Calls()
		if err := tab.Persist(); err != nil {
			t.Fatal(err)
		}
		if wrote := fsys.Calls() > before; wrote != want {
			t.Errorf("wrote: %v, want %v", wrote, want)
		}
	}
	commit := func(off int64) {
		t.Helper()
		if err := tab.Commit([]byte("g"), []byte("T"), 0, off); err != nil {
			t.Fatal(err)
		}
	}
	persist(false) // nothing was ever committed: the file of a slow start stays as it is
	commit(1)
	persist(true)
	persist(false)
	commit(1)
	persist(false)
	commit(0)
	persist(true)
}

// TestPulled: what a group was given is stored with its commits, and is no reason to store them.
func TestPulled(t *testing.T) {
	fsys := faultfs.Wrap(memfs.New(1))
	tab := open(t, fsys)
	g, topic := []byte("g"), []byte("T")
	if got := tab.PullOffset(g, topic, 0); got != 0 {
		t.Errorf("before any pull: %d", got)
	}
	tab.Pulled(g, topic, 0, 9)
	tab.Pulled(g, topic, 0, 7)
	before := fsys.Calls()
	if err := tab.Persist(); err != nil || fsys.Calls() != before {
		t.Errorf("pulls alone were stored: %v", err)
	}
	if _, ok := tab.Get(g, topic, 0); ok || len(tab.Topics("g")) != 0 {
		t.Error("a pull counts as a commit")
	}
	if err := errors.Join(tab.Commit(g, topic, 0, 5), tab.Commit(g, []byte("A"), 0, 5), tab.Persist()); err != nil {
		t.Fatal(err)
	}
	tab = open(t, fsys)
	if got := tab.PullOffset(g, topic, 0); got != 7 {
		t.Errorf("after a restart: %d, want 7", got)
	}
	if got := tab.Topics("g"); !slices.Equal(got, []string{"A", "T"}) {
		t.Errorf("topics %v", got)
	}
}

// A commit that fails to reach the disk stays in memory, and the next round tries it again.
func TestPersistAfterAFailure(t *testing.T) {
	d := memfs.New(1)
	fsys := faultfs.Wrap(d)
	tab := open(t, fsys)
	if err := tab.Commit([]byte("g"), []byte("T"), 0, 4); err != nil {
		t.Fatal(err)
	}
	fsys.FailAt(1, fs.ErrPermission)
	if err := tab.Persist(); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), path) {
		t.Fatalf("Persist: %v", err)
	}
	if err := tab.Persist(); err != nil {
		t.Fatal(err)
	}
	if got := show(open(t, d)); got["T@g/0"] != 4 {
		t.Errorf("on disk: %v", got)
	}
}

func TestRunPersistsAtTicksAndAtTheEnd(t *testing.T) {
	d := memfs.New(1)
	tab := open(t, d)
	ctx, cancel := context.WithCancel(t.Context())
	tick, done := make(chan time.Time), make(chan struct{})
	go func() {
		defer close(done)
		tab.Run(ctx, tick)
	}()
	commit := func(off int64) {
		if err := tab.Commit([]byte("g"), []byte("T"), 0, off); err != nil {
			t.Fatal(err)
		}
	}
	commit(1)
	tick <- time.Time{}
	tick <- time.Time{} // taken only after the first round has ended
	if got := show(open(t, d)); got["T@g/0"] != 1 {
		t.Errorf("after a tick: %v", got)
	}
	commit(2)
	cancel()
	<-done
	if got := show(open(t, d)); got["T@g/0"] != 2 {
		t.Errorf("after the end: %v", got)
	}
}

func TestBothFilesBroken(t *testing.T) {
	_, err := Load(disk(t, []byte("{")), path, Options{})
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "move both away") {
		t.Errorf("Load: %v, want an error that names the file and a remedy", err)
	}
}

// The file is damaged, its backup is not: the offsets of a moment ago are better than none.
func TestBackup(t *testing.T) {
	d := disk(t, []byte(`{"offsetTable":{"T@g":{0:4}}}`))
	if err := sidefile.Write(d, path, []byte(`{"offsetTable":{"T@g`)); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	tab, err := Load(d, path, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if got := show(tab); got["T@g/0"] != 4 || !strings.Contains(log.String(), "backup") {
		t.Errorf("table %v, log %q", got, log.String())
	}
}

func TestClamp(t *testing.T) {
	tab := open(t, disk(t, []byte(`{"offsetTable":{"T@g":{0:10,1:5,2:3,3:99},"T@h":{0:11},"gone@g":{0:7}}}`)))
	bounds := func(topic string, queue int32) (int64, int64, bool) {
		ends := []int64{8, 5, 100, 0}
		return 4, ends[queue], topic == "T"
	}
	got := tab.Clamp(bounds)
	want := []Clamped{{"g", "T", 0, 10, 8}, {"g", "T", 3, 99, 0}, {"h", "T", 0, 11, 8}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("clamped %v, want %v", got, want)
	}
	if got := show(tab); !maps.Equal(got, map[string]int64{"T@g/0": 8, "T@g/1": 5, "T@g/2": 3, "T@g/3": 0, "T@h/0": 8, "gone@g/0": 7}) {
		t.Errorf("table: %v", got)
	}
	if again := tab.Clamp(bounds); len(again) != 0 {
		t.Errorf("clamped again: %v", again)
	}
}

// TestPersistedSurvives cuts the power at the k-th disk call, for every k: afterwards each offset is one that
// was committed, and not older than the last one that Persist acknowledged.
func TestPersistedSurvives(t *testing.T) {
	for k := 1; ; k++ {
		disk := memfs.New(uint64(k))
		power := faultfs.Wrap(disk)
		tab := open(t, power)
		power.CutAt(k)
		var committed, acked int64
		for committed = 1; committed <= 3; committed++ {
			if err := tab.Commit([]byte("g"), []byte("T"), 0, committed); err != nil {
				t.Fatal(err)
			}
			if tab.Persist() != nil {
				break
			}
			acked = committed
		}
		if !power.IsCut() {
			t.Logf("tried %d places", k)
			return
		}
		for seed := range uint64(4) {
			got := show(open(t, disk.Crash(rand.New(rand.NewPCG(seed, 0)), int(seed)*33)))["T@g/0"]
			if got < acked || got > committed {
				t.Fatalf("k=%d seed=%d: %d after a crash, acknowledged %d, committed %d", k, seed, got, acked, committed)
			}
		}
	}
}

func TestHotPathAllocatesNothing(t *testing.T) {
	tab := open(t, memfs.New(1))
	g, topic, off := []byte("g"), []byte("T"), int64(0)
	if n := testing.AllocsPerRun(100, func() {
		off++
		if err := tab.Commit(g, topic, 0, off); err != nil {
			t.Error(err)
		}
		tab.Get(g, topic, 0)
		tab.Pulled(g, topic, 0, off)
	}); n != 0 {
		t.Errorf("Commit, Get and Pulled allocate %v times", n)
	}
}

// FuzzTable may find the table slower than a map, never different from it.
func FuzzTable(f *testing.F) {
	f.Add([]byte{0, 1, 5, 1, 1, 0, 2, 1, 0})
	f.Add([]byte{0, 0, 9, 0, 0, 2, 3, 0, 4, 1, 0, 0, 2, 0, 0, 0, 255, 255})
	f.Fuzz(func(t *testing.T, prog []byte) {
		d := memfs.New(1)
		tab, model := open(t, d), map[string]int64{}
		for ; len(prog) >= 3; prog = prog[3:] {
			group, topic, queue := fmt.Sprint("g", prog[1]%2), fmt.Sprint("T", prog[1]>>1%2), int32(prog[1]>>2%4)-1
			off := int64(prog[2]) - 2
			at := fmt.Sprintf("%s@%s/%d", topic, group, queue)
			switch prog[0] % 4 {
			case 0:
				err := tab.Commit([]byte(group), []byte(topic), queue, off)
				if (err == nil) != (queue >= 0 && off >= 0) {
					t.Fatalf("commit %d at %s: %v", off, at, err)
				}
				if err == nil {
					model[at] = off
				}
			case 1: // writing and opening must change nothing
				if err := tab.Persist(); err != nil {
					t.Fatal(err)
				}
				tab = open(t, d)
			case 2:
				got, ok := tab.Get([]byte(group), []byte(topic), queue)
				if want, has := model[at]; ok != has || ok && got != want {
					t.Fatalf("%s: table says %d, %v, map says %d, %v", at, got, ok, want, has)
				}
			case 3:
				tab.Clamp(func(string, int32) (int64, int64, bool) { return 0, off, off >= 0 })
				for k, v := range model {
					if off >= 0 && v > off {
						model[k] = off
					}
				}
			}
			if got := show(tab); !maps.Equal(got, model) {
				t.Fatalf("table %v, map %v", got, model)
			}
		}
	})
}

// FuzzLoad: whatever the file holds, loading ends in a table or an error, and what a table wrote loads.
func FuzzLoad(f *testing.F) {
	for _, name := range []string{"plain", "retry", "pop"} {
		data, err := os.ReadFile("testdata/" + name + ".consumerOffset.json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"offsetTable":{"T@g":{0:10,"1":20}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d := disk(t, data)
		tab, err := Load(d, path, Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return
		}
		if err := tab.Commit([]byte("g"), []byte("T"), 0, 1); err != nil {
			t.Fatal(err)
		}
		want := show(tab)
		if err := tab.Persist(); err != nil {
			t.Fatal(err)
		}
		if got := show(open(t, d)); !maps.Equal(got, want) {
			t.Fatalf("loaded %v, want %v", got, want)
		}
	})
}
