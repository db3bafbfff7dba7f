package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// wellFiles is a host on which nothing is to be said.
var wellFiles = map[string]string{
	"proc/sys/vm/max_map_count":                                         "65530",
	"proc/sys/vm/zone_reclaim_mode":                                     "0",
	"proc/sys/vm/swappiness":                                            "60",
	"proc/sys/vm/dirty_background_bytes":                                "0",
	"proc/sys/vm/dirty_background_ratio":                                "10",
	"proc/sys/vm/dirty_bytes":                                           "0",
	"proc/sys/vm/dirty_ratio":                                           "20",
	"proc/sys/vm/dirty_writeback_centisecs":                             "500",
	"proc/sys/vm/dirty_expire_centisecs":                                "3000",
	"proc/sys/net/core/somaxconn":                                       "4096",
	"proc/sys/net/ipv4/tcp_rmem":                                        "4096 131072 6291456",
	"proc/sys/net/ipv4/tcp_wmem":                                        "4096 16384 4194304",
	"proc/sys/net/ipv4/tcp_moderate_rcvbuf":                             "1",
	"proc/sys/kernel/io_uring_disabled":                                 "0",
	"proc/self/status":                                                  "Name:\tringmq\nSeccomp:\t0\n",
	"proc/self/cgroup":                                                  "0::/\n",
	"proc/swaps":                                                        "Filename\tType\tSize\tUsed\tPriority\n",
	"proc/self/mountinfo":                                               "20 1 259:1 / / rw,relatime - ext4 /dev/nvme0n1p1 rw\n21 20 259:3 / /srv/my\\040data rw - xfs /dev/nvme1n1 rw\n",
	"sys/devices/system/clocksource/clocksource0/current_clocksource":   "tsc",
	"sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc hpet",
	"sys/devices/system/node/node0/cpulist":                             "0-7",
	"sys/kernel/mm/transparent_hugepage/enabled":                        "always [madvise] never",
	"sys/kernel/mm/transparent_hugepage/defrag":                         "always defer [madvise] never",
	"sys/block/nvme0n1/dev":                                             "259:0",
	"sys/block/nvme0n1/nvme0n1p1/dev":                                   "259:1",
	"sys/block/nvme0n1/queue/write_cache":                               "write back",
	"sys/block/nvme0n1/queue/fua":                                       "1",
	"sys/block/nvme0n1/queue/scheduler":                                 "[none] mq-deadline",
	"sys/block/nvme0n1/queue/rotational":                                "0",
	"sys/block/nvme0n1/queue/discard_max_bytes":                         "2147483648",
	"sys/block/sda/dev":                                                 "8:0",
	"sys/block/sda/sda1/dev":                                            "8:1",
	"sys/block/sda/queue/write_cache":                                   "write back",
	"sys/block/sda/queue/fua":                                           "0",
	"sys/block/sda/queue/scheduler":                                     "none [mq-deadline]",
	"sys/block/sda/queue/rotational":                                    "1",
	"sys/block/dm-0/dev":                                                "253:0",
	"sys/block/dm-0/slaves/sda1/dev":                                    "8:1",
}

// world is a host that a test bends.
type world struct {
	Host
	files   fstest.MapFS
	volume  Volume
	options Options
}

func well() *world {
	w := &world{files: fstest.MapFS{}}
	for name, text := range wellFiles {
		w.set(name, text)
	}
	w.volume = Volume{Path: "/data", Bytes: 1000 << 30, Used: 100 << 30, Free: 900 << 30}
	w.Host = Host{
		Root: w.files, Kernel: "6.12.3-amd64", CPUs: 8, Memory: 16 << 30, Files: 1 << 20, Memlock: 8 << 20,
		Ring:   func() error { return nil },
		Volume: func(string) (Volume, error) { return w.volume, nil },
		Measure: func(string) (Measured, error) {
			return Measured{P50: 40 * time.Microsecond, P99: 300 * time.Microsecond, BytesPerSec: 1 << 30}, nil
		},
	}
	w.options = Options{Dir: "/data", SegmentBytes: 1 << 30, FlushSync: true, Keep: 72 * time.Hour, ForcePercent: 85, WarnPercent: 90}
	return w
}

