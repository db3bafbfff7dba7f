// Command report makes a page of tables, and plots as SVG and PNG, of what perf/versus has measured, and compares it with an
// earlier run. It is a module of its own so that a plotting library is in nobody's binary.
//
//	go run . -in ../reports/latest.json -out ../reports
//	go run . -in ../reports/latest.json -out ../reports -baseline ../baseline/compare.json
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	in := flag.String("in", "../reports/latest.json", "what perf/versus wrote")
	out := flag.String("out", "../reports", "folder for report.md and the plots")
	base := flag.String("baseline", "", "an earlier run of the same machine to compare with")
	flag.Parse()
	if err := report(*in, *out, *base); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func report(in, out, base string) error {
	r, err := read(in)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	plots, err := r.plots(out)
	if err != nil {
		return err
	}
	page := r.page(plots)
	if base != "" {
		b, err := read(base)
		if err != nil {
			return err
		}
		page += r.compared(b)
	}
	if err := os.WriteFile(filepath.Join(out, "report.md"), []byte(page), 0o644); err != nil {
		return err
	}
	fmt.Print(page)
	return nil
}

// run is the file of perf/versus.
type run struct {
	Host     string            `json:"host"`
	Began    time.Time         `json:"began"`
	Rounds   int               `json:"rounds"`
	Seconds  float64           `json:"seconds"`
	Subjects map[string]string `json:"subjects"`
	Works    map[string]string `json:"works"`
	Figures  []figure          `json:"figures"`

	subjects []string // in the order of the file
	values   map[key]map[int]float64
}

type figure struct {
	Round   int     `json:"round"`
	Subject string  `json:"subject"`
	Work    string  `json:"work"`
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
}

// key is what is measured once a round.
type key struct{ subject, work, name string }

func read(file string) (*run, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := &run{values: map[key]map[int]float64{}}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, f := range r.Figures {
		if !slices.Contains(r.subjects, f.Subject) {
			r.subjects = append(r.subjects, f.Subject)
		}
		k := key{f.Subject, f.Work, f.Name}
		if r.values[k] == nil {
			r.values[k] = map[int]float64{}
		}
		r.values[k][f.Round] = f.Value
	}
	if len(r.Figures) == 0 {
		return nil, fmt.Errorf("%s: no figures", file)
	}
	return r, nil
}

// of are the values of all rounds, sorted.
func (r *run) of(k key) (values []float64) {
	for _, v := range r.values[k] {
		values = append(values, v)
	}
	slices.Sort(values)
	return values
}

// ratios are those of two subjects in the rounds that have both, sorted: a ratio across rounds would compare moments of the disk.
func (r *run) ratios(a, b key) (values []float64) {
	for round, v := range r.values[a] {
		if w, ok := r.values[b][round]; ok && w != 0 {
			values = append(values, v/w)
		}
	}
	slices.Sort(values)
	return values
}

