package metrics

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ringmq/netio"
	"ringmq/store"
	"ringmq/uring/hist"
)

// lines writes a page and returns our own lines by name and labels.
func lines(t *testing.T, p *Page) map[string]string {
	t.Helper()
	var b bytes.Buffer
	p.Write(&b)
	all := map[string]string{}
	for s := bufio.NewScanner(&b); s.Scan(); {
		line := s.Text()
		if !strings.HasPrefix(line, "ringmq_") && !strings.HasPrefix(line, "rocketmq_") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		if _, twice := all[line[:at]]; twice {
			t.Errorf("twice on the page: %s", line)
		}
		all[line[:at]] = line[at+1:]
	}
	return all
}

// numbered fills each field of stats with another number and returns them.
func numbered(stats any) map[string]bool {
	v, numbers := reflect.ValueOf(stats).Elem(), map[string]bool{}
	for i := range v.NumField() {
		switch f := v.Field(i).Addr().Interface().(type) {
		case *int64:
			*f = int64(1000 + i)
			numbers[fmt.Sprint(1000+i)] = true
		case *hist.Snapshot:
			f.Counts[3] = int64(1000 + i)
			numbers[fmt.Sprint(1000+i)] = true
		}
	}
	return numbers
}

// TestEveryNumberHasAName: a counter that a layer adds must appear on the page.
func TestEveryNumberHasAName(t *testing.T) {
	var net netio.Stats
	var st store.Stats
	missing := numbered(&net)
	p := New("c", "n")
	p.Net("broker", func() netio.Stats { return net })
	for _, value := range lines(t, p) {
		delete(missing, value)
	}
	if len(missing) > 0 {
		t.Errorf("net: no line has the numbers %v (field 1000 is the first)", slices.Sorted(maps.Keys(missing)))
	}
	missing = numbered(&st)
	p = New("c", "n")
	p.Store(func() store.Stats { return st }, func() store.Marks { return store.Marks{} })
	for _, value := range lines(t, p) {
		delete(missing, value)
	}
	if len(missing) > 0 {
		t.Errorf("store: no line has the numbers %v (field 1000 is the first)", slices.Sorted(maps.Keys(missing)))
	}
}

func TestPage(t *testing.T) {
	p := New("Default\"Cluster", "broker-a")
	p.Gauge("rocketmq_topic_number", func() float64 { return 12 })
	p.Counter("ringmq_rpc_panics_total", func() int64 { return 1 << 60 })
	p.Net("broker", func() netio.Stats { return netio.Stats{Conns: 3} })
	p.Net("namesrv", func() netio.Stats { return netio.Stats{Conns: 4, ClosedIdle: 9} })
	p.Store(func() store.Stats { return store.Stats{Appended: 7} }, func() store.Marks { return store.Marks{Written: 100, Durable: 60, Visible: 50} })
	got := lines(t, p)
	const node = `cluster="Default\"Cluster",node_type="broker",node_id="broker-a"`
	for name, want := range map[string]string{
		`rocketmq_topic_number{` + node + `}`:                                    "12",
		`ringmq_rpc_panics_total{` + node + `}`:                                  "1152921504606846976",
		`ringmq_net_connections{` + node + `,listener="broker"}`:                 "3",
		`ringmq_net_connections{` + node + `,listener="namesrv"}`:                "4",
		`ringmq_net_closed_total{` + node + `,listener="namesrv",reason="idle"}`: "9",
		`rocketmq_messages_in_total{` + node + `}`:                               "7",
		`rocketmq_storage_flush_behind_bytes{` + node + `}`:                      "40",
		`rocketmq_storage_dispatch_behind_bytes{` + node + `}`:                   "50",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %s", name, got[name], want)
		}
	}
	var b bytes.Buffer
	if p.Write(&b); !strings.Contains(b.String(), "process_resident_memory_bytes") {
		t.Error("nothing of the process on the page")
	}
}

// TestHist: a histogram is shown as Prometheus wants it: each bucket holds those below, and the last one all.
func TestHist(t *testing.T) {
	var h hist.Hist
	h.Add(3, 2)
	h.Add(100, 1)
	h.Add(1<<40, 1)
	p := New("c", "n")
	p.Hist("ringmq_x_seconds", 1e-6, h.Read)
	got := lines(t, p)
	const node = `cluster="c",node_type="broker",node_id="n"`
	for name, want := range map[string]string{
		`ringmq_x_seconds_bucket{` + node + `,le="2e-06"}`:    "0",
		`ringmq_x_seconds_bucket{` + node + `,le="4e-06"}`:    "2",
		`ringmq_x_seconds_bucket{` + node + `,le="6.4e-05"}`:  "2",
		`ringmq_x_seconds_bucket{` + node + `,le="0.000128"}`: "3",
		`ringmq_x_seconds_bucket{` + node + `,le="1073.74"}`:  "3",
		`ringmq_x_seconds_bucket{` + node + `,le="+Inf"}`:     "4",
		`ringmq_x_seconds_count{` + node + `}`:                "4",
		`ringmq_x_seconds_sum{` + node + `}`:                  "1.099511627882e+06",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %s", name, got[name], want)
		}
	}
}

// TestLagsAreBounded: whoever makes up thousands of groups gets one line for them, and the largest lag is always there.
func TestLagsAreBounded(t *testing.T) {
	var all []Lag
	for i := range 5000 {
		all = append(all, Lag{Group: fmt.Sprint("g", i), Topic: "t", Messages: int64(i)})
	}
	p := New("c", "n")
	p.Lags(func() []Lag { return all })
	got := lines(t, p)
	const node = `rocketmq_consumer_lag_messages{cluster="c",node_type="broker",node_id="n",consumer_group=`
	if len(got) != lagsMost+1 || got[node+`"g4999",topic="t"}`] != "4999" || got[node+`"_others",topic="_others"}`] != "1.012275e+07" { // the sum of 0 to 4499: 10,122,750
		t.Errorf("%d lines, %q, %q", len(got), got[node+`"g4999",topic="t"}`], got[node+`"_others",topic="_others"}`])
	}
}
