// Package cgroup tells what the control groups of this process leave it: memory and processors.
package cgroup

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// None is the memory limit where there is none.
const None = math.MaxInt64

// Limits returns the lowest limits among the control groups of this process and those above them, of version 2 and of
// version 1: bytes of memory (None without a limit) and processors (0 without a limit). root is where proc and sys hang.
// What cannot be read limits nothing.
func Limits(root fs.FS) (memory int64, cpus float64) {
	memory = None
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return memory, 0
	}
	lowerCPUs := func(quota, period float64) {
		if quota > 0 && period > 0 && (cpus == 0 || quota/period < cpus) {
			cpus = quota / period
		}
	}
	for line := range strings.Lines(string(text)) { // hierarchy:controllers:path, see cgroups(7)
		hierarchy, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, ok := strings.Cut(rest, ":")
		switch {
		case !ok:
		case hierarchy == "0" && controllers == "": // version 2
			upwards("sys/fs/cgroup", group, func(dir string) {
				memory = min(memory, number(root, path.Join(dir, "memory.max")))
				if f := strings.Fields(read(root, path.Join(dir, "cpu.max"))); len(f) == 2 {
					quota, _ := strconv.ParseFloat(f[0], 64) // 0 for "max"
					period, _ := strconv.ParseFloat(f[1], 64)
					lowerCPUs(quota, period)
				}
			})
		case controllers == "memory":
			upwards("sys/fs/cgroup/memory", group, func(dir string) {
				memory = min(memory, number(root, path.Join(dir, "memory.limit_in_bytes")))
			})
		case controllers == "cpu" || strings.HasPrefix(controllers, "cpu,"):
			upwards("sys/fs/cgroup/cpu", group, func(dir string) {
				quota, _ := strconv.ParseFloat(read(root, path.Join(dir, "cpu.cfs_quota_us")), 64) // -1: none
				period, _ := strconv.ParseFloat(read(root, path.Join(dir, "cpu.cfs_period_us")), 64)
				lowerCPUs(quota, period)
			})
		}
	}
	return memory, cpus
}

// upwards calls look with the folder of a group and of all above it. A container may see its group as the top, under a
// path that only its host has: what is missing is passed over by the readers.
func upwards(top, group string, look func(dir string)) {
	for at := path.Join("/", group); ; at = path.Dir(at) {
		look(path.Join(top, at))
		if at == "/" {
			return
		}
	}
}

// number reads a limit. Version 1 has no word for "none", but a number beyond any machine.
func number(root fs.FS, name string) int64 {
	n, err := strconv.ParseInt(read(root, name), 10, 64)
	if err != nil || n >= 1<<60 {
		return None
	}
	return n
}

func read(root fs.FS, name string) string {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