func median(sorted []float64) float64 {
	n := len(sorted)
	switch {
	case n == 0:
		return 0
	case n%2 == 0:
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[n/2]
}

// rows of the page: which figures of which work, and in which unit.
var rows = []struct{ work, name, what string }{
	{"start", "ms", "start to first send, ms"}, {"start", "own_mib", "own memory after it, MiB"},
	{"1x1", "per_second", "1 × 1, msg/s"}, {"16x1", "per_second", "16 × 1, msg/s"}, {"64x1", "per_second", "64 × 1, msg/s"},
	{"64x16", "per_second", "64 × 16, msg/s"}, {"batch", "per_second", "16 × 4, batches of 32, msg/s"},
	{"1x1", "answer_p50_us", "1 × 1, p50, µs"}, {"64x16", "answer_p99_us", "64 × 16, p99, µs"},
	{"64x16", "cpu_us", "64 × 16, CPU of the server per message, µs"},
	{"1x1", "device_bytes", "1 × 1, bytes to the device per byte of a body"}, {"64x16", "device_bytes", "64 × 16, the same"},
	{"pull", "per_second", "catch-up pull, msg/s"}, {"pull", "cpu_us", "the same, CPU per message, µs"},
	{"open-1000", "delivery_p50_us", "1,000 msg/s, delivery p50, µs"}, {"open-20000", "delivery_p50_us", "20,000 msg/s, delivery p50, µs"},
	{"open-20000", "delivery_p99_us", "the same, p99, µs"}, {"topics", "created_per_second", "topics created a second"},
	{"topics", "per_second", "1,000 topics, msg/s"}, {"idle", "own_mib", "own memory after all, MiB"},
}

// pairs whose ratios are shown, where both are there.
var pairs = [][2]string{
	{"ringmq-sync", "stock-sync"}, {"ringmq-sync", "stock-sync-tuned"}, {"ringmq-sync", "stock-async"}, {"ringmq-sync", "bare"},
	{"ringmq-async", "stock-async"}, {"ringmq-async", "stock-async-tuned"},
}

func (r *run) page(plots []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# ringmq beside a stock broker 5.5.0\n\n%s\n\nMeasured %s, %d rounds, %g s each; one server at a time, in turns. Client and server share the processors.\nMedian (least to most).\n\n",
		r.Host, r.Began.Format("2006-01-02 15:04 MST"), r.Rounds, r.Seconds)
	b.WriteString("| |")
	for _, s := range r.subjects {
		fmt.Fprintf(&b, " %s |", s)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(r.subjects)) + "\n")
	for _, row := range rows {
		line, some := "| "+row.what+" |", false
		for _, s := range r.subjects {
			v := r.of(key{s, row.work, row.name})
			some = some || len(v) > 0
			line += " " + spread(v) + " |"
		}
		if some {
			b.WriteString(line + "\n")
		}
	}
	fmt.Fprintf(&b, "\n## Ratios\n\nOf one round each; median (least to most).\n\n| |")
	var shown [][2]string
	for _, p := range pairs {
		if slices.Contains(r.subjects, p[0]) && slices.Contains(r.subjects, p[1]) {
			shown = append(shown, p)
			fmt.Fprintf(&b, " %s / %s |", p[0], p[1])
		}
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(shown)) + "\n")
	for _, row := range rows {
		line, some := "| "+row.what+" |", false
		for _, p := range shown {
			v := r.ratios(key{p[0], row.work, row.name}, key{p[1], row.work, row.name})
			some = some || len(v) > 0
			line += " " + spread(v) + " |"
		}
		if some {
			b.WriteString(line + "\n")
		}
	}
	b.WriteString(r.refusals())
	for _, p := range plots {
		fmt.Fprintf(&b, "\n![%s](%s)\n", strings.TrimSuffix(p, filepath.Ext(p)), p)
	}
	b.WriteString("\n## How each was started\n\n")
	for _, s := range r.subjects {
		fmt.Fprintf(&b, "- %s: %s\n", s, r.Subjects[s])
	}
	b.WriteString("\n## What was done\n\n")
	var names []string
	for name := range r.Works {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "- %s: %s\n", name, r.Works[name])
	}
	return b.String()
}

// refusals names what was not taken: a rate with refusals is not the rate of the others.
func (r *run) refusals() string {
	sums := map[string]float64{}
	for k, byRound := range r.values {
		for _, v := range byRound {
			if k.name == "refused" {
				sums[k.subject+", "+k.work] += v
			}
		}
	}
	if len(sums) == 0 {
		return "\nNothing was refused, and every message of the open loops was answered.\n"
	}
	var lines []string
	for what, n := range sums {
		lines = append(lines, fmt.Sprintf("- %s: %.0f messages refused or not answered in time\n", what, n))
	}
	slices.Sort(lines)
	return "\n" + strings.Join(lines, "")
}

func spread(sorted []float64) string {
	switch len(sorted) {
	case 0:
		return ""
	case 1:
		return short(sorted[0])
	}
	return fmt.Sprintf("%s (%s–%s)", short(median(sorted)), short(sorted[0]), short(sorted[len(sorted)-1]))
}

// short is a number with three digits or so.
func short(v float64) string {
	switch {
	case v >= 100_000:
		return fmt.Sprintf("%.0f k", v/1000)
	case v >= 10_000:
		return fmt.Sprintf("%.1f k", v/1000)
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
