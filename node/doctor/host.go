package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ringmq/uring"
)

// Host is what the checks ask. Machine fills it in; a test gives other answers.
type Host struct {
	Root    fs.FS // the file system from its root: proc, sys, the data
	Kernel  string
	CPUs    int
	Memory  int64        // bytes of the machine
	Files   uint64       // descriptors that the process may open
	Memlock uint64       // bytes that it may lock
	Ring    func() error // tries for an io_uring
	// Volume is asked about a directory that need not exist yet.
	Volume  func(dir string) (Volume, error)
	Measure func(dir string) (Measured, error)
}

// Volume is the file system that a directory is on, or will be.
type Volume struct {
	Path        string // the nearest directory that exists, without links
	Bytes, Used int64  // as df counts: what only root may use is not in Bytes
	Free        int64
}

// Measured is what a disk did.
type Measured struct {
	P50, P99    time.Duration // of a 4 KiB write and its fdatasync, in blocks that were written before
	BytesPerSec float64       // of large writes, made durable once
}

// Machine is the host that this runs on. ctx ends a measurement.
func Machine(ctx context.Context) (Host, error) {
	h := Host{Root: os.DirFS("/"), CPUs: runtime.NumCPU(), Ring: tryRing, Volume: volumeOf}
	h.Measure = func(dir string) (Measured, error) { return measure(ctx, dir) }
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return h, fmt.Errorf("doctor: uname: %w", err)
	}
	h.Kernel = unix.ByteSliceToString(uts.Release[:])
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return h, fmt.Errorf("doctor: sysinfo: %w", err)
	}
	h.Memory = int64(info.Totalram) * int64(info.Unit)
	for resource, to := range map[int]*uint64{unix.RLIMIT_NOFILE: &h.Files, unix.RLIMIT_MEMLOCK: &h.Memlock} {
		var limit unix.Rlimit
		if err := unix.Getrlimit(resource, &limit); err != nil {
			return h, fmt.Errorf("doctor: getrlimit: %w", err)
		}
		*to = limit.Cur
		if resource == unix.RLIMIT_NOFILE {
			*to = limit.Max // Go raises the soft limit to it
		}
	}
	return h, nil
}

func tryRing() error {
	r, err := uring.NewRing(16) // as large as the log's
	if err != nil {
		return err
	}
	return r.Close()
}

func volumeOf(dir string) (Volume, error) {
	at, err := filepath.Abs(dir)
	if err != nil {
		return Volume{}, err
	}
	for {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			at = real
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || at == "/" {
			return Volume{}, err
		}
		at = filepath.Dir(at)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(at, &st); err != nil {
		return Volume{}, fmt.Errorf("statfs %s: %w", at, err)
	}
	block := int64(st.Bsize)
	v := Volume{Path: at, Used: int64(st.Blocks-st.Bfree) * block, Free: int64(st.Bavail) * block}
	v.Bytes = v.Used + v.Free
	return v, nil
}

const (
	measureBytes = 64 << 20
	measureRoom  = 8 * measureBytes // what must be free
	measureCount = 200
	measureTime  = 2 * time.Second // of each of the two parts
)

// measure writes a temporary file: once in large pieces, which tells the rate and prepares its blocks, and then page by
// page with an fdatasync after each, as the log of one sender is written.
func measure(ctx context.Context, dir string) (m Measured, err error) {
	f, err := os.CreateTemp(dir, "ringmq-doctor-")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	const piece, page = 1 << 20, 4 << 10
	buf := make([]byte, piece)
	for i := range buf {
		buf[i] = byte(i * 7919 >> 3) // nothing that a disk could leave out
	}
	begin, written := time.Now(), int64(0)
	for written < measureBytes && time.Since(begin) < measureTime && ctx.Err() == nil {
		n, err := f.WriteAt(buf, written)
		if err != nil {
			return m, err
		}
		written += int64(n)
	}
	if err := unix.Fdatasync(int(f.Fd())); err != nil {
		return m, fmt.Errorf("fdatasync: %w", err)
	}
	m.BytesPerSec = float64(written) / time.Since(begin).Seconds()

	var took []time.Duration
	for begin := time.Now(); len(took) < measureCount && time.Since(begin) < measureTime && ctx.Err() == nil; {
		at := int64(len(took)) * page % written
		one := time.Now()
		if _, err := f.WriteAt(buf[:page], at); err != nil {
			return m, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return m, fmt.Errorf("fdatasync: %w", err)
		}
		took = append(took, time.Since(one))
	}
	if err := ctx.Err(); err != nil {
		return m, err
	}
	slices.Sort(took)
	m.P50, m.P99 = took[len(took)/2], took[len(took)*99/100]
	return m, nil
}

// read returns a small file of proc or sys without the line's end, "" if there is none.
func (h *Host) read(name string) string {
	b, err := fs.ReadFile(h.Root, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// sysctl returns the value of a key such as vm.swappiness.
func (h *Host) sysctl(key string) string {
	return h.read("proc/sys/" + strings.ReplaceAll(key, ".", "/"))
}

// number is the sysctl as a number; false if there is none.
func (h *Host) number(key string) (int64, bool) {
	n, err := strconv.ParseInt(h.sysctl(key), 10, 64)
	return n, err == nil
}

// chosen is the word in brackets of a file such as "always [madvise] never".
func chosen(text string) string {
	_, rest, ok := strings.Cut(text, "[")
	word, _, closed := strings.Cut(rest, "]")
	if !ok || !closed {
		return text
	}
	return word
}

// bytesText is a number of bytes for people.
func bytesText(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	f, i := float64(n), 0
	for ; f >= 1024 && i < len(units)-1; i++ {
		f /= 1024
	}
	if f == math.Trunc(f) || f >= 100 {
		return fmt.Sprintf("%.0f %s", f, units[i])
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}
