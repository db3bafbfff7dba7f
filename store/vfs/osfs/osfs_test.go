package osfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ringmq/store/vfs"
	"ringmq/store/vfs/vfstest"
)

func TestSuite(t *testing.T) {
	for _, engine := range []IOEngine{URing, POSIX} {
		t.Run("ioEngine="+string(engine), func(t *testing.T) {
			if _, err := newRing(); err != nil && engine == URing {
				t.Skip("no ring on this machine: ", err)
			}
			vfstest.Run(t, func(t *testing.T) (vfs.FS, string) { return New(Options{IOEngine: engine}), t.TempDir() })
		})
	}
}

// TestAutoTakesTheRing: where the ring can be had, it is what flushes.
func TestAutoTakesTheRing(t *testing.T) {
	r, err := newRing()
	if err != nil {
		t.Skip("no ring on this machine: ", err)
	}
	defer r.Close()
	e, err := New(Options{}).NewEngine()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if e.Name() != "io_uring" {
		t.Fatalf("auto chose %s", e.Name())
	}
}

func TestUnknownEngineIsRefused(t *testing.T) {
	if _, err := New(Options{IOEngine: "aio"}).NewEngine(); err == nil || !strings.Contains(err.Error(), `"aio"`) {
		t.Fatalf("got %v, want an error that names the value", err)
	}
}

// lockEnv makes the test binary a second process that tries to take the lock.
const lockEnv = "OSFS_TEST_LOCK"

func TestMain(m *testing.M) {
	if name := os.Getenv(lockEnv); name != "" {
		if _, err := New(Options{}).Lock(name); err != nil {
			fmt.Println(err)
		} else {
			fmt.Println("taken")
		}
		return
	}
	os.Exit(m.Run())
}

func lockElsewhere(t *testing.T, name string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), lockEnv+"="+name)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// TestLockBetweenProcesses: the other process is told who holds the lock. A refused try in this process
// must not drop it, as closing any descriptor of the file would.
func TestLockBetweenProcesses(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	held, err := New(Options{}).Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("process %d", os.Getpid())
	if got := lockElsewhere(t, name); !strings.Contains(got, want) || !strings.Contains(got, name) {
		t.Errorf("the other process was told %q, want %q", got, want)
	}
	link := filepath.Join(filepath.Dir(name), "link")
	if err := os.Symlink(name, link); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{name, link} {
		if _, err := New(Options{}).Lock(n); !errors.Is(err, vfs.ErrLocked) {
			t.Errorf("%s: %v", n, err)
		}
	}
	if got := lockElsewhere(t, name); !strings.Contains(got, want) {
		t.Errorf("after refusals here: %q", got)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if got := lockElsewhere(t, name); got != "taken\n" {
		t.Errorf("after Close: %q", got)
	}
}

// TestAdvance: what a short write leaves to be written.
func TestAdvance(t *testing.T) {
	bufs := [][]byte{[]byte("abc"), nil, []byte("defg"), []byte("h")}
	all := bytes.Join(bufs, nil)
	for n := range len(all) + 1 {
		rest := advance(bufs, n)
		if got := bytes.Join(rest, nil); !bytes.Equal(got, all[n:]) {
			t.Errorf("after %d bytes: %q, want %q", n, got, all[n:])
		}
	}
	if got := bytes.Join(bufs, nil); !bytes.Equal(got, all) {
		t.Errorf("the caller's buffers became %q", got)
	}
}

// TestWriteVecShort: a limit on the file size makes the kernel write less than it was given, and then
// nothing. What was written is told.
func TestWriteVecShort(t *testing.T) {
	f := mustCreate(t)
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	limit := old
	limit.Cur = 10
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	n, err := f.WriteVec([][]byte{[]byte("0123456"), []byte("789abc"), []byte("def")}, 0)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if n != 10 || !errors.Is(err, unix.EFBIG) {
		t.Errorf("wrote %d bytes, %v", n, err)
	}
}

// TestPreallocateByZeros: the way of file systems without fallocate.
func TestPreallocateByZeros(t *testing.T) {
	f := mustCreate(t)
	if _, err := f.WriteAt([]byte("head"), 0); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int64{3 << 20, 1 << 20} {
		if err := f.appendZeros(n); err != nil {
			t.Fatal(err)
		}
		if size, err := f.Size(); err != nil || size != 3<<20 {
			t.Fatalf("size %d, %v", size, err)
		}
	}
	got := make([]byte, 8)
	if _, err := f.ReadAt(got, 0); err != nil || string(got) != "head\x00\x00\x00\x00" {
		t.Errorf("begins with %q, %v", got, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(f.Fd(), &st); err != nil || st.Blocks*512 < 3<<20-4096 {
		t.Errorf("%d blocks, %v", st.Blocks, err)
	}
}

// TestPreallocateRefused: the error names the file and keeps the errno. The size is beyond any file's, so
// that nothing is allocated.
func TestPreallocateRefused(t *testing.T) {
	f := mustCreate(t)
	err := f.Preallocate(1<<63 - 1)
	var place *fs.PathError
	if !errors.Is(err, unix.EFBIG) || !errors.As(err, &place) || place.Path != f.Name() {
		t.Errorf("%v", err)
	}
}

// TestFlushErrorIsKept: the kernel tells an error once and says OK then; the slot does not. A closed
// descriptor stands for the broken disk.
func TestFlushErrorIsKept(t *testing.T) {
	f := mustCreate(t)
	s, err := f.Slot()
	if err != nil {
		t.Fatal(err)
	}
	sl := s.(*slot)
	good := sl.file
	bad, err := os.Open(os.DevNull) // fdatasync of a device without one is EINVAL
	if err != nil {
		t.Fatal(err)
	}
	defer bad.Close()
	e, err := New(Options{}).NewEngine()
	if err != nil {
		t.Fatal(err)
	}
	for i, file := range []*os.File{good, bad, good} {
		sl.file = file
		e.Begin(sl, uint64(i))
		got := e.Reap(nil, -1)
		if len(got) != 1 || got[0].ID != uint64(i) || (got[0].Err != nil) != (i > 0) {
			t.Fatalf("flush %d: %+v", i, got)
		}
		if i > 0 && (!errors.Is(got[0].Err, unix.EINVAL) || !strings.Contains(got[0].Err.Error(), f.Name())) {
			t.Errorf("flush %d: %v", i, got[0].Err)
		}
	}
	if err := errors.Join(s.Close(), e.Close()); err != nil {
		t.Error(err)
	}
}

// TestSlotIsItsOwnDescription: the kernel reports a write-back error once per open file description, so
// a slot must not share the file's. Descriptions have positions of their own.
func TestSlotIsItsOwnDescription(t *testing.T) {
	f := mustCreate(t)
	s, err := f.Slot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := unix.Seek(f.Fd(), 5, 0); err != nil {
		t.Fatal(err)
	}
	if at, err := unix.Seek(int(s.(*slot).file.Fd()), 0, 1); err != nil || at != 0 {
		t.Errorf("the slot's position follows the file's to %d, %v", at, err)
	}
}

func mustCreate(t *testing.T) *file {
	t.Helper()
	f, err := New(Options{}).Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f.(*file)
}
