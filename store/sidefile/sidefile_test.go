package sidefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"ringmq/store/vfs"
	"ringmq/store/vfs/faultfs"
	"ringmq/store/vfs/memfs"
)

const name = "/config/x.json"

// newDisk returns a disk with the durable directory /config.
func newDisk(t *testing.T, seed uint64) *memfs.FS {
	t.Helper()
	d := memfs.New(seed)
	if err := vfs.MakeDir(d, "/config"); err != nil {
		t.Fatal(err)
	}
	return d
}

// contents of version n; the lengths differ, so that a mixture of two versions shows.
func contents(n int) string { return fmt.Sprintf("{%s%d}", strings.Repeat(".", n*3), n) }

func valid(b []byte) error {
	if b[0] != '{' || b[len(b)-1] != '}' {
		return fmt.Errorf("no braces around %q", b)
	}
	return nil
}

// writeVersions writes versions from first on until one fails, and returns the last that succeeded.
func writeVersions(fsys vfs.FS, first, last int) (acked int) {
	acked = first - 1
	for n := first; n <= last; n++ {
		if Write(fsys, name, []byte(contents(n))) != nil {
			return acked
		}
		acked = n
	}
	return acked
}

// judge says what is wrong with what a crash left: version acked was acknowledged, acked+1 may have begun.
func judge(d *memfs.FS, acked int) error {
	got, _, err := Read(d, name, valid)
	switch {
	case errors.Is(err, fs.ErrNotExist) && acked == 0:
		return nil
	case err != nil:
		return err
	case string(got) != contents(acked) && string(got) != contents(acked+1):
		return fmt.Errorf("version %d was acknowledged, found %q", acked, got)
	}
	return nil
}

// eachCrash throws the dice a few times, and judges each outcome twice: as it is, and after the next start
// has written again and crashed again.
func eachCrash(d *memfs.FS, acked int) error {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 0))
		after := d.Crash(rng, []int{0, 50, 100}[seed%3])
		if err := judge(after, acked); err != nil {
			return fmt.Errorf("crash %d: %w", seed, err)
		}
		if Write(after, name, []byte(contents(9))) != nil {
			return fmt.Errorf("crash %d: the next start cannot write", seed)
		}
		if err := judge(after.Crash(rng, 50), 9); err != nil {
			return fmt.Errorf("crash %d, and again: %w", seed, err)
		}
	}
	return nil
}

// TestCrashAtEveryCall cuts the power at the k-th disk call, for every k.
func TestCrashAtEveryCall(t *testing.T) {
	for k := 0; ; k++ {
		disk := newDisk(t, uint64(k))
		power := faultfs.Wrap(disk)
		power.CutAt(k)
		acked := writeVersions(power, 1, 4)
		if err := eachCrash(disk, acked); err != nil {
			t.Fatalf("power cut at call %d: %v", k, err)
		}
		if !power.IsCut() {
			if k < 4*6 {
				t.Errorf("only %d calls for four writes", k)
			}
			return
		}
	}
}

// TestEverySyncIsNeeded: with any one sync that only says it did something, a crash loses what was
// acknowledged.
func TestEverySyncIsNeeded(t *testing.T) {
	honest := faultfs.Wrap(newDisk(t, 1))
	writeVersions(honest, 1, 2)
	sites := honest.Sites()
	if want := "[sidefile.replace:syncdir sidefile.writeTemp:sync]"; fmt.Sprint(sites) != want {
		t.Fatalf("syncs at %v, want %s", sites, want)
	}
	for _, site := range append(sites, "") {
		var found error
		for versions := 1; versions <= 3 && found == nil; versions++ {
			disk := newDisk(t, 1)
			liar := faultfs.Wrap(disk)
			liar.Lie(site)
			found = eachCrash(disk, writeVersions(liar, 1, versions))
		}
		if (found != nil) != (site != "") {
			t.Errorf("lie at %q: %v", site, found)
		}
	}
}

// TestEveryCallFails: after a failed call the old version or the new one is there, and the next write works.
func TestEveryCallFails(t *testing.T) {
	for k := 0; ; k++ {
		disk := newDisk(t, 1)
		faulty := faultfs.Wrap(disk)
		writeVersions(faulty, 1, 2)
		at := faulty.Calls() + k
		faulty.FailAt(at, syscall.EIO)
		err := Write(faulty, name, []byte(contents(3)))
		if err == nil {
			if faulty.Calls() > at {
				t.Fatalf("call %d failed and Write did not", k)
			}
			return
		}
		if !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), name) {
			t.Errorf("call %d: %v", k, err)
		}
		if err := judge(disk, 2); err != nil {
			t.Errorf("call %d: %v", k, err)
		}
		if err := Write(faulty, name, []byte(contents(4))); err != nil {
			t.Errorf("call %d: the next write: %v", k, err)
		}
		if err := judge(disk.Crash(rand.New(rand.NewPCG(1, 1)), 0), 4); err != nil {
			t.Errorf("call %d: the next write: %v", k, err)
		}
	}
}

