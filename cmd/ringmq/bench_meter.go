package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"ringmq/netio/wire"
	"ringmq/perf/host"
	"ringmq/perf/load"
)

// meter measures what a load costs, shows how it goes and prints what came of it.
type meter struct {
	bench  string
	pid    int
	disk   *host.Disk
	asJSON bool
	out    io.Writer
	screen io.Writer // a terminal; nil without one
	live   load.Live

	outMu sync.Mutex // one line at a time
	stop  func()
}

func newMeter(name string, o *benchOptions, out, complaints io.Writer) (*meter, error) {
	m := &meter{bench: name, pid: o.pid, asJSON: o.asJSON, out: out}
	if o.disk != "" {
		d, err := host.DiskOf(o.disk)
		if err != nil {
			return nil, err
		}
		m.disk = &d
	}
	if m.pid > 0 {
		if _, err := host.CPU(m.pid); err != nil {
			return nil, fmt.Errorf("--pid %d: %w", m.pid, err)
		}
	}
	if f, ok := stderrOf(complaints); ok && isTerminal(int(f.Fd())) {
		m.screen = f
	}
	began := time.Now()
	var last [3]int64
	m.stop = m.each(func() {
		now := [3]int64{m.live.Sent.Load(), m.live.Received.Load(), m.live.Refused.Load()}
		m.show(time.Since(began), now[0]-last[0], now[1]-last[1], now[2])
		last = now
	})
	return m, nil
}

// each calls f every second until the returned function is called.
func (m *meter) each(f func()) (stop func()) {
	tick, end := time.NewTicker(time.Second), make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-tick.C:
				f()
			case <-end:
				return
			}
		}
	})
	return func() {
		tick.Stop()
		close(end)
		running.Wait()
	}
}

func (m *meter) close() { m.stop() }

// show is the line of one second.
func (m *meter) show(since time.Duration, sent, received, refused int64) {
	m.outMu.Lock()
	defer m.outMu.Unlock()
	if m.asJSON {
		_ = json.NewEncoder(m.out).Encode(map[string]any{"bench": m.bench, "second": int(since.Seconds()), "sent": sent, "received": received, "refused_so_far": refused})
	}
	if m.screen != nil {
		fmt.Fprintf(m.screen, "\r\x1b[K%4.0f s  %s sent/s  %s received/s  %s refused", since.Seconds(), grouped(sent), grouped(received), grouped(refused))
	}
}

// figures are what a benchmark has to say. What it has not is nil.
type figures struct {
	sent     *load.Result
	received *load.Consumed
	refused  map[wire.Code]int64
	more     []figure
	cost     cost
}

type figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
}

func (f *figures) add(name string, value float64, unit string) {
	f.more = append(f.more, figure{name, value, unit})
}

// usage is what was used up to a moment.
type usage struct {
	client, server time.Duration
	written        int64
	messages       int64
	sent           int64
}

// cost is the difference of two usages, per message.
type cost struct {
	measured  bool
	client    time.Duration // CPU per message
	server    time.Duration
	own, all  int64   // memory of the server at the end
	perByte   float64 // written by the device per byte of bodies; 0 if not known
	cpuClient float64 // processors used
	cpuServer float64
}

func (m *meter) usage() (u usage, err error) {
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		return u, err
	}
	u.client = time.Duration(self.Utime.Nano() + self.Stime.Nano())
	u.sent = m.live.Sent.Load()
	u.messages = u.sent + m.live.Received.Load()
	if m.pid > 0 {
		if u.server, err = host.CPU(m.pid); err != nil {
			return u, err
		}
	}
	if m.disk != nil {
		u.written, err = m.disk.Written()
	}
	return u, err
}

func (m *meter) memory() (int64, error) {
	if m.pid == 0 {
		return 0, nil
	}
	return host.OwnMemory(m.pid)
}

// measure runs a load whose messages have bodies of so many bytes, and prints its figures. part names one of several.
func (m *meter) measure(part string, bodyBytes int, run func() (figures, error)) error {
	before, err := m.usage()
	if err != nil {
		return err
	}
	began := time.Now()
	f, err := run()
	if err != nil {
		return err
	}
	took := time.Since(began)
	after, err := m.usage()
	if err != nil {
		return err
	}
	messages := max(after.messages-before.messages, 1)
	f.cost = cost{
		measured: true, client: (after.client - before.client) / time.Duration(messages), server: (after.server - before.server) / time.Duration(messages),
		cpuClient: (after.client - before.client).Seconds() / took.Seconds(), cpuServer: (after.server - before.server).Seconds() / took.Seconds(),
	}
	if sent := after.sent - before.sent; m.disk != nil && sent > 0 && bodyBytes > 0 {
		f.cost.perByte = float64(after.written-before.written) / float64(sent*int64(bodyBytes))
	}
	if m.pid > 0 {
		if f.cost.own, err = host.OwnMemory(m.pid); err != nil {
			return err
		}
		if f.cost.all, err = host.Resident(m.pid); err != nil {
			return err
		}
	}
	m.print(part, f)
	if r := f.received; r != nil && r.Wrong > 0 {
		return fmt.Errorf("%d messages are not what was sent: %w", r.Wrong, r.FirstWrong)
	}
	return nil
}

