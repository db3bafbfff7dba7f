// Package metrics names the numbers that the layers below count, and writes them as Prometheus text.
//
// Names that the stock broker 5.x has are taken over where they mean the same; all others start with ringmq_.
// Every line carries the labels cluster, node_type and node_id of the stock broker.
package metrics

import (
	"fmt"
	"io"

	vm "github.com/VictoriaMetrics/metrics"

	"ringmq/netio"
	"ringmq/store"
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

// Net adds the counters of a listener, named by what listens there: broker, namesrv.
func (p *Page) Net(listener string, read func() netio.Stats) {
	labels := fmt.Sprintf("%s,listener=%q", p.labels, listener)
	p.set.RegisterMetricsWriter(func(w io.Writer) { write(w, netRows, read(), labels) })
}

// Store adds the counters and marks of the store.
func (p *Page) Store(read func() store.Stats, marks func() store.Marks) {
	p.set.RegisterMetricsWriter(func(w io.Writer) {
		write(w, storeRows, read(), p.labels)
		write(w, markRows, marks(), p.labels)
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