// TestRead: which of file and backup is taken (stock brokers lost offsets by overwriting both,
// rocketmq#6096, #9328).
func TestRead(t *testing.T) {
	const bad, missing = "torn", "-"
	for _, tc := range []struct {
		file, backup string
		want         string
		usedBackup   bool
		err          error
	}{
		{"{new}", "{old}", "{new}", false, nil},
		{"{new}", missing, "{new}", false, nil},
		{"{new}", bad, "{new}", false, nil},
		{missing, "{old}", "{old}", true, nil},
		{"", "{old}", "{old}", true, nil},
		{bad, "{old}", "{old}", true, nil},
		{missing, missing, "", false, fs.ErrNotExist},
		{bad, missing, "", false, ErrBroken},
		{"", missing, "", false, ErrBroken},
		{bad, bad, "", false, ErrBroken},
		{missing, bad, "", false, ErrBroken},
		{missing, "", "", false, ErrBroken},
	} {
		t.Run(tc.file+","+tc.backup, func(t *testing.T) {
			d := newDisk(t, 1)
			put(t, d, name, tc.file)
			put(t, d, name+".bak", tc.backup)
			got, usedBackup, err := Read(d, name, valid)
			if string(got) != tc.want || usedBackup != tc.usedBackup || !errors.Is(err, tc.err) {
				t.Fatalf("%q, backup %v, %v", got, usedBackup, err)
			}
			if errors.Is(err, ErrBroken) == errors.Is(err, fs.ErrNotExist) && err != nil {
				t.Errorf("damage must not look like a fresh start: %v", err)
			}
			if err != nil {
				return
			}
			// A damaged file must not become the backup at the next write, nor be lost.
			if err := Write(d, name, []byte("{next}")); err != nil {
				t.Fatal(err)
			}
			if got := get(t, d, name); got != "{next}" {
				t.Errorf("after a write the file holds %q", got)
			}
			if got := get(t, d, name+".bak"); got != tc.want {
				t.Errorf("after a write the backup holds %q, want %q", got, tc.want)
			}
			if tc.file == bad && get(t, d, name+".bad") != bad {
				t.Error("the damaged file was not kept")
			}
		})
	}
}

// TestWriteJSON: people read and edit these files, and so do stock brokers: one member a line, and signs of
// markup stay what they are.
func TestWriteJSON(t *testing.T) {
	d := newDisk(t, 1)
	if err := WriteJSON(d, name, map[string]any{"b": "<&>", "a": map[int]int{1: 2}}); err != nil {
		t.Fatal(err)
	}
	if got, want := get(t, d, name), "{\n\t\"a\": {\n\t\t\"1\": 2\n\t},\n\t\"b\": \"<&>\"\n}\n"; got != want {
		t.Errorf("the file holds %s, want %s", got, want)
	}
	if err := WriteJSON(d, name, func() {}); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("what is no JSON: %v", err)
	}
	if got := get(t, d, name); !strings.HasPrefix(got, "{\n") {
		t.Errorf("a table that cannot be encoded changed the file: %s", got)
	}
}

// TestRemedy: who has to decide is told what there is to decide; other errors say nothing about contents.
func TestRemedy(t *testing.T) {
	d := newDisk(t, 1)
	put(t, d, name, "torn")
	_, _, err := Read(d, name, valid)
	if got := Remedy(err, " to start without topics"); !errors.Is(got, ErrBroken) || !strings.HasSuffix(got.Error(), "or move both away to start without topics") {
		t.Errorf("%v", got)
	}
	if got := Remedy(fs.ErrPermission, " to start without topics"); got != fs.ErrPermission {
		t.Errorf("%v", got)
	}
}

// TestReadTrouble: a file that cannot be read is not taken for a damaged one.
func TestReadTrouble(t *testing.T) {
	d := newDisk(t, 1)
	writeVersions(d, 1, 2)
	power := faultfs.Wrap(d)
	power.CutAt(0)
	if err := power.SyncDir("/"); err == nil {
		t.Fatal("not cut")
	}
	if _, _, err := Read(power, name, valid); !errors.Is(err, faultfs.ErrPower) || errors.Is(err, ErrBroken) {
		t.Errorf("%v", err)
	}
}

func put(t *testing.T, d vfs.FS, name, text string) {
	t.Helper()
	if text == "-" {
		return
	}
	f, err := d.Create(name)
	if err == nil {
		_, err = f.WriteAt([]byte(text), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, d vfs.FS, name string) string {
	t.Helper()
	f, err := d.OpenRead(name)
	if err != nil {
		return err.Error()
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
