package cgroup

import (
	"testing"
	"testing/fstest"
)

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name, groups string
		files        map[string]string
		memory       int64
		cpus         float64
	}{
		{"no cgroup file", "", nil, None, 0},
		{"no limit", "0::/a/b\n", map[string]string{"a/memory.max": "max", "a/b/memory.max": "max\n", "a/b/cpu.max": "max 100000\n"}, None, 0},
		{"own limit", "0::/a/b\n", map[string]string{"a/memory.max": "max", "a/b/memory.max": "536870912\n", "a/b/cpu.max": "150000 100000\n"}, 512 << 20, 1.5},
		{"the parent's is lower", "0::/a/b\n", map[string]string{"a/memory.max": "4096", "a/b/memory.max": "536870912", "a/cpu.max": "50000 100000", "a/b/cpu.max": "200000 100000"}, 4096, 0.5},
		{"at the root of a container", "12:cpuset:/\n0::/\n", map[string]string{"memory.max": "1048576"}, 1 << 20, 0},
		{"version 1", "4:memory:/x/y\n3:cpu,cpuacct:/x\n0::/\n", map[string]string{
			"memory/x/memory.limit_in_bytes": "1073741824\n", "memory/x/y/memory.limit_in_bytes": "9223372036854771712\n",
			"cpu/x/cpu.cfs_quota_us": "200000", "cpu/x/cpu.cfs_period_us": "100000",
		}, 1 << 30, 2},
		{"version 1, seen from inside", "4:memory:/docker/abc\n3:cpu:/docker/abc\n", map[string]string{
			"memory/memory.limit_in_bytes": "268435456\n", "cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000",
		}, 256 << 20, 0},
	} {
		root := fstest.MapFS{"proc/self/cgroup": {Data: []byte(c.groups)}}
		for name, text := range c.files {
			root["sys/fs/cgroup/"+name] = &fstest.MapFile{Data: []byte(text)}
		}
		if memory, cpus := Limits(root); memory != c.memory || cpus != c.cpus {
			t.Errorf("%s: %d bytes, %v processors, want %d, %v", c.name, memory, cpus, c.memory, c.cpus)
		}
	}
}
