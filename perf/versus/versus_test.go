package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"ringmq/node/nodetest"
	"ringmq/perf/serve"
)

// TestMain: the bare loop is another process of this binary.
func TestMain(m *testing.M) {
	if len(os.Args) > 4 && os.Args[1] == "-bare" {
		exit(serveBare(os.Args[2], os.Args[4]))
	}
	os.Exit(m.Run())
}

// node builds the node's binary.
func node(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "ringmq")
	if out, err := exec.Command("go", "build", "-o", bin, "ringmq/cmd/ringmq").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return bin
}

// short is a comparison of a moment for each measurement.
func short(t *testing.T, names, works string) versus {
	t.Helper()
	v := versus{
		bin: node(t), dir: t.TempDir(), rounds: 1, port: nodetest.FreePort(t), heap: "512m",
		span: 500 * time.Millisecond, warm: 50 * time.Millisecond, compile: 300 * time.Millisecond,
	}
	var err error
	if v.subjects, err = choose(subjects, names); err != nil {
		t.Fatal(err)
	}
	if v.works, err = choose(allWorks, works); err != nil {
		t.Fatal(err)
	}
	return v
}

// held checks that each subject has each of these figures. On a busy machine a moment may pass without a message.
func held(t *testing.T, r *Report, want map[string][]string) {
	t.Helper()
	have := map[string]float64{}
	for _, f := range r.Figures {
		have[f.Subject+" "+f.Work+" "+f.Name] = f.Value
	}
	for subject, figures := range want {
		if r.Subjects[subject] == "" {
			t.Errorf("nothing says how %s was started", subject)
		}
		for _, f := range figures {
			if _, ok := have[subject+" "+f]; !ok {
				t.Errorf("%s has no %s", subject, f)
			}
		}
	}
}

// TestNodeAndBareLoop: a round without a stock broker leaves nothing behind but its file.
func TestNodeAndBareLoop(t *testing.T) {
	v := short(t, "ringmq-sync,bare", "1x1,batch,pull,open-1000")
	r, err := v.measure(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	held(t, r, map[string][]string{
		"ringmq-sync": {"start ms", "start own_mib", "1x1 per_second", "1x1 answer_p99_us", "batch per_second", "pull per_second", "open-1000 delivery_p50_us"},
		"bare":        {"1x1 per_second"},
	})
	if left, err := os.ReadDir(v.dir); err != nil || len(left) != 0 {
		t.Errorf("left %v %v", left, err)
	}
	file := filepath.Join(t.TempDir(), "new", "r.json")
	if err := r.write(file); err != nil {
		t.Fatal(err)
	}
	var back Report
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &back)
	}
	if err != nil || len(back.Figures) != len(r.Figures) || back.Host == "" {
		t.Errorf("read back: %v, %d figures of %d", err, len(back.Figures), len(r.Figures))
	}
}

// TestShortForm runs everything once, the stock broker too, so that none of it can rot.
func TestShortForm(t *testing.T) {
	if os.Getenv("RINGMQ_PROVE") == "" {
		t.Log("RINGMQ_PROVE is not set: the short form runs in make prove")
		return
	}
	v := short(t, "ringmq-sync,stock-sync,bare", "1x1,64x16,batch,pull,open-1000,topics,idle")
	var err error
	v.classpath, err = serve.StockClasspath("../interop/stock/pom.xml")
	if errors.Is(err, serve.ErrNoStock) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := v.measure(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	all := []string{"start ms", "1x1 per_second", "64x16 cpu_us", "batch per_second", "pull per_second", "open-1000 delivery_p99_us", "topics created_per_second", "idle own_mib"}
	held(t, r, map[string][]string{"ringmq-sync": all, "stock-sync": all, "bare": {"64x16 per_second"}})
}
