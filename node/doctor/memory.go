package doctor

import (
	"fmt"
	"strings"

	"ringmq/node/cgroup"
)

func (h *Host) memory() Line {
	limit, _ := cgroup.Limits(h.Root)
	l := Line{Name: "memory", Value: bytesText(h.Memory), Why: "the node itself takes little and lowers its bounds to what there is; all else is page cache, from which consumers are served"}
	if limit < h.Memory {
		l.Value += ", limit of the control group " + bytesText(limit)
	}
	if has := min(limit, h.Memory); has < 512<<20 {
		l.Verdict = Warn
		l.Do = "MemoryMax=1G or more in the unit, --memory 1g of a container: pages of the log count against it too"
	}
	return l
}

func (h *Host) swap() Line {
	l := Line{Name: "swap", Value: "none", Why: "a loop that touches a swapped page stands still for as long as the disk takes, with all its connections"}
	devices := strings.Count(h.read("proc/swaps"), "\n") // the first line is a heading
	if devices == 0 {
		return l
	}
	n, ok := h.number("vm.swappiness")
	l.Value = fmt.Sprintf("%d device(s), vm.swappiness=%d", devices, n)
	if ok && n > 10 {
		l.Verdict, l.Do, l.Sysctl = Warn, "sysctl -w vm.swappiness=1, or MemorySwapMax=0 in the unit", []Setting{{"vm.swappiness", "1"}}
	}
	return l
}

func (h *Host) hugePages() Line {
	const dir = "sys/kernel/mm/transparent_hugepage/"
	l := Line{Name: "huge pages", Value: chosen(h.read(dir + "enabled")), Why: "the Go runtime asks for small pages where it wants them; with defrag=always a page fault may wait until memory was compacted"}
	if l.Value == "" {
		l.Value = "not built in"
		return l
	}
	defrag := chosen(h.read(dir + "defrag"))
	if defrag != "" {
		l.Value += ", defrag=" + defrag
	}
	if l.Value == "always, defrag=always" {
		l.Verdict, l.Do = Warn, "echo madvise > /"+dir+"defrag, and transparent_hugepage=madvise on the kernel's command line to keep it"
	}
	return l
}
