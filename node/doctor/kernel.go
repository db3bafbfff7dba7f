package doctor

import (
	"fmt"
	"strconv"
	"strings"

	"ringmq/node/cgroup"
)

// atLeast compares a release such as 6.18.44-generic with major.minor.
func atLeast(release string, major, minor int) bool {
	first, rest, _ := strings.Cut(release, ".")
	digits := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if digits >= 0 {
		rest = rest[:digits]
	}
	a, _ := strconv.Atoi(first)
	b, _ := strconv.Atoi(rest)
	return a > major || a == major && b >= minor
}

func (h *Host) kernel() Line {
	l := Line{Name: "kernel", Value: h.Kernel, Why: "io_uring with time-outs came with 5.11, cachestat, by which segments are known to be free for use again, with 6.5"}
	switch {
	case !atLeast(h.Kernel, 5, 11):
		l.Verdict = Warn
		l.Do = "run Linux 6.5 or later; until then the node flushes by fdatasync from goroutines, and each segment is a new file"
	case !atLeast(h.Kernel, 6, 5):
		l.Verdict = Note
		l.Do = "with Linux 6.5 or later segments are used again; until then each is a new file, and its zeros are written in front of the log"
	}
	return l
}

func (h *Host) ring(o Options) Line {
	l := Line{Name: "io_uring", Value: "permitted", Why: "the log's flushes run in the ring, so that the writer waits for them and for new messages at one place"}
	if o.NoRing {
		l.Value = "not wanted: ioEngine=posix"
		return l
	}
	err := h.Ring()
	if err == nil {
		return l
	}
	// Without a ring the node works, with a goroutine for each flush in flight: docs/operate/containers.md has the figures.
	l.Verdict = Note
	l.Value = "refused: " + err.Error()
	disabled, seccomp := h.sysctl("kernel.io_uring_disabled"), ""
	for line := range strings.Lines(h.read("proc/self/status")) {
		if value, ok := strings.CutPrefix(line, "Seccomp:"); ok {
			seccomp = strings.TrimSpace(value)
		}
	}
	switch {
	case disabled == "2":
		l.Do = "sysctl -w kernel.io_uring_disabled=0"
		l.Sysctl = []Setting{{"kernel.io_uring_disabled", "0"}}
	case disabled == "1":
		l.Do = "sysctl -w kernel.io_uring_disabled=0, or let the node's group have it: sysctl -w kernel.io_uring_group=$(id -g ringmq)"
		l.Sysctl = []Setting{{"kernel.io_uring_disabled", "0"}}
	case seccomp == "2":
		l.Do = "a seccomp filter is on: run the container with --security-opt seccomp=docs/operate/seccomp-ringmq.json, or permit io_uring_setup, io_uring_enter and io_uring_register in the profile that it has"
	case !atLeast(h.Kernel, 5, 11):
		l.Do = "run Linux 5.11 or later"
	case !atLeast(h.Kernel, 5, 12):
		l.Do = "before Linux 5.12 a ring counts as locked memory: LimitMEMLOCK=8M in the unit, --ulimit memlock=8388608 of a container"
	default:
		l.Do = "nothing that can be seen from here forbids it: look for a security module (dmesg, journalctl -k), or for a kernel without CONFIG_IO_URING"
	}
	return l
}

func (h *Host) memlock() Line {
	l := Line{Name: "locked memory", Value: "unlimited", Why: "a ring counted as locked memory before Linux 5.12; the node locks nothing else"}
	const need = 64 << 10 // two rings of 16 entries
	if h.Memlock < 1<<62 {
		l.Value = bytesText(int64(h.Memlock))
	}
	if !atLeast(h.Kernel, 5, 12) && h.Memlock < need {
		l.Verdict, l.Do = Warn, "LimitMEMLOCK=8M in the unit, --ulimit memlock=8388608 of a container"
	}
	return l
}

// What the node does with descriptors, see docs/architecture.md: 2048 are left to the store, connections get the rest.
const (
	storeFiles = 2048
	mostConns  = 65536
)

