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
		if v.Field(i).Kind() == reflect.Int64 {
			v.Field(i).SetInt(int64(1000 + i))
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
