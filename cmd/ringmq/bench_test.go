package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ringmq/node/nodetest"
	"ringmq/perf/host"
)

// benchOutput runs "ringmq bench" with these arguments.
func benchOutput(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := rootCommand()
	root.SetOut(&out)
	root.SetErr(io.Discard)
	root.SetArgs(append([]string{"bench"}, args...))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// benchResults are the objects of its results.
func benchResults(t *testing.T, args ...string) (results []map[string]any) {
	t.Helper()
	out, err := benchOutput(t, append(args, "--json")...)
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	for line := range strings.Lines(out) {
		var o map[string]any
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatalf("%v: %v in %q", args, err, line)
		}
		if o["bench"] != args[0] {
			t.Errorf("%v: %q", args, line)
		}
		if o["result"] == true {
			results = append(results, o)
		}
	}
	return results
}

// at looks a number up by its names.
func at(o map[string]any, names ...string) float64 {
	for _, name := range names[:len(names)-1] {
		o, _ = o[name].(map[string]any)
	}
	n, _ := o[names[len(names)-1]].(float64)
	return n
}

// TestBenches runs each benchmark, small, against a node: what it says is there, and what cannot be is not.
func TestBenches(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{RealTime: true})
	short := func(args ...string) []string {
		return append(args, "--addr", n.Addr(), "--for", "300ms")
	}
	unhurried := func(args ...string) []string { return append(short(args...), "--warm", "0s") }
	pid := strconv.Itoa(os.Getpid())

	if r := benchResults(t, unhurried("send", "--conns", "2", "--in-flight", "2", "--size", "100", "--pid", pid)...); len(r) != 1 ||
		at(r[0], "sent", "messages") < 1 || at(r[0], "sent", "latency_us", "p99") <= 0 || at(r[0], "broker", "resident_bytes") <= 0 || at(r[0], "generator", "processors") <= 0 {
		t.Errorf("send: %v", r)
	}
	if r := benchResults(t, unhurried("pull", "--consumers", "2")...); len(r) != 1 || at(r[0], "received", "messages") < 1 || at(r[0], "received", "wrong") != 0 || at(r[0], "received", "pull_us", "p50") <= 0 {
		t.Errorf("pull: %v", r)
	}
	if r := benchResults(t, unhurried("open", "--rate", "100")...); len(r) != 1 || at(r[0], "sent", "messages") != 30 || at(r[0], "sent", "late_us", "max") <= 0 {
		t.Errorf("open: %v", r)
	}
	for _, name := range []string{"e2e", "mixed"} {
		r := benchResults(t, unhurried(name, "--conns", "2", "--topic", "Bench"+name)...)
		if len(r) != 1 || at(r[0], "sent", "messages") < 1 || at(r[0], "received", "messages") < at(r[0], "sent", "messages") || at(r[0], "received", "delivery_us", "p50") <= 0 {
			t.Errorf("%s: %v", name, r)
		}
	}
	if r := benchResults(t, unhurried("topics", "--topics", "10", "--conns", "2", "--topic", "BenchMany")...); len(r) != 1 || at(r[0], "sent", "messages") < 1 {
		t.Errorf("topics: %v", r)
	}
	if r := benchResults(t, unhurried("fan", "--consumers", "50", "--conns", "2", "--topic", "BenchFan", "--pid", pid)...); len(r) != 1 || at(r[0], "sent", "messages") < 1 {
		t.Errorf("fan: %v", r)
	}
	if r := benchResults(t, unhurried("cold", "--fill", "100000", "--rate", "100", "--topic", "BenchCold")...); len(r) != 2 || r[0]["part"] != "alone" || at(r[1], "received", "messages") < 1 || at(r[1], "sent", "messages") != 30 {
		t.Errorf("cold: %v", r)
	}
	mark := filepath.Join(t.TempDir(), "executed")
	if r := benchResults(t, short("restart", "--conns", "2", "--topic", "BenchRestart", "--exec", "touch "+mark)...); len(r) != 1 || !strings.Contains(toText(t, r[0]), `{"name":"lost","value":0}`) {
		t.Errorf("restart: %v", r)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Error(err)
	}
}

func toText(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestBenchForPeople: the text has what the objects have, and the disk's part where there is a disk.
func TestBenchForPeople(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{RealTime: true})
	args := []string{"send", "--addr", n.Addr(), "--for", "300ms", "--warm", "0s", "--conns", "1", "--pid", strconv.Itoa(os.Getpid())}
	if _, err := host.DiskOf("."); err == nil {
		args = append(args, "--disk", ".")
	}
	out, err := benchOutput(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sent   ", "answered within  p50 ", "refused          none", "generator  ", "broker  "} {
		if !strings.Contains(out, want) {
			t.Errorf("nothing of %q in\n%s", want, out)
		}
	}
	if _, err := benchOutput(t, "send", "--addr", "127.0.0.1:1", "--for", "300ms"); err == nil {
		t.Error("a broker that is not there was measured")
	}
	if _, err := benchOutput(t, "send", "--pid", "999999999"); err == nil {
		t.Error("a process that is not there was measured")
	}
}

// TestCeiling: the echo server is a process of its own, and ends.
func TestCeiling(t *testing.T) {
	t.Setenv(asRingmq, "1")
	if r := benchResults(t, "ceiling", "--for", "300ms", "--warm", "0s"); len(r) != 1 || at(r[0], "sent", "messages") < 1 || at(r[0], "broker", "own_bytes") <= 0 {
		t.Errorf("ceiling: %v", r)
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -999: "-999"} {
		if got := grouped(n); got != want {
			t.Errorf("%d is %q", n, got)
		}
	}
}
