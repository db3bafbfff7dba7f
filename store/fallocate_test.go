package store

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringmq/store/vfs"
	"ringmq/store/vfs/osfs"
	"ringmq/store/vfs/vfstest"
)

// denyEnv makes a test binary a process without fallocate; it holds the errno that stands in for it.
const denyEnv = "STORE_TEST_NO_FALLOCATE"

// TestWithoutFallocate: a store lives, with either engine, where the file system has no fallocate, the kernel
// has none, or a policy forbids it.
func TestWithoutFallocate(t *testing.T) {
	if text := os.Getenv(denyEnv); text != "" {
		errno, err := strconv.Atoi(text)
		if err == nil {
			err = vfstest.Deny(unix.Errno(errno), unix.SYS_FALLOCATE, unix.SYS_FALLOCATE)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, engine := range []osfs.IOEngine{osfs.Auto, osfs.POSIX} {
			liveWithoutFallocate(t, engine, unix.Errno(errno))
			fmt.Println("lived with", engine)
		}
		return
	}
	for _, errno := range []unix.Errno{unix.EOPNOTSUPP, unix.ENOSYS, unix.EPERM} {
		t.Run(unix.ErrnoName(errno), func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestWithoutFallocate$")
			cmd.Env = append(os.Environ(), denyEnv+"="+strconv.Itoa(int(errno)))
			out, err := cmd.CombinedOutput()
			if err != nil || strings.Count(string(out), "lived with") != 2 {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// tear leaves bytes of no record behind the end of the log, and the mark of an unclean stop.
func tear(t *testing.T, fsys vfs.FS, o Options, end int64) {
	t.Helper()
	f, err := fsys.Open(filepath.Join(o.Dir, "commitlog", fmt.Sprintf("%020d", end/o.SegmentBytes*o.SegmentBytes)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(bytes.Repeat([]byte("torn"), 300), end%o.SegmentBytes)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	writeFile(t, fsys, filepath.Join(o.Dir, "abort"), abortText())
}

// liveWithoutFallocate fills files, drops some and uses them again, closes, finds a torn end, and goes on.
func liveWithoutFallocate(t *testing.T, engine osfs.IOEngine, errno unix.Errno) {
	t.Helper()
	o := tinyOptions(filepath.Join(t.TempDir(), "s"))
	o.SegmentBytes, o.QueueFlushInterval, o.checkpointBytes = 64<<10, time.Millisecond, 1
	o.Retention = Retention{MaxBytes: 3 * o.SegmentBytes}
	var said bytes.Buffer
	o.Log = slog.New(slog.NewTextHandler(&said, nil))
	disk := osfs.New(osfs.Options{IOEngine: engine, Log: o.Log})
	if f, err := disk.Create(filepath.Join(t.TempDir(), "f")); err != nil {
		t.Fatal(err)
	} else if err := unix.Fallocate(f.Fd(), 0, 0, 4096); !errors.Is(err, errno) {
		t.Fatalf("fallocate: %v", err)
	}

	h := openTest(t, disk, o)
	for n := int64(2); n < 8; n++ {
		h.sendFiles(n)
		h.retainRound(t.Context())
	}
	want := h.bodies()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	checkStockView(t, disk, o.Dir)
	tear(t, disk, o, h.Marks().Visible)

	h = openTest(t, disk, o)
	if got := h.bodies(); !slices.Equal(got, want) || h.found.CutBytes == 0 {
		t.Errorf("%d messages, want %d; %d bytes were cut", len(got), len(want), h.found.CutBytes)
	}
	h.sendFiles(9)
	want = h.bodies()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	checkStockView(t, disk, o.Dir)
	h = openTest(t, disk, o)
	defer h.Close()
	if got := h.bodies(); !slices.Equal(got, want) {
		t.Errorf("%d messages, want %d", len(got), len(want))
	}
	if n := strings.Count(said.String(), "no fallocate"); n != 1 {
		t.Errorf("it was said %d times that there is no fallocate:\n%s", n, &said)
	}
}