func (h *Host) files() Line {
	l := Line{Name: "open files", Value: fmt.Sprintf("%d at most", h.Files), Why: "one for each connection, up to 1,024 for queues, some for segments; the node lowers its bounds to what there is"}
	const do = "LimitNOFILE=131072 in the unit, --ulimit nofile=131072 of a container, or a nofile line in /etc/security/limits.conf"
	switch {
	case h.Files < 2*storeFiles:
		l.Verdict, l.Do = Bad, do
		l.Value += fmt.Sprintf(": %d connections, and few queue files stay open", h.Files/4)
	case h.Files < storeFiles+mostConns:
		l.Verdict, l.Do = Note, do+", if more clients than that are to come"
		l.Value += fmt.Sprintf(": %d connections", h.Files-storeFiles)
	}
	return l
}

func (h *Host) mappings() Line {
	l := Line{Name: "vm.max_map_count", Value: h.sysctl("vm.max_map_count"), Why: "a stock broker maps every file; this node maps none of them, and had 94 mappings when idle: the Go runtime's, staging, the ring, the index"}
	if n, ok := h.number("vm.max_map_count"); ok && n < 4096 {
		l.Verdict, l.Do, l.Sysctl = Warn, "sysctl -w vm.max_map_count=65530", []Setting{{"vm.max_map_count", "65530"}}
	}
	return l
}

func (h *Host) clock() Line {
	const dir = "sys/devices/system/clocksource/clocksource0/"
	l := Line{Name: "clock", Value: h.read(dir + "current_clocksource"), Why: "each turn of a loop and each message asks for the time: some ns where the processor's counter may be read, a system call where not"}
	switch l.Value {
	case "tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page":
	case "":
		l.Value = "unknown"
	default:
		l.Verdict = Warn
		l.Do = fmt.Sprintf("boot with clocksource=tsc, or echo one of those there are (%s) > /%scurrent_clocksource; dmesg tells why the kernel left tsc", h.read(dir+"available_clocksource"), dir)
	}
	return l
}

func (h *Host) processors() Line {
	_, quota := cgroup.Limits(h.Root)
	l := Line{Name: "processors", Value: strconv.Itoa(h.CPUs), Why: "one event loop each but one, which is left to the log's writer; a group that has used up its quota stands still for the rest of a period, and so do all answers"}
	if quota > 0 && quota < float64(h.CPUs) {
		l.Value = fmt.Sprintf("%d, quota of the control group %.1f", h.CPUs, quota)
		l.Verdict = Note
		if quota < 2 {
			l.Verdict = Warn
			l.Do = "CPUQuota=200% or more in the unit, --cpus 2 of a container; cpu.stat of the group (nr_throttled) tells how often it stood still"
		}
		return l
	}
	if h.CPUs < 2 {
		l.Verdict, l.Do = Warn, "give it two processors: loop and writer share one"
	}
	return l
}

func (h *Host) numa() Line {
	l := Line{Name: "NUMA", Value: "one node", Why: "staging, loops and the disk's interrupts work fastest in one memory; a node that reclaims its own memory first throws out the page cache of messages"}
	nodes := h.glob("sys/devices/system/node/node[0-9]*")
	if len(nodes) > 1 {
		l.Value, l.Verdict = fmt.Sprintf("%d nodes", len(nodes)), Note
		l.Do = "put the node on the memory of its disk: NUMAPolicy=bind, NUMAMask= and CPUAffinity= in the unit (docs/operate/numa.md)"
	}
	if n, ok := h.number("vm.zone_reclaim_mode"); ok && n != 0 {
		l.Value += fmt.Sprintf(", vm.zone_reclaim_mode=%d", n)
		l.Verdict, l.Do = Warn, "sysctl -w vm.zone_reclaim_mode=0"
		l.Sysctl = []Setting{{"vm.zone_reclaim_mode", "0"}}
	}
	return l
}
