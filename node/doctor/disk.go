package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// mount is a line of /proc/self/mountinfo, see proc_pid_mountinfo(5).
type mount struct {
	point, kind, source string
	device              string // major:minor
	options             []string
}

// mountOf is the mount that holds an absolute path; false if none can be found.
func (h *Host) mountOf(dir string) (best mount, found bool) {
	for line := range strings.Lines(h.read("proc/self/mountinfo")) {
		head, tail, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(head), strings.Fields(tail)
		if !ok || len(f) < 6 || len(g) < 2 {
			continue
		}
		m := mount{point: unescape(f[4]), device: f[2], kind: g[0], source: unescape(g[1]), options: strings.Split(f[5], ",")}
		if len(g) > 2 {
			m.options = append(m.options, strings.Split(g[2], ",")...)
		}
		within := m.point == "/" || dir == m.point || strings.HasPrefix(dir, m.point+"/")
		if within && (!found || len(m.point) >= len(best.point)) { // of two at one place the later one covers the other
			best, found = m, true
		}
	}
	return best, found
}

// unescape undoes the octal escapes of blanks and the like.
func unescape(s string) string {
	for _, e := range []struct{ code, char string }{{`\040`, " "}, {`\011`, "\t"}, {`\012`, "\n"}, {`\134`, `\`}} {
		s = strings.ReplaceAll(s, e.code, e.char)
	}
	return s
}

func (m mount) has(options ...string) string {
	for _, o := range options {
		if slices.Contains(m.options, o) {
			return o
		}
	}
	return ""
}

// disk is all about a directory's file system and its device.
func (h *Host) disk(dir, of string, o Options) []Line {
	v, err := h.Volume(dir)
	if err != nil {
		return []Line{{Name: "data directory" + of, Value: err.Error(), Verdict: Bad, Why: "there is nowhere to keep messages", Do: "make " + dir + " a directory that the node may write to"}}
	}
	m, found := h.mountOf(v.Path)
	if !found {
		return append([]Line{{Name: "file system" + of, Value: "unknown: no mount holds " + v.Path, Verdict: Note, Why: "what a sync promises depends on it"}}, h.flushes(v, of, o)...)
	}
	lines := []Line{m.fileSystem(of)}
	lines = append(lines, h.device(m, of)...)
	return append(lines, h.flushes(v, of, o)...)
}

func (m mount) fileSystem(of string) Line {
	l := Line{
		Name: "file system" + of, Value: fmt.Sprintf("%s on %s (%s)", m.kind, m.point, strings.Join(m.options, ",")),
		Why: "the proofs of this node run on ext4 and XFS, with barriers",
	}
	remount := func(option string) string {
		return fmt.Sprintf("mount -o remount,%s %s, and in /etc/fstab", option, m.point)
	}
	switch {
	case m.has("ro") != "":
		l.Verdict, l.Why, l.Do = Bad, "nothing can be stored", remount("rw")+"; if the kernel did it by itself, dmesg tells of the disk's error"
	case m.has("nobarrier", "barrier=0") != "":
		l.Verdict, l.Do = Bad, remount("barrier=1")
		l.Why = "a sync comes back while the data are in the device's cache: a power cut takes acknowledged messages"
	case m.kind == "tmpfs" || m.kind == "ramfs":
		l.Verdict, l.Why, l.Do = Bad, "messages are gone with the machine, or with the container", "a directory on ext4 or XFS"
	case m.kind == "overlay":
		l.Verdict, l.Do = Warn, "a volume: -v /srv/ringmq:/data"
		l.Why = "this is a container's own layer: messages are gone with the container"
	case m.kind == "btrfs" || m.kind == "zfs" || m.kind == "bcachefs":
		l.Verdict, l.Do = Warn, "ext4 or XFS"
		l.Why = "each overwritten block moves, so that a segment that is used again saves nothing and a sync writes a tree"
	case strings.HasPrefix(m.kind, "nfs") || strings.HasPrefix(m.kind, "fuse") || slices.Contains([]string{"cifs", "smb3", "9p", "ceph", "virtiofs"}, m.kind):
		l.Verdict, l.Do = Warn, "a disk of this machine, or a block device that it is given"
		l.Why = "what a sync promises is up to the server, and the directory's lock may not hold"
	case m.kind != "ext4" && m.kind != "xfs":
		l.Verdict = Note
	case m.has("data=journal") != "":
		l.Verdict, l.Do = Warn, "take data=journal out of /etc/fstab and mount anew: it cannot be changed by a remount"
		l.Why = "every message is written twice, and the journal's size bounds the rate"
	case m.has("sync", "dirsync") != "":
		l.Verdict, l.Do = Warn, remount("async")
		l.Why = "every write waits for the disk, also those that the node makes durable together later"
	case m.has("strictatime") != "":
		l.Verdict, l.Do = Warn, remount("relatime")
		l.Why = "every read by a consumer changes metadata, which the next sync of the log has to write"
	}
	return l
}

// glob lists the names that match a pattern.
func (h *Host) glob(pattern string) []string {
	names, err := fs.Glob(h.Root, pattern)
	if err != nil {
		panic("doctor: " + err.Error()) // a pattern of ours
	}
	return names
}

// blockDevices finds the whole disks below a mount: through partitions, and through what device-mapper and RAID put
// together.
func (h *Host) blockDevices(m mount) (disks []string) {
	start := ""
	for _, dev := range slices.Concat(h.glob("sys/block/*/dev"), h.glob("sys/block/*/*/dev")) {
		if h.read(dev) == m.device {
			start = path.Base(path.Dir(dev))
		}
	}
	if start == "" { // btrfs and the like have a number of their own
		start = path.Base(m.source)
	}
	var visit func(name string, depth int)
	visit = func(name string, depth int) {
		if whole := h.glob("sys/block/*/" + name + "/dev"); len(whole) > 0 { // a partition
			name = path.Base(path.Dir(path.Dir(whole[0])))
		}
		slaves := h.glob("sys/block/" + name + "/slaves/*")
		for _, s := range slaves {
			if depth < 8 {
				visit(path.Base(s), depth+1)
			}
		}
		if len(slaves) == 0 && len(h.glob("sys/block/"+name)) > 0 && !slices.Contains(disks, name) {
			disks = append(disks, name)
		}
	}
	visit(start, 0)
	return disks
}

func (h *Host) device(m mount, of string) (lines []Line) {
	disks := h.blockDevices(m)
	if len(disks) == 0 {
		return []Line{{Name: "device" + of, Value: "unknown: " + m.source, Verdict: Note, Why: "its cache decides what a flush costs; it cannot be seen from here (a container without /sys, or no block device)"}}
	}
	for _, name := range disks {
		lines = append(lines, h.cache(name, of), h.queue(name, of, m))
	}
	return lines
}

// cache judges what a flush means on a disk (Documentation/block/writeback_cache_control.rst of the kernel).
func (h *Host) cache(name, of string) Line {
	q := "sys/block/" + name + "/queue/"
	cache, fua := h.read(q+"write_cache"), h.read(q+"fua")
	l := Line{Name: "write cache of " + name + of, Value: fmt.Sprintf("%s, fua=%s", cache, fua), Why: "each group of messages waits for one flush of it"}
	switch {
	case cache == "write through":
		l.Verdict = Note
		l.Why = "the kernel takes the device's word that a written block stays: no flush is sent. True of disks with power-loss protection and of none"
		l.Do = "if the device is not protected: echo 'write back' > /" + q + "write_cache"
	case cache == "":
		l.Value, l.Verdict = "unknown", Note
	case fua != "1":
		l.Verdict = Note
		l.Why += "; without FUA a flush empties the whole cache, also of what others wrote. A disk with power-loss protection answers it at once"
	}
	return l
}

// queue judges scheduler and kind of a disk, and where deleted segments go.
func (h *Host) queue(name, of string, m mount) Line {
	q := "sys/block/" + name + "/queue/"
	scheduler, rotates := chosen(h.read(q+"scheduler")), h.read(q+"rotational") == "1"
	discards := h.read(q+"discard_max_bytes") != "0" && h.read(q+"discard_max_bytes") != ""
	kind := "does not rotate"
	switch {
	case rotates && (strings.HasPrefix(name, "vd") || strings.HasPrefix(name, "xvd")):
		kind, rotates = "virtual", false // such disks say that they rotate, whatever is behind them
	case rotates:
		kind = "rotates"
	}
	l := Line{Name: "queue of " + name + of, Value: fmt.Sprintf("scheduler %s, %s", scheduler, kind), Why: "one flush at a time needs no sorting; a scheduler that shares by process holds a flush back"}
	set := func(to string) string {
		return fmt.Sprintf(`echo %s > /%sscheduler, and a udev rule: ACTION=="add|change", KERNEL=="%s", ATTR{queue/scheduler}="%s"`, to, q, name, to)
	}
	switch {
	case rotates && scheduler == "none":
		l.Verdict, l.Do = Warn, set("mq-deadline")
		l.Why = "consumers that lag read beside the log: a rotating disk needs its requests sorted"
	case scheduler == "bfq":
		l.Verdict, l.Do = Warn, set("mq-deadline")
	case rotates:
		l.Verdict, l.Why = Note, "a flush waits for about one rotation: some 100 groups a second, however many messages they have"
	}
	if mounted := m.has("discard") != ""; mounted && discards {
		l.Value += ", discards at once"
		if l.Verdict == OK {
			l.Verdict = Note
			l.Why = "a removed file is discarded block by block beside the log's flushes; used segments are kept for use again, so this is seldom"
			l.Do = "if flushes are slow when old files go: mount with nodiscard and run fstrim.timer"
		}
	}
	return l
}

func (h *Host) flushes(v Volume, of string, o Options) []Line {
	flush := Line{Name: "fdatasync" + of, Value: "not measured", Why: "one sender, one message at a time, waits for this; senders side by side share it"}
	rate := Line{Name: "write rate" + of, Value: "not measured", Why: "the most that all messages together can come to, before queues and copies"}
	if o.NoMeasure {
		return []Line{flush, rate}
	}
	if v.Free < measureRoom {
		flush.Verdict, flush.Value = Note, "not measured: less than "+bytesText(measureRoom)+" free"
		return []Line{flush}
	}
	m, err := h.Measure(v.Path)
	if err != nil {
		flush.Verdict, flush.Value, flush.Do = Warn, "not measured: "+err.Error(), "run it as the user of the node, with the data directory in place"
		return []Line{flush}
	}
	flush.Value = fmt.Sprintf("p50 %v, p99 %v", m.P50.Round(time.Microsecond), m.P99.Round(time.Microsecond))
	switch {
	case m.P50 < 15*time.Microsecond:
		flush.Verdict = Note
		flush.Why = "quicker than any disk that keeps what it was given: make sure that this one does in a power cut"
	case m.P50 > 10*time.Millisecond && o.FlushSync:
		flush.Verdict, flush.Do = Warn, "a disk with power-loss protection; or flushDiskType=ASYNC_FLUSH, if a power cut may take the last messages"
	case m.P99 > 50*time.Millisecond && o.FlushSync:
		flush.Verdict, flush.Do = Warn, "find who else writes to this disk (iostat -x 1, pidstat -d 1), or give the log one of its own"
	}
	rate.Value = bytesText(int64(m.BytesPerSec)) + "/s"
	if m.BytesPerSec < 50<<20 {
		rate.Verdict, rate.Do = Warn, "a quicker disk, if more than some ten thousand messages of 1 KiB a second are to come"
	}
	return []Line{flush, rate}
}

// dirty judges how much the kernel lets wait for the disk. The node leaves little there itself: all is flushed at once
// under SYNC_FLUSH, and 64 MiB wait at most under ASYNC_FLUSH.
func (h *Host) dirty() Line {
	l := Line{Name: "vm.dirty_*", Why: "the node flushes its log itself; what others leave unwritten stands in front of its next flush"}
	amount := func(name string) int64 {
		if n, ok := h.number("vm.dirty_" + name + "bytes"); ok && n > 0 {
			return n
		}
		percent, _ := h.number("vm.dirty_" + name + "ratio")
		return h.Memory / 100 * percent
	}
	background, most := amount("background_"), amount("")
	every, _ := h.number("vm.dirty_writeback_centisecs")
	expire, _ := h.number("vm.dirty_expire_centisecs")
	l.Value = fmt.Sprintf("written back from %s, writers wait from %s, every %v, after %v", bytesText(background), bytesText(most), centiseconds(every), centiseconds(expire))
	want := func(key, value string) {
		l.Verdict = Warn
		l.Sysctl = append(l.Sysctl, Setting{key, value})
	}
	if ratio, _ := h.number("vm.dirty_ratio"); ratio > 40 {
		want("vm.dirty_ratio", "20")
	}
	if ratio, _ := h.number("vm.dirty_background_ratio"); ratio > 20 {
		want("vm.dirty_background_ratio", "10")
	}
	if most < 128<<20 && most > 0 {
		if n, _ := h.number("vm.dirty_bytes"); n > 0 {
			want("vm.dirty_bytes", strconv.Itoa(256<<20))
		} else {
			want("vm.dirty_ratio", "20")
		}
	}
	if every == 0 || every > 3000 {
		want("vm.dirty_writeback_centisecs", "500")
	}
	if expire > 6000 {
		want("vm.dirty_expire_centisecs", "3000")
	}
	for i, s := range l.Sysctl {
		if i > 0 {
			l.Do += ", "
		}
		l.Do += "sysctl -w " + s.Key + "=" + s.Value
	}
	return l
}

func centiseconds(n int64) time.Duration { return time.Duration(n) * 10 * time.Millisecond }

// space compares what is free with what retention wants to keep.
func (h *Host) space(dir, of string, o Options) Line {
	l := Line{Name: "space" + of, Why: "files go at their age only if the disk holds them that long; before that the oldest go, read or not"}
	v, err := h.Volume(dir)
	if err != nil || v.Bytes <= 0 {
		l.Value, l.Verdict = "unknown", Note
		return l
	}
	used := int(v.Used * 100 / v.Bytes)
	l.Value = fmt.Sprintf("%s of %s free, %d%% used", bytesText(v.Free), bytesText(v.Bytes), used)
	bytes, perHour, known := h.logRate(dir)
	room := bytes + v.Bytes/100*int64(o.ForcePercent) - v.Used
	hold := time.Duration(0)
	if known {
		hold = time.Duration(float64(room) / perHour * float64(time.Hour))
		l.Value += fmt.Sprintf(", about %s of messages an hour: room for %.0f h", bytesText(int64(perHour)), hold.Hours())
	}
	switch {
	case used >= o.WarnPercent || v.Free < o.MinFreeBytes:
		l.Verdict, l.Why = Bad, "messages are refused from this level on"
		l.Do = "make room on " + v.Path + ", or on a large disk set the ratios to 100 and diskMinFreeBytes (docs/retention.md)"
	case v.Free < 3*o.SegmentBytes:
		l.Verdict, l.Why = Bad, "the log needs room for the file that is written and the next ones"
		l.Do = "make room on " + v.Path + ", or use smaller files of the log (mappedFileSizeCommitLog)"
	case used >= o.ForcePercent:
		l.Verdict, l.Do = Warn, "make room on "+v.Path+": old files go at every look, whatever their age"
	case known && hold < o.Keep:
		l.Verdict = Warn
		l.Do = fmt.Sprintf("fileReservedTime=%.0f, or a disk of %s more", max(hold.Hours()*0.8, 1), bytesText(int64(perHour*(o.Keep-hold).Hours())))
	}
	return l
}

// logRate reckons how quickly a log grows from the times of its files, oldest and newest. It needs an hour of them.
func (h *Host) logRate(dir string) (bytes int64, perHour float64, known bool) {
	var first, last time.Time
	var newest int64
	files := 0
	for _, at := range []string{path.Join(dir, "commitlog"), dir} {
		entries, err := fs.ReadDir(h.Root, strings.TrimPrefix(at, "/"))
		if err != nil {
			continue
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || len(e.Name()) != 20 || strings.Trim(e.Name(), "0123456789") != "" {
				continue
			}
			files++
			bytes += info.Size()
			if t := info.ModTime(); first.IsZero() || t.Before(first) {
				first = t
			}
			if t := info.ModTime(); t.After(last) {
				last, newest = t, info.Size()
			}
		}
	}
	span := last.Sub(first)
	if files < 3 || span < time.Hour {
		return bytes, 0, false
	}
	return bytes, float64(bytes-newest) / span.Hours(), true
}
