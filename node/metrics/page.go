// Package metrics names the numbers that the layers below count, and writes them as Prometheus text.
//
// Names that the stock broker 5.x has are taken over where they mean the same; all others start with ringmq_.
// Every line carries the labels cluster, node_type and node_id of the stock broker.
package metrics

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"

	vm "github.com/VictoriaMetrics/metrics"

	"ringmq/netio"
	"ringmq/store"
	"ringmq/uring/hist"
)

// Page is all that /metrics shows. Fill it before it is served; any goroutine may then write it.
type Page struct {
	set    *vm.Set
	labels string
}

// New returns a page of one node, with what the Go runtime and the process tell of themselves.
func New(cluster, node string) *Page {
	p := &Page{set: vm.NewSet(), labels: fmt.Sprintf("cluster=%q,node_type=\"broker\",node_id=%q", cluster, node)}
	p.set.RegisterMetricsWriter(vm.WriteProcessMetrics)
	return p
}

// Write writes the page as of now.
func (p *Page) Write(w io.Writer) { p.set.WritePrometheus(w) }

// Gauge adds a number that read returns. read is called for every page, by any goroutine.
func (p *Page) Gauge(name string, read func() float64) {
	p.set.NewGauge(name+"{"+p.labels+"}", read)
}

// Counter adds a number that only grows, and so has a name that ends in _total. read is called for every page, by any
// goroutine.
func (p *Page) Counter(name string, read func() int64) {
	name += "{" + p.labels + "}"
	p.set.RegisterMetricsWriter(func(w io.Writer) { vm.WriteCounterUint64(w, name, uint64(read())) })
}

// Recovery writes how much of the log a start has read, and has to read. It is there before anything else is, and has no
// labels.
func Recovery(w io.Writer, done, total int64) {
	vm.WriteGaugeFloat64(w, "ringmq_recovery_read_bytes", float64(done))
	vm.WriteGaugeFloat64(w, "ringmq_recovery_total_bytes", float64(total))
}

// Net adds the counters of a listener, named by what listens there: broker, namesrv.
func (p *Page) Net(listener string, read func() netio.Stats) {
	labels := fmt.Sprintf("%s,listener=%q", p.labels, listener)
	p.set.RegisterMetricsWriter(func(w io.Writer) {
		stats := read()
		write(w, netRows, stats, labels)
		writeHists(w, netHists, &stats, labels)
	})
}

// Store adds the counters and marks of the store.
func (p *Page) Store(read func() store.Stats, marks func() store.Marks) {
	p.set.RegisterMetricsWriter(func(w io.Writer) {
		stats := read()
		write(w, storeRows, stats, p.labels)
		writeHists(w, storeHists, &stats, p.labels)
		write(w, markRows, marks(), p.labels)
	})
}

// Hist adds a histogram whose values are shown multiplied by unit.
func (p *Page) Hist(name string, unit float64, read func() hist.Snapshot) {
	p.set.RegisterMetricsWriter(func(w io.Writer) {
		s := read()
		writeHist(w, name, p.labels, unit, &s)
	})
}

// Lag is how many messages a group has still to read of a topic.
type Lag struct {
	Group, Topic string
	Messages     int64
}

// lagsMost bounds the lines about groups, whatever clients make up: the largest lags have a line each, the others one
// together.
const lagsMost = 500

// Lags adds the stock broker's line for each group and topic.
func (p *Page) Lags(read func() []Lag) {
	p.set.RegisterMetricsWriter(func(w io.Writer) {
		lags := read()
		slices.SortFunc(lags, func(a, b Lag) int {
			return cmp.Or(cmp.Compare(b.Messages, a.Messages), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Topic, b.Topic))
		})
		if len(lags) > lagsMost {
			others := Lag{Group: "_others", Topic: "_others"}
			for _, l := range lags[lagsMost:] {
				others.Messages += l.Messages
			}
			lags = append(lags[:lagsMost:lagsMost], others)
		}
		for _, l := range lags {
			vm.WriteGaugeFloat64(w, fmt.Sprintf("rocketmq_consumer_lag_messages{%s,consumer_group=%q,topic=%q}", p.labels, l.Group, l.Topic), float64(l.Messages))
		}
	})
}

// row is one line of the page.
type row[S any] struct {
	name   string
	labels string // beside those of the page
	kind   kind
	read   func(*S) int64
}

type kind uint8

const (
	counter kind = iota // only grows
	gauge
)

func write[S any](w io.Writer, rows []row[S], stats S, labels string) {
	for _, r := range rows {
		name := r.name + "{" + labels
		if r.labels != "" {
			name += "," + r.labels
		}
		name += "}"
		if r.kind == counter {
			vm.WriteCounterUint64(w, name, uint64(r.read(&stats)))
			continue
		}
		vm.WriteGaugeFloat64(w, name, float64(r.read(&stats)))
	}
}

// histRow is one histogram of the page.
type histRow[S any] struct {
	name   string
	labels string
	unit   float64
	read   func(*S) *hist.Snapshot
}

func writeHists[S any](w io.Writer, rows []histRow[S], stats *S, labels string) {
	for _, r := range rows {
		all := labels
		if r.labels != "" {
			all += "," + r.labels
		}
		writeHist(w, r.name, all, r.unit, r.read(stats))
	}
}

// writeHist writes a histogram of Prometheus: how many values there were up to each bound. All bounds are there from the
// beginning: a line that appears later has no rate.
func writeHist(w io.Writer, name, labels string, unit float64, s *hist.Snapshot) {
	sum, all := int64(0), s.Count()
	for i := range hist.Buckets - 1 {
		sum += s.Counts[i]
		bound := strconv.FormatFloat(float64(int64(1)<<i)*unit, 'g', 6, 64)
		fmt.Fprintf(w, "%s_bucket{%s,le=%q} %d\n", name, labels, bound, sum)
	}
	fmt.Fprintf(w, "%s_bucket{%s,le=\"+Inf\"} %d\n", name, labels, all)
	fmt.Fprintf(w, "%s_sum{%s} %s\n", name, labels, strconv.FormatFloat(float64(s.Sum)*unit, 'g', -1, 64))
	fmt.Fprintf(w, "%s_count{%s} %d\n", name, labels, all)
}
