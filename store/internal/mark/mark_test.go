package mark

import (
	"bytes"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ringmq/store/vfs"
	"ringmq/store/vfs/faultfs"
	"ringmq/store/vfs/memfs"
)

func openMark(t *testing.T, fsys vfs.FS) *File {
	t.Helper()
	m, err := Open(fsys, "/")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func mustRead(t *testing.T, fsys vfs.FS, want int64) {
	t.Helper()
	if got, err := Read(fsys, "/"); err != nil || got != want {
		t.Errorf("mark %d, %v, want %d", got, err, want)
	}
}

// TestSet: the newest mark is read, up or down, also after the file was opened again.
func TestSet(t *testing.T) {
	fsys := memfs.New(1)
	mustRead(t, fsys, 0)
	made := true
	for _, marks := range [][]int64{{100, 200, 150}, {7}, {8, 1 << 60}} {
		m := openMark(t, fsys)
		if m.Made() != made {
			t.Errorf("made: %v", m.Made())
		}
		for _, to := range marks {
			if err := m.Set(to); err != nil {
				t.Fatal(err)
			}
			mustRead(t, fsys, to)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		made = false
	}
}

// TestPowerCut cuts the power at each disk call while the mark moves: the old one or the new one stands,
// also where a sector of the slot was torn, and never one that Set had replaced before.
func TestPowerCut(t *testing.T) {
	for k := 0; ; k++ {
		disk := memfs.New(uint64(k))
		disk.TearSectors(k%2 == 0)
		m := openMark(t, disk)
		if err := m.Set(1); err != nil {
			t.Fatal(err)
		}
		if err := disk.SyncDir("/"); err != nil {
			t.Fatal(err)
		}
		power := faultfs.Wrap(disk)
		power.CutAt(k)
		m, err := Open(power, "/")
		done := int64(1)
		for to := int64(2); err == nil && to < 6; to++ {
			if err = m.Set(to); err == nil {
				done = to
			}
		}
		got, err := Read(disk.Crash(rand.New(rand.NewPCG(uint64(k), 1)), 50), "/")
		if err != nil || got < done || got > done+1 {
			t.Errorf("k=%d: mark %d, %v, %d was set", k, got, err, done)
		}
		if !power.IsCut() {
			return
		}
	}
}

// TestSpoiled: a file that is short, empty, or spoiled in one slot tells what is intact, and can be
// written again.
func TestSpoiled(t *testing.T) {
	whole := make([]byte, fileBytes)
	copy(whole, slot{4, 400}.append(nil))
	copy(whole[pageBytes:], slot{5, 500}.append(nil))
	flip := func(at int) []byte {
		b := bytes.Clone(whole)
		b[at] ^= 1
		return b
	}
	for _, tc := range []struct {
		name string
		data []byte
		want int64
	}{
		{"whole", whole, 500},
		{"first slot flipped", flip(30), 500},
		{"second slot flipped", flip(pageBytes + 30), 400},
		{"second slot of a newer version", flip(pageBytes + 11), 400},
		{"cut in the second slot", whole[:pageBytes+20], 400},
		{"cut in the first slot", whole[:20], 0},
		{"empty", nil, 0},
		{"too long", append(bytes.Clone(whole), 1, 2, 3), 500},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fsys := memfs.New(1)
			f, err := fsys.Create("/" + Name)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt(tc.data, 0); err != nil && err != io.EOF {
				t.Fatal(err)
			}
			mustRead(t, fsys, tc.want)
			m := openMark(t, fsys)
			if m.Durable() != tc.want {
				t.Errorf("opened with %d", m.Durable())
			}
			for _, to := range []int64{600, 700} {
				if err := m.Set(to); err != nil {
					t.Fatal(err)
				}
				mustRead(t, fsys, to)
			}
		})
	}
}

// TestKeep: the mark follows, and goes on after a write that failed.
func TestKeep(t *testing.T) {
	power := faultfs.Wrap(memfs.New(1))
	m := openMark(t, power)
	var durable atomic.Int64
	m.Keep(time.Millisecond, durable.Load, slog.New(slog.DiscardHandler))
	for _, to := range []int64{10, 20, 30} {
		if to == 20 {
			power.FailAt(power.Calls(), syscall.EIO)
		}
		durable.Store(to)
		for got := int64(0); got != to; {
			got, _ = Read(power, "/")
			runtime.Gosched()
		}
	}
	m.Stop()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

func TestDamaged(t *testing.T) {
	for _, tc := range []struct {
		end     int64
		known   bool
		durable int64
		behind  int64
		want    bool
	}{
		{100, true, 100, 5, false},
		{101, true, 100, 5, false},
		{99, true, 100, 0, true},
		{99, false, 100, 0, false},
		{99, false, 0, 1, true},
	} {
		if got := Damaged(tc.end, tc.known, tc.durable, tc.behind); got != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}

// FuzzJudge: no bytes make it panic, and what it believes is not negative.
func FuzzJudge(f *testing.F) {
	f.Add(slot{1, 2}.append(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if durable, ok := Judge(b); durable < 0 || !ok && durable != 0 {
			t.Errorf("mark %d, %v", durable, ok)
		}
	})
}
