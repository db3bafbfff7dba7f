package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// made is a run of four rounds: ringmq-sync takes rate times as many messages as in a run where it is 1.
func made(t *testing.T, rate float64) string {
	t.Helper()
	r := run{Host: "a machine", Began: time.Unix(1_800_000_000, 0).UTC(), Rounds: 4, Seconds: 1, Subjects: map[string]string{"ringmq-sync": "so", "stock-sync": "so"}, Works: map[string]string{"64x16": "sends"}}
	for round := 1; round <= 4; round++ {
		disk := []float64{1, 3, 2, 1.5}[round-1] // it is quick at one time and slow at another
		for _, s := range []string{"ringmq-sync", "stock-sync"} {
			base := map[string]float64{"ringmq-sync": 60_000 * rate, "stock-sync": 10_000}[s]
			for _, w := range []string{"1x1", "64x16"} {
				r.Figures = append(r.Figures, figure{round, s, w, "per_second", base * disk}, figure{round, s, w, "answer_p50_us", 500 / disk}, figure{round, s, w, "answer_p99_us", 900 / disk})
			}
			r.Figures = append(r.Figures, figure{round, s, "64x16", "cpu_us", 5 + float64(round)/10}, figure{round, s, "start", "own_mib", 3})
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "r.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestPage: ratios are of one round each, so that a disk that changes its speed does not show in them.
func TestPage(t *testing.T) {
	dir := t.TempDir()
	if err := report(made(t, 1), dir, ""); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "report.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| 64 × 16, msg/s | 105 k (60.0 k–180 k) | 17.5 k (10.0 k–30.0 k) |", "| 64 × 16, msg/s | 6.00 (6.00–6.00) |",
		"![throughput](throughput.svg)", "Nothing was refused", "- ringmq-sync: so", "- 64x16: sends",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("nothing of %q in\n%s", want, text)
		}
	}
	for _, name := range []string{"throughput", "latency", "cpu", "memory"} {
		svg, err := os.ReadFile(filepath.Join(dir, name+".svg"))
		if err != nil || !bytes.Contains(svg, []byte("<svg")) {
			t.Errorf("%s.svg: %v", name, err)
		}
		png, err := os.ReadFile(filepath.Join(dir, name+".png"))
		if err != nil || !bytes.HasPrefix(png, []byte("\x89PNG")) {
			t.Errorf("%s.png: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "delivery.svg")); !os.IsNotExist(err) {
		t.Error("a plot without figures was drawn")
	}
}

// TestBaseline: a run against itself is noise; one that is ten times quicker is not.
func TestBaseline(t *testing.T) {
	base, err := read(made(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	if text := base.compared(base); strings.Contains(text, "better") || strings.Contains(text, "worse") || !strings.Contains(text, "Of 16 figures 16 are within the noise") {
		t.Errorf("a run beside itself: %s", text)
	}
	quick, err := read(made(t, 10))
	if err != nil {
		t.Fatal(err)
	}
	if text := quick.compared(base); !strings.Contains(text, "| ringmq-sync 64x16 per_second | 105 k (60.0 k–180 k) | 1050 k (600 k–1800 k) | better, +900 %") || strings.Contains(text, "stock-sync") {
		t.Errorf("a quick run beside a slow one: %s", text)
	}
	if text := base.compared(quick); !strings.Contains(text, "worse, -90 %") {
		t.Errorf("a slow run beside a quick one: %s", text)
	}
	quick.Host = "another"
	if text := quick.compared(base); !strings.Contains(text, "Another machine") {
		t.Error("figures of two machines were compared")
	}
}

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		before, now []float64
		lower       bool
		want        string
	}{
		"less time":       {[]float64{10, 11, 12, 13}, []float64{1, 2, 3, 4}, true, "better"},
		"more time":       {[]float64{1, 2, 3, 4}, []float64{10, 11, 12, 13}, true, "worse"},
		"they overlap":    {[]float64{1, 5, 9, 13}, []float64{3, 7, 11, 15}, false, "within noise"},
		"too few to tell": {[]float64{1, 2, 3}, []float64{10, 20, 30}, false, "within noise"},
		"from nothing":    {[]float64{0, 0, 0, 0}, []float64{1, 2, 3, 4}, false, "better"},
		"always the same": {[]float64{5, 5, 5, 5}, []float64{5, 5, 5, 5}, false, "within noise"},
	} {
		if got, _ := judge(c.before, c.now, c.lower); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestNothingToReport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.json")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := report(file, t.TempDir(), ""); err == nil || !strings.Contains(err.Error(), "no figures") {
		t.Error(err)
	}
}
