package rigtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// image is a disk made of a file: a file system on a loop device. The test decides when its power goes.
type image struct {
	t    *testing.T
	fs   string
	file string
	dir  string   // where it is mounted
	loop *os.File // the device; it lets the file go when nobody has it open any more
}

// diskBytes are the smallest images that have room enough: mkfs.xfs wants 300 MiB.
var diskBytes = map[string]int64{"ext4": 128 << 20, "xfs": 400 << 20}

var makers = map[string][]string{
	"ext4": {"-q", "-F", "-b", "4096", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"},
	"xfs":  {"-q", "-f", "-K"},
}

// eachDisk runs f for each file system that the machine can make and mount.
func eachDisk(t *testing.T, f func(t *testing.T, fs string)) {
	for _, fs := range []string{"ext4", "xfs"} {
		t.Run("fs="+fs, func(t *testing.T) {
			needDisk(t, fs)
			f(t, fs)
		})
	}
}

// needDisk skips the test where disks of the kind cannot be made.
func needDisk(t *testing.T, fs string) {
	t.Helper()
	if noNamespace != nil {
		t.Skip(noNamespace)
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skip("no loop devices: ", err)
	}
	if _, err := exec.LookPath("mkfs." + fs); err != nil {
		t.Skipf("no mkfs.%s (Debian: e2fsprogs, xfsprogs): %v", fs, err)
	}
}

// newImage makes a disk of n bytes in the directory within and mounts it.
func newImage(t *testing.T, fs, within string, n int64) *image {
	t.Helper()
	m := &image{t: t, fs: fs, file: filepath.Join(within, fs+".img"), dir: filepath.Join(within, fs)}
	if err := os.Mkdir(m.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(m.file)
	if err == nil {
		err = errors.Join(f.Truncate(n), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs."+fs, append(makers[fs], m.file)...).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.%s: %v: %s", fs, err, out)
	}
	t.Cleanup(func() {
		if err := m.unmount(); err != nil {
			t.Error(err)
		}
	})
	m.mount()
	return m
}

// mountTmpfs mounts a tmpfs of n bytes: where an image's file is in memory, a flush costs no time of a
// disk that others use too. Without huge pages a punched page is one page.
func mountTmpfs(t *testing.T, dir string, n int64) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,huge=never", n)); err != nil {
		t.Fatalf("mount tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount tmpfs: %v", err)
		}
	})
}

// mount attaches the file to a free loop device and mounts that.
func (m *image) mount() {
	m.t.Helper()
	err := m.attach()
	if err == nil {
		err = unix.Mount(m.loop.Name(), m.dir, m.fs, unix.MS_NOATIME, "")
	}
	if err != nil {
		m.t.Fatalf("mount %s: %v", m.file, err)
	}
}

func (m *image) attach() error {
	backing, err := os.OpenFile(m.file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer backing.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer control.Close()
	for range 100 { // others may take the one that was free
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return fmt.Errorf("free loop device: %w", err)
		}
		loop, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		c := unix.LoopConfig{Fd: uint32(backing.Fd())}
		c.Info.Flags = unix.LO_FLAGS_AUTOCLEAR
		if err = unix.IoctlLoopConfigure(int(loop.Fd()), &c); err == nil {
			m.loop = loop
			return m.onePageRequests()
		}
		loop.Close()
		if err != unix.EBUSY {
			return fmt.Errorf("configure %s: %w", loop.Name(), err)
		}
	}
	return errors.New("every free loop device was taken by somebody else")
}

// onePageRequests has the device take its writes page by page. Of a larger one that its file takes only the
// first part of, because there is no room for a page in the middle, Linux 6.18 reports success: the disk
// would lie, and no store could notice.
func (m *image) onePageRequests() error {
	name := filepath.Join("/sys/block", filepath.Base(m.loop.Name()), "queue/max_sectors_kb")
	return os.WriteFile(name, []byte("4"), 0)
}

// cut takes the power away: the kernel forgets what is not on the disk, its journal included, and every
// later write and flush is an error (XFS_IOC_GOINGDOWN without a flush of the log; ext4 has it too).
func (m *image) cut() {
	m.t.Helper()
	const goingDown, noLogFlush = 0x8004587d, 2
	d, err := os.Open(m.dir)
	if err == nil {
		err = errors.Join(unix.IoctlSetPointerInt(int(d.Fd()), goingDown, noLogFlush), d.Close())
	}
	if err != nil {
		m.t.Fatalf("cut %s: %v", m.dir, err)
	}
}

// cycle switches the disk off and on again. No process may have it open. It is detached in between, so
// that nothing of the device's cache is left.
func (m *image) cycle() {
	m.t.Helper()
	if err := m.unmount(); err != nil {
		m.t.Fatal(err)
	}
	m.mount()
}

// unmount unmounts and detaches what is there. A killed process's ring is taken down behind its back and
// may have files open for a moment.
func (m *image) unmount() error {
	if m.loop == nil {
		return nil
	}
	err := patiently(func() error { return unix.Unmount(m.dir, 0) }, unix.EBUSY)
	if err != nil && err != unix.EINVAL { // EINVAL: it was attached and not mounted
		return fmt.Errorf("unmount %s: %w", m.dir, err)
	}
	loop := m.loop
	m.loop = nil
	attached := filepath.Join("/sys/block", filepath.Base(loop.Name()), "loop/backing_file")
	if err := loop.Close(); err != nil {
		return err
	}
	return patiently(func() error {
		if holds, err := os.ReadFile(attached); err == nil && string(holds) == m.file+"\n" {
			return fmt.Errorf("%s still holds %s: %w", loop.Name(), m.file, errHeld)
		}
		return nil
	}, errHeld)
}

var errHeld = errors.New("held")

// patiently repeats call while its error is again, as long as patience lasts.
func patiently(call func() error, again error) error {
	for end := time.Now().Add(patience); ; {
		err := call()
		if !errors.Is(err, again) || time.Now().After(end) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}
