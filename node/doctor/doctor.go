// Package doctor looks at a host and says what about it matters for a node: a value, a verdict, why it matters here, and
// the exact change. It changes nothing; to measure, it writes one temporary file into the data directory and removes it.
//
//	doctor.go  verdicts, the list of checks
//	host.go    what is asked of the host, as values and functions that tests replace
//	kernel.go  kernel, io_uring, descriptors, mappings, clock, processors
//	disk.go    file system, device, measured flushes, dirty pages, space
//	memory.go  memory, swap, pages; network.go  queues and buffers of sockets
//	print.go   text, JSON, sysctl.d
//
// docs/operate/doctor.md is the page for operators.
package doctor

import "time"

// Verdict is how well a value suits a node. They are ordered.
type Verdict int

const (
	OK   Verdict = iota // as it should be, or of no matter
	Note                // worth knowing; nothing needs to change
	Warn                // costs speed, or room, or will in some weeks
	Bad                 // acknowledged messages are at risk, or the node cannot do its work
)

var verdictNames = [...]string{"ok", "note", "warn", "bad"}

func (v Verdict) String() string { return verdictNames[v] }

// MarshalText writes the name.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Line is the outcome of one check.
type Line struct {
	Name    string    `json:"name"`
	Value   string    `json:"value"`
	Verdict Verdict   `json:"verdict"`
	Why     string    `json:"why"`              // it matters to this node
	Do      string    `json:"do,omitempty"`     // the exact change; empty where there is none to make
	Sysctl  []Setting `json:"sysctl,omitempty"` // of Do, as far as sysctl can
}

// Setting is a line of sysctl.d.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Options say which node is meant.
type Options struct {
	Dir          string   // its data; an absolute path, as all here
	LogDirs      []string // of its log, where they are not below Dir
	SegmentBytes int64    // of one file of the log
	FlushSync    bool     // SYNC_FLUSH
	NoRing       bool     // ioEngine=posix

	Keep         time.Duration // fileReservedTime
	ForcePercent int           // used part of the disk at which files go before their age
	WarnPercent  int           // and at which messages are refused
	MinFreeBytes int64

	NoMeasure bool // write nothing
}

// Report is what Examine returns.
type Report struct {
	Worst Verdict `json:"verdict"`
	Lines []Line  `json:"checks"`
}

// Examine runs all checks, one after the other. Measuring takes some seconds on a slow disk.
func Examine(h Host, o Options) Report {
	var r Report
	add := func(lines ...Line) {
		for _, l := range lines {
			r.Worst = max(r.Worst, l.Verdict)
			r.Lines = append(r.Lines, l)
		}
	}
	add(h.kernel(), h.ring(o), h.memlock(), h.files(), h.mappings(), h.clock(), h.processors(), h.numa())
	dirs := append([]string{o.Dir}, o.LogDirs...)
	for _, dir := range dirs {
		of := ""
		if len(dirs) > 1 {
			of = " of " + dir
		}
		add(h.disk(dir, of, o)...)
		add(h.space(dir, of, o))
	}
	add(h.dirty(), h.memory(), h.swap(), h.hugePages(), h.acceptQueue(), h.socketBuffers())
	return r
}
