package node

import (
	"os"
	"path/filepath"
	"testing"

	"ringmq/netio"
)

func TestMemoryIsWhatTheControlGroupsLeave(t *testing.T) {
	const none = 1 << 62
	for _, c := range []struct {
		name, groups string
		limits       map[string]string
		want         int64
	}{
		{"no cgroup file", "", nil, none},
		{"version 1 only", "4:memory:/x\n", map[string]string{"x": "1024"}, none},
		{"no limit", "0::/a/b\n", map[string]string{"a": "max", "a/b": "max"}, none},
		{"own limit", "0::/a/b\n", map[string]string{"a": "max", "a/b": "536870912\n"}, 512 << 20},
		{"the parent's is lower", "0::/a/b\n", map[string]string{"a": "4096", "a/b": "536870912"}, 4096},
		{"at the root of a container", "12:cpu:/\n0::/\n", map[string]string{"": "1048576"}, 1 << 20},
	} {
		root := t.TempDir()
		write(t, filepath.Join(root, "proc/self/cgroup"), c.groups)
		for dir, text := range c.limits {
			write(t, filepath.Join(root, "sys/fs/cgroup", dir, "memory.max"), text)
		}
		if got := cgroupBytes(root); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestBoundsFitTheMachine: an operator who gives a container 256 MiB must not find 512 MiB of buffers in it, and one whose
// descriptors are few must get refused connections, not a log that cannot open its next segment.
func TestBoundsFitTheMachine(t *testing.T) {
	var large, small netio.Options
	fit(&large, 64<<30, 1<<20)
	if large.MaxInBytes != 256<<20 || large.MaxOutBytes != 256<<20 || large.MaxConns != 65536 {
		t.Errorf("a large machine has %+v", large)
	}
	fit(&small, 256<<20, 1024)
	if small.MaxInBytes > 64<<20 || small.MaxOutBytes > 64<<20 || small.MaxConnOutBytes > 16<<20 || small.MaxConns != 256 {
		t.Errorf("a small machine has %+v", small)
	}
	small.Addrs = []string{"127.0.0.1:0"}
	if err := small.Check(); err != nil {
		t.Errorf("the bounds of a small machine are refused: %v", err)
	}
}
