// Package host reads what the kernel counts about a process and a disk: the cost of a load as seen from outside.
package host

import (
	"bufio"
	"fmt"
	"os"
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
func OwnMemory(pid int) (int64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var sum int64
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if name != "RssAnon" && name != "RssShmem" {
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