func (w *world) set(name, text string) { w.files[name] = &fstest.MapFile{Data: []byte(text + "\n")} }

// mounts makes the data directory a mount of its own.
func (w *world) mount(text string) {
	w.set("proc/self/mountinfo", "20 1 8:9 / / rw - ext4 /dev/root rw\n30 20 "+text)
}

func (w *world) measures(m Measured, err error) {
	w.Measure = func(string) (Measured, error) { return m, err }
}

func (w *world) refuse(reason string) { w.Ring = func() error { return errors.New(reason) } }

// logFile puts a file of the log at an age before now.
func (w *world) logFile(i int, now time.Time, age time.Duration) {
	w.files[fmt.Sprintf("data/commitlog/%020d", i<<30)] = &fstest.MapFile{Data: make([]byte, 1<<20), ModTime: now.Add(-age)}
}

func TestAWellHost(t *testing.T) {
	w := well()
	r := Examine(w.Host, w.options)
	for _, l := range r.Lines {
		if l.Verdict != OK || l.Do != "" || l.Sysctl != nil || l.Why == "" || l.Value == "" {
			t.Errorf("%+v", l)
		}
	}
	if r.Worst != OK || len(r.Lines) != 20 {
		t.Errorf("%v after %d checks", r.Worst, len(r.Lines))
	}
}