// print writes figures as text or as one JSON object.
func (m *meter) print(part string, f figures) {
	m.outMu.Lock()
	defer m.outMu.Unlock()
	if m.screen != nil {
		fmt.Fprint(m.screen, "\r\x1b[K")
	}
	if m.asJSON {
		_ = json.NewEncoder(m.out).Encode(m.object(part, f)) // of numbers and texts
		return
	}
	row := func(name, format string, args ...any) {
		fmt.Fprintf(m.out, "%-16s "+format+"\n", append([]any{name}, args...)...)
	}
	if part != "" {
		fmt.Fprintf(m.out, "%s:\n", part)
	}
	if s := f.sent; s != nil {
		row("sent", "%s/s, %s in %v", grouped(int64(s.PerSecond())), grouped(s.OK), s.Elapsed)
		row("answered within", "%s", quantiles(s.Latency))
		if s.Late != nil {
			row("late ourselves", "%s", quantiles(s.Late))
			row("missing", "%s", grouped(s.Missing))
		}
		row("refused", "%s", byCode(s.Refused))
	}
	if r := f.received; r != nil {
		row("received", "%s/s, %s, %s/s", grouped(int64(r.PerSecond())), grouped(r.Messages), showBytes(int64(float64(r.Bytes)/r.Elapsed.Seconds())))
		if r.Delivery != nil {
			row("delivered within", "%s", quantiles(r.Delivery))
		}
		if r.Pull != nil {
			row("pulls", "%s of %.1f messages, answered within %s", grouped(r.Pulls), float64(r.Messages)/float64(max(r.Pulls, 1)), quantiles(r.Pull))
		}
		row("wrong", "%s, of others %s, %s", grouped(r.Wrong), grouped(r.Foreign), byCode(r.Refused))
	}
	if f.refused != nil {
		row("refused", "%s", byCode(f.refused))
	}
	for _, x := range f.more {
		fmt.Fprintf(m.out, "%s: %s %s\n", x.Name, strings.TrimSuffix(strconv.FormatFloat(x.Value, 'f', 1, 64), ".0"), x.Unit)
	}
	if f.cost.measured {
		row("generator", "%v CPU per message, %.2f processors", f.cost.client.Round(time.Nanosecond), f.cost.cpuClient)
	}
	if m.pid > 0 && f.cost.measured {
		row("broker", "%v CPU per message, %.2f processors, own memory %s, resident %s", f.cost.server, f.cost.cpuServer, showBytes(f.cost.own), showBytes(f.cost.all))
	}
	if f.cost.perByte > 0 {
		row("device", "%.2f bytes for each byte of a body", f.cost.perByte)
	}
}

// object is the result for machines. Times are microseconds.
func (m *meter) object(part string, f figures) map[string]any {
	o := map[string]any{"bench": m.bench, "result": true}
	if part != "" {
		o["part"] = part
	}
	if s := f.sent; s != nil {
		sent := map[string]any{"messages": s.OK, "per_second": s.PerSecond(), "latency_us": microseconds(s.Latency), "refused": s.Refused}
		if s.Late != nil {
			sent["late_us"], sent["missing"] = microseconds(s.Late), s.Missing
		}
		o["sent"] = sent
	}
	if r := f.received; r != nil {
		got := map[string]any{
			"messages": r.Messages, "per_second": r.PerSecond(), "bytes": r.Bytes, "pulls": r.Pulls, "wrong": r.Wrong, "foreign": r.Foreign, "refused": r.Refused,
		}
		if r.Delivery != nil {
			got["delivery_us"] = microseconds(r.Delivery)
		}
		if r.Pull != nil {
			got["pull_us"] = microseconds(r.Pull)
		}
		o["received"] = got
	}
	if f.refused != nil {
		o["refused"] = f.refused
	}
	if len(f.more) > 0 {
		o["more"] = f.more
	}
	if f.cost.measured {
		o["generator"] = map[string]any{"cpu_us_per_message": us(f.cost.client), "processors": f.cost.cpuClient}
		if m.pid > 0 {
			o["broker"] = map[string]any{
				"cpu_us_per_message": us(f.cost.server), "processors": f.cost.cpuServer, "own_bytes": f.cost.own, "resident_bytes": f.cost.all,
			}
		}
		if f.cost.perByte > 0 {
			o["device_bytes_per_body_byte"] = f.cost.perByte
		}
	}
	return o
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// shown are the quantiles that are printed.
var shown = []struct {
	name string
	at   float64
}{{"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}}

func quantiles(h *hdrhistogram.Histogram) string {
	var b strings.Builder
	for _, q := range shown {
		fmt.Fprintf(&b, "%s %v  ", q.name, time.Duration(h.ValueAtQuantile(q.at)).Round(time.Microsecond))
	}
	fmt.Fprintf(&b, "max %v", time.Duration(h.Max()).Round(time.Microsecond))
	return b.String()
}

func microseconds(h *hdrhistogram.Histogram) map[string]float64 {
	o := map[string]float64{"max": us(time.Duration(h.Max())), "mean": h.Mean() / 1e3}
	for _, q := range shown {
		o[q.name] = us(time.Duration(h.ValueAtQuantile(q.at)))
	}
	return o
}

func byCode(refused map[wire.Code]int64) string {
	if len(refused) == 0 {
		return "none"
	}
	var parts []string
	for _, code := range slices.Sorted(maps.Keys(refused)) {
		parts = append(parts, fmt.Sprintf("%s with code %d", grouped(refused[code]), code))
	}
	return strings.Join(parts, ", ")
}

// grouped is a number with a comma every three digits.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for at := len(s) - 3; at > 0 && s[at-1] != '-'; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}
