// Package host reads what the kernel counts about a process and a disk: the cost of a load as seen from outside.
package host

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ticksPerSecond is the unit of times in /proc/PID/stat: fixed at 100 by the kernel's ABI (proc(5), USER_HZ).
const ticksPerSecond = 100

// CPU is the processor time that a process used so far, in user space and in the kernel.
func CPU(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseCPU(string(b))
}

// parseCPU takes fields 14 and 15 of a line of proc(5) stat. The name in field 2 may hold blanks and parentheses.
func parseCPU(stat string) (time.Duration, error) {
	_, rest, ok := cutLast(stat, ')')
	fields := strings.Fields(rest)
	const utime, stime = 14 - 3, 15 - 3 // rest begins with field 3
	if !ok || len(fields) <= stime {
		return 0, fmt.Errorf("host: no stat of a process: %q", stat)
	}
	var ticks int64
	for _, at := range []int{utime, stime} {
		n, err := strconv.ParseInt(fields[at], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("host: stat field %q: %w", fields[at], err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

func cutLast(s string, sep byte) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// OwnMemory is a process's resident anonymous and shared memory in bytes. Pages of files, which the kernel takes back
// at will, are not in it.
func OwnMemory(pid int) (int64, error) { return status(pid, "RssAnon", "RssShmem") }

// Resident is all memory of a process that is resident, pages of mapped files included, in bytes.
func Resident(pid int) (int64, error) { return status(pid, "VmRSS") }

// status is the sum of some fields of proc(5) status, which are in KiB, in bytes.
func status(pid int, names ...string) (sum int64, err error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if !slices.Contains(names, name) {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("host: %s of process %d: %w", name, pid, err)
		}
		sum += kib << 10
	}
	return sum, lines.Err()
}

// Disk is the block device that holds a folder.
type Disk struct{ stat string }

// DiskOf finds it. A folder on a file system without a device of its own, such as tmpfs or overlayfs, is an error.
func DiskOf(dir string) (Disk, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return Disk{}, fmt.Errorf("host: %s: %w", dir, err)
	}
	d := Disk{fmt.Sprintf("/sys/dev/block/%d:%d/stat", unix.Major(st.Dev), unix.Minor(st.Dev))}
	if _, err := d.Written(); err != nil {
		return Disk{}, fmt.Errorf("host: %s is on no block device: %w", dir, err)
	}
	return d, nil
}

// Written is how many bytes the device was given to write since it came up, by anybody.
func (d Disk) Written() (int64, error) {
	b, err := os.ReadFile(d.stat)
	if err != nil {
		return 0, err
	}
	return parseWritten(string(b))
}

// parseWritten takes field 7 of a block device's stat, in sectors of 512 bytes whatever the device's own are
// (Documentation/block/stat.rst of the kernel).
func parseWritten(stat string) (int64, error) {
	fields := strings.Fields(stat)
	if len(fields) < 7 {
		return 0, fmt.Errorf("host: no stat of a block device: %q", stat)
	}
	sectors, err := strconv.ParseInt(fields[6], 10, 64)
	return sectors * 512, err
}

// Describe says on which machine figures of a folder were measured: kernel, processors, memory, file system, device.
// What cannot be found out is left out.
func Describe(dir string) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	var uts unix.Utsname
	if unix.Uname(&uts) == nil {
		add("Linux %s", unix.ByteSliceToString(uts.Release[:]))
	}
	add("%d x %s", runtime.NumCPU(), cmp.Or(field("/proc/cpuinfo", "model name"), runtime.GOARCH))
	if memory := field("/proc/meminfo", "MemTotal"); memory != "" {
		add("memory %s", memory)
	}
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) == nil {
		add("%s", cmp.Or(fileSystems[int64(fs.Type)], fmt.Sprintf("file system %#x", fs.Type)))
	}
	if d, err := DiskOf(dir); err == nil {
		add("%s", d.describe())
	}
	return strings.Join(parts, ", ")
}

var fileSystems = map[int64]string{unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "XFS", unix.BTRFS_SUPER_MAGIC: "Btrfs", unix.TMPFS_MAGIC: "tmpfs", unix.OVERLAYFS_SUPER_MAGIC: "overlayfs"}

// field is the value of the first "name : value" line of a file of the kernel, "" if there is none.
func field(file, name string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// describe names the device and how it takes writes.
func (d Disk) describe() string {
	folder, err := filepath.EvalSymlinks(filepath.Dir(d.stat))
	if err != nil {
		return "unknown device"
	}
	text := filepath.Base(folder)
	for _, name := range []string{"scheduler", "write_cache", "fua"} {
		b, err := os.ReadFile(filepath.Join(folder, "queue", name))
		if os.IsNotExist(err) { // a partition has none of its own
			b, err = os.ReadFile(filepath.Join(filepath.Dir(folder), "queue", name))
		}
		if err == nil {
			text += fmt.Sprintf(" %s=%s", name, strings.ReplaceAll(strings.TrimSpace(string(b)), " ", "|"))
		}
	}
	return text
}

// ReadBytes is what a process was given by read(2) and its like so far, from files, sockets and all else, and what it passed on
// by sendfile(2). Bytes that the kernel takes from a mapping are not in it.
func ReadBytes(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, "rchar: "); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("host: no rchar of process %d: %q", pid, b)
}