// TestVerdicts bends one thing at a time.
func TestVerdicts(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		bend    string
		do      func(*world)
		check   string
		verdict Verdict
		says    string // in value, reason or change
		sysctl  string
	}{
		{"old kernel", func(w *world) { w.Kernel = "4.19.0-25" }, "kernel", Warn, "6.5 or later", ""},
		{"kernel without cachestat", func(w *world) { w.Kernel = "6.1.0-18-amd64" }, "kernel", Note, "each is a new file", ""},

		{"ring off by sysctl", func(w *world) { w.refuse("EPERM"); w.set("proc/sys/kernel/io_uring_disabled", "2") }, "io_uring", Note, "sysctl -w kernel.io_uring_disabled=0", "kernel.io_uring_disabled=0"},
		{"ring for a group", func(w *world) { w.refuse("EPERM"); w.set("proc/sys/kernel/io_uring_disabled", "1") }, "io_uring", Note, "io_uring_group", "kernel.io_uring_disabled=0"},
		{"ring off by seccomp", func(w *world) { w.refuse("EPERM"); w.set("proc/self/status", "Seccomp:\t2") }, "io_uring", Note, "seccomp=", ""},
		{"ring too old", func(w *world) { w.refuse("ENOSYS"); w.Kernel = "5.4.0" }, "io_uring", Note, "5.11 or later", ""},
		{"ring without memory", func(w *world) { w.refuse("ENOMEM"); w.Kernel = "5.11.0" }, "io_uring", Note, "LimitMEMLOCK", ""},
		{"ring forbidden by who knows", func(w *world) { w.refuse("EPERM") }, "io_uring", Note, "CONFIG_IO_URING", ""},
		{"ring not wanted", func(w *world) { w.refuse("EPERM"); w.options.NoRing = true }, "io_uring", OK, "ioEngine=posix", ""},

		{"memlock on a new kernel", func(w *world) { w.Memlock = 0 }, "locked memory", OK, "0 B", ""},
		{"memlock on an old one", func(w *world) { w.Memlock, w.Kernel = 32<<10, "5.11.4" }, "locked memory", Warn, "LimitMEMLOCK", ""},
		{"some files", func(w *world) { w.Files = 20000 }, "open files", Note, "17952 connections", ""},
		{"few files", func(w *world) { w.Files = 1024 }, "open files", Bad, "LimitNOFILE", ""},
		{"few mappings", func(w *world) { w.set("proc/sys/vm/max_map_count", "1000") }, "vm.max_map_count", Warn, "maps none", "vm.max_map_count=65530"},
		{"slow clock", func(w *world) { w.set("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet") }, "clock", Warn, "(tsc hpet)", ""},
		{"a tight quota", func(w *world) { w.set("sys/fs/cgroup/cpu.max", "150000 100000") }, "processors", Warn, "quota of the control group 1.5", ""},
		{"a wide quota", func(w *world) { w.set("sys/fs/cgroup/cpu.max", "400000 100000") }, "processors", Note, "4.0", ""},
		{"a quota over all there is", func(w *world) { w.set("sys/fs/cgroup/cpu.max", "900000 100000") }, "processors", OK, "8", ""},
		{"one processor", func(w *world) { w.CPUs = 1 }, "processors", Warn, "give it two", ""},
		{"two memories", func(w *world) { w.set("sys/devices/system/node/node1/cpulist", "8-15") }, "NUMA", Note, "NUMAPolicy", ""},
		{"memory reclaimed by zone", func(w *world) { w.set("proc/sys/vm/zone_reclaim_mode", "1") }, "NUMA", Warn, "zone_reclaim_mode=1", "vm.zone_reclaim_mode=0"},

		{"no data directory", func(w *world) { w.Volume = func(string) (Volume, error) { return Volume{}, fs.ErrPermission } }, "data directory", Bad, "permission", ""},
		{"mount unknown", func(w *world) { w.set("proc/self/mountinfo", "") }, "file system", Note, "no mount", ""},
		{"a blank in the name", func(w *world) { w.volume.Path = "/srv/my data/x" }, "file system", OK, "xfs on /srv/my data", ""},
		{"a neighbour with a longer name", func(w *world) { w.mount("259:1 / /dat rw - tmpfs tmpfs rw") }, "file system", OK, "ext4 on /", ""},
		{"mounted twice", func(w *world) {
			w.mount("259:1 / /data rw - tmpfs tmpfs rw\n31 30 259:1 / /data rw - xfs /dev/x rw")
		}, "file system", OK, "xfs", ""},
		{"no barriers", func(w *world) { w.mount("259:1 / /data rw - ext4 /dev/x rw,nobarrier") }, "file system", Bad, "remount,barrier=1 /data", ""},
		{"read only", func(w *world) { w.mount("259:1 / /data ro - ext4 /dev/x rw") }, "file system", Bad, "remount,rw", ""},
		{"in memory", func(w *world) { w.mount("0:5 / /data rw - tmpfs tmpfs rw") }, "file system", Bad, "gone", ""},
		{"in a container's layer", func(w *world) { w.mount("0:5 / /data rw - overlay overlay rw") }, "file system", Warn, "a volume", ""},
		{"copy on write", func(w *world) { w.mount("0:5 / /data rw - btrfs /dev/nvme0n1p1 rw") }, "file system", Warn, "moves", ""},
		{"on a server", func(w *world) { w.mount("0:5 / /data rw - nfs4 srv:/x rw") }, "file system", Warn, "server", ""},
		{"never tried", func(w *world) { w.mount("0:5 / /data rw - f2fs /dev/nvme0n1p1 rw") }, "file system", Note, "ext4 and XFS", ""},
		{"journalled data", func(w *world) { w.mount("259:1 / /data rw - ext4 /dev/x rw,data=journal") }, "file system", Warn, "twice", ""},
		{"synchronous", func(w *world) { w.mount("259:1 / /data rw,sync - ext4 /dev/x rw") }, "file system", Warn, "remount,async", ""},
		{"times of access", func(w *world) { w.mount("259:1 / /data rw,strictatime - ext4 /dev/x rw") }, "file system", Warn, "remount,relatime", ""},

		{"no device", func(w *world) { w.mount("0:5 / /data rw - ext4 /dev/gone rw") }, "device", Note, "/dev/gone", ""},
		{"device by its name", func(w *world) { w.mount("0:40 / /data rw - btrfs /dev/nvme0n1p1 rw") }, "write cache of nvme0n1", OK, "fua=1", ""},
		{"a disk below a volume", func(w *world) { w.mount("253:0 / /data rw - ext4 /dev/mapper/v rw") }, "write cache of sda", Note, "without FUA", ""},
		{"no cache, it says", func(w *world) { w.set("sys/block/nvme0n1/queue/write_cache", "write through") }, "write cache of nvme0n1", Note, "word", ""},
		{"a cache that nobody knows", func(w *world) { delete(w.files, "sys/block/nvme0n1/queue/write_cache") }, "write cache of nvme0n1", Note, "unknown", ""},
		{"it rotates", func(w *world) { w.mount("8:1 / /data rw - ext4 /dev/sda1 rw") }, "queue of sda", Note, "one rotation", ""},
		{"it rotates unsorted", func(w *world) {
			w.mount("8:1 / /data rw - ext4 /dev/sda1 rw")
			w.set("sys/block/sda/queue/scheduler", "[none] mq-deadline")
		}, "queue of sda", Warn, "echo mq-deadline", ""},
		{"bfq", func(w *world) { w.set("sys/block/nvme0n1/queue/scheduler", "none [bfq]") }, "queue of nvme0n1", Warn, "echo mq-deadline", ""},
		{"discards", func(w *world) { w.mount("259:1 / /data rw - ext4 /dev/x rw,discard") }, "queue of nvme0n1", Note, "fstrim.timer", ""},
		{"discards that the disk does not know", func(w *world) {
			w.mount("259:1 / /data rw - ext4 /dev/x rw,discard")
			w.set("sys/block/nvme0n1/queue/discard_max_bytes", "0")
		}, "queue of nvme0n1", OK, "", ""},
		{"a virtual disk says that it rotates", func(w *world) {
			w.mount("254:0 / /data rw - ext4 /dev/vda rw")
			for name, text := range map[string]string{"dev": "254:0", "queue/rotational": "1", "queue/scheduler": "[none]", "queue/write_cache": "write back", "queue/fua": "1"} {
				w.set("sys/block/vda/"+name, text)
			}
		}, "queue of vda", OK, "virtual", ""},

		{"too quick", func(w *world) { w.measures(Measured{P50: 3 * time.Microsecond, BytesPerSec: 1 << 30}, nil) }, "fdatasync", Note, "power cut", ""},
		{"slow", func(w *world) { w.measures(Measured{P50: 12 * time.Millisecond, BytesPerSec: 1 << 30}, nil) }, "fdatasync", Warn, "ASYNC_FLUSH", ""},
		{"slow, which does not matter", func(w *world) {
			w.measures(Measured{P50: 12 * time.Millisecond, P99: time.Second, BytesPerSec: 1 << 30}, nil)
			w.options.FlushSync = false
		}, "fdatasync", OK, "p50 12ms", ""},
		{"slow at times", func(w *world) {
			w.measures(Measured{P50: time.Millisecond, P99: 80 * time.Millisecond, BytesPerSec: 1 << 30}, nil)
		}, "fdatasync", Warn, "iostat", ""},
		{"slow to write", func(w *world) { w.measures(Measured{P50: time.Millisecond, BytesPerSec: 20 << 20}, nil) }, "write rate", Warn, "20 MiB/s", ""},
		{"cannot write", func(w *world) { w.measures(Measured{}, fs.ErrPermission) }, "fdatasync", Warn, "user of the node", ""},
		{"no room to measure", func(w *world) { w.volume.Free = 1 << 20 }, "fdatasync", Note, "less than 512 MiB", ""},
		{"told not to", func(w *world) {
			w.options.NoMeasure = true
			w.measures(Measured{}, errors.New("measured"))
		}, "fdatasync", OK, "not measured", ""},

		{"stock's write-back", func(w *world) {
			w.set("proc/sys/vm/dirty_ratio", "50")
			w.set("proc/sys/vm/dirty_background_ratio", "50")
			w.set("proc/sys/vm/dirty_writeback_centisecs", "360000")
		}, "vm.dirty_*", Warn, "1h0m0s", "vm.dirty_ratio=20 vm.dirty_background_ratio=10 vm.dirty_writeback_centisecs=500"},
		{"no write-back by time", func(w *world) { w.set("proc/sys/vm/dirty_writeback_centisecs", "0") }, "vm.dirty_*", Warn, "", "vm.dirty_writeback_centisecs=500"},
		{"late write-back", func(w *world) { w.set("proc/sys/vm/dirty_expire_centisecs", "30000") }, "vm.dirty_*", Warn, "5m0s", "vm.dirty_expire_centisecs=3000"},
		{"writers wait early", func(w *world) { w.set("proc/sys/vm/dirty_bytes", "1048576") }, "vm.dirty_*", Warn, "1 MiB", "vm.dirty_bytes=268435456"},
		{"writers wait early by ratio", func(w *world) { w.set("proc/sys/vm/dirty_ratio", "0") }, "vm.dirty_*", OK, "0 B", ""},

		{"little memory in a group", func(w *world) { w.set("sys/fs/cgroup/memory.max", "268435456") }, "memory", Warn, "limit of the control group 256 MiB", ""},
		{"much memory in a group", func(w *world) { w.set("sys/fs/cgroup/memory.max", "2147483648") }, "memory", OK, "limit of the control group 2 GiB", ""},
		{"swap", func(w *world) { w.set("proc/swaps", "Filename\n/dev/sda2 partition") }, "swap", Warn, "1 device(s), vm.swappiness=60", "vm.swappiness=1"},
		{"swap as the last resort", func(w *world) {
			w.set("proc/swaps", "Filename\n/dev/sda2 partition")
			w.set("proc/sys/vm/swappiness", "1")
		}, "swap", OK, "vm.swappiness=1", ""},
		{"huge pages at any price", func(w *world) {
			w.set("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never")
			w.set("sys/kernel/mm/transparent_hugepage/defrag", "[always] defer madvise never")
		}, "huge pages", Warn, "echo madvise", ""},
		{"huge pages where they are easy", func(w *world) { w.set("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never") }, "huge pages", OK, "always", ""},
		{"no huge pages", func(w *world) { w.set("sys/kernel/mm/transparent_hugepage/enabled", "") }, "huge pages", OK, "not built in", ""},
		{"short accept queue", func(w *world) { w.set("proc/sys/net/core/somaxconn", "128") }, "net.core.somaxconn", Warn, "restart", "net.core.somaxconn=4096"},
		{"small buffers", func(w *world) { w.set("proc/sys/net/ipv4/tcp_wmem", "4096 16384 262144") }, "socket buffers", Note, "256 KiB", "net.ipv4.tcp_wmem=4096 16384 4194304"},
		{"fixed buffers", func(w *world) { w.set("proc/sys/net/ipv4/tcp_moderate_rcvbuf", "0") }, "socket buffers", Warn, "tcp_moderate_rcvbuf=0", "net.ipv4.tcp_moderate_rcvbuf=1"},
		{"no IPv4", func(w *world) {
			delete(w.files, "proc/sys/net/ipv4/tcp_wmem")
			delete(w.files, "proc/sys/net/ipv4/tcp_rmem")
		}, "socket buffers", OK, "unknown", ""},

		{"full", func(w *world) { w.volume.Used, w.volume.Free = 95<<30, 5<<30; w.volume.Bytes = 100 << 30 }, "space", Bad, "refused", ""},
		{"nearly full", func(w *world) { w.volume.Used, w.volume.Free = 870<<30, 130<<30 }, "space", Warn, "87% used", ""},
		{"less than the least", func(w *world) { w.options.MinFreeBytes = 950 << 30 }, "space", Bad, "refused", ""},
		{"no room for a file", func(w *world) { w.options.SegmentBytes = 400 << 30 }, "space", Bad, "mappedFileSizeCommitLog", ""},
		{"the disk holds two days", func(w *world) {
			w.volume = Volume{Path: "/data", Bytes: 100 << 20, Used: 30 << 20, Free: 70 << 20} // room for 62 MiB of log
			w.options.SegmentBytes = 1 << 20
			for i := range 7 {
				w.logFile(i, now, time.Duration(6-i)*time.Hour) // a MiB an hour
			}
		}, "space", Warn, "room for 62 h", ""},
		{"it holds three days and more", func(w *world) {
			w.volume = Volume{Path: "/data", Bytes: 200 << 20, Used: 30 << 20, Free: 170 << 20}
			w.options.SegmentBytes = 1 << 20
			for i := range 7 {
				w.logFile(i, now, time.Duration(6-i)*time.Hour)
			}
		}, "space", OK, "1 MiB of messages an hour", ""},
		{"too young a log to tell", func(w *world) {
			for i := range 7 {
				w.logFile(i, now, time.Duration(6-i)*time.Minute)
			}
		}, "space", OK, "900 GiB of 1000 GiB free, 10% used", ""},
	} {
		w := well()
		c.do(w)
		r := Examine(w.Host, w.options)
		found := false
		for _, l := range r.Lines {
			if l.Name != c.check {
				continue
			}
			found = true
			if l.Verdict != c.verdict {
				t.Errorf("%s: %v, want %v: %+v", c.bend, l.Verdict, c.verdict, l)
			}
			if text := l.Value + "\n" + l.Why + "\n" + l.Do; !strings.Contains(text, c.says) {
				t.Errorf("%s: nothing of %q in %q", c.bend, c.says, text)
			}
			var set []string
			for _, s := range l.Sysctl {
				set = append(set, s.Key+"="+s.Value)
			}
			if got := strings.Join(set, " "); got != c.sysctl {
				t.Errorf("%s: sysctl %q, want %q", c.bend, got, c.sysctl)
			}
			if r.Worst < c.verdict {
				t.Errorf("%s: the report is only %v", c.bend, r.Worst)
			}
		}
		if !found {
			t.Errorf("%s: no check is named %q", c.bend, c.check)
		}
	}
}

