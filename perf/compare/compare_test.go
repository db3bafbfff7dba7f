package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ringmq/node/nodetest"
	"ringmq/perf/host"
	"ringmq/perf/load"
)

// TestMain lets this binary be the bare server that the command starts from itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-bare" {
		main()
	}
	os.Exit(m.Run())
}

// TestTable measures every row once, with loads that are over at once, so that the command cannot rot. Nothing is asked
// of the figures but that there are some.
func TestTable(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "ringmq")
	if out, err := exec.Command("go", "build", "-o", bin, "ringmq/cmd/ringmq").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	c := comparison{ctx: t.Context(), bin: bin, port: nodetest.FreePort(t), topicCount: 20, segmentBytes: 1 << 20, coldBytes: 8 << 20, dueCount: 1000, dueAfter: 3 * time.Second, waiters: 200, pullBytes: 1 << 20, holdFor: time.Second,
		load: load.Send{Conns: 4, InFlight: 4, Bytes: 1024, For: time.Second}}
	var names []string
	for _, r := range rows {
		if _, err := host.DiskOf(t.TempDir()); err != nil && r.name == "device" {
			t.Logf("without the row %s: %v", r.name, err)
			continue
		}
		names = append(names, r.name)
	}
	var out strings.Builder
	if err := c.table(&out, t.TempDir(), 1, names); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, r := range rows {
		if slices.Contains(names, r.name) && !strings.Contains(out.String(), "| "+r.what+" | ") {
			t.Errorf("no row %q in\n%s", r.what, &out)
		}
	}
	if err := c.table(&out, t.TempDir(), 1, []string{"nothing"}); err == nil {
		t.Error("a row that does not exist was measured")
	}
}