// TestSeveralDisks: each directory of the log is looked at.
func TestSeveralDisks(t *testing.T) {
	w := well()
	w.options.LogDirs = []string{"/a", "/b"}
	var names []string
	for _, l := range Examine(w.Host, w.options).Lines {
		names = append(names, l.Name)
	}
	for _, want := range []string{"file system of /data", "file system of /a", "fdatasync of /b", "space of /b"} {
		if !strings.Contains(strings.Join(names, "\n"), want) {
			t.Errorf("no %q among %q", want, names)
		}
	}
}

func TestOutputs(t *testing.T) {
	w := well()
	w.set("proc/sys/net/core/somaxconn", "128")
	w.Files = 1024
	r := Examine(w.Host, w.options)
	var text, object, sysctl bytes.Buffer
	r.Print(&text)
	for _, want := range []string{"warn  net.core.somaxconn: 128\n", "      do   sysctl -w net.core.somaxconn=4096\n", "20 checks: 1 bad, 1 warn, 0 note."} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("nothing of %q in\n%s", want, &text)
		}
	}
	if err := r.PrintJSON(&object); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Verdict string
		Checks  []struct{ Name, Value, Verdict, Why, Do string }
	}
	if err := json.Unmarshal(object.Bytes(), &got); err != nil || got.Verdict != "bad" || len(got.Checks) != 20 || got.Checks[3].Verdict != "bad" {
		t.Errorf("%v %+v", err, got)
	}
	r.PrintSysctl(&sysctl)
	if !strings.Contains(sysctl.String(), "\nnet.core.somaxconn = 4096\n") || strings.Contains(sysctl.String(), "swappiness") {
		t.Errorf("sysctl.d: %s", &sysctl)
	}
	sysctl.Reset()
	Report{}.PrintSysctl(&sysctl)
	if !strings.Contains(sysctl.String(), "nothing to set") {
		t.Errorf("sysctl.d: %s", &sysctl)
	}
}

// TestThisHost: all checks come to an end on the machine of the test, and the directory is left as it was.
func TestThisHost(t *testing.T) {
	h, err := Machine(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	r := Examine(h, Options{Dir: dir + "/not/there", SegmentBytes: 1 << 20, FlushSync: true, Keep: time.Hour, ForcePercent: 100, WarnPercent: 101})
	for _, l := range r.Lines {
		if l.Name == "" || l.Why == "" || l.Value == "" {
			t.Errorf("%+v", l)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v %v", left, err)
	}
	ended, end := context.WithCancel(context.Background())
	end()
	if _, err := measure(ended, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended measurement: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v %v", left, err)
	}
}
