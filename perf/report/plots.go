package main

import (
	"image/color"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// colors of the subjects, in their order; they differ in brightness too.
var colors = []color.RGBA{
	{0, 90, 181, 255}, {220, 50, 32, 255}, {90, 90, 90, 255}, {230, 150, 0, 255}, {26, 160, 220, 255}, {140, 20, 90, 255}, {60, 150, 60, 255},
}

// plots draws what there is figures for, each as SVG and PNG, and returns the names of the former.
func (r *run) plots(dir string) (names []string, err error) {
	save := func(p *plot.Plot, name string, some bool) {
		if !some || err != nil {
			return
		}
		if _, ok := p.Y.Scale.(plot.LogScale); ok {
			p.Y.Min, p.Y.Max = p.Y.Min/1.5, p.Y.Max*4 // room for the legend
		}
		for _, ending := range []string{".svg", ".png"} {
			if err == nil {
				err = p.Save(9*vg.Inch, 5*vg.Inch, filepath.Join(dir, name+ending))
			}
		}
		names = append(names, name+".svg")
	}
	p, some := r.lines("Throughput by concurrency, 1 KiB", "connections x requests under way", "messages a second", []string{"1x1", "16x1", "64x1", "64x16"}, nil, "per_second")
	save(p, "throughput", some)
	p, some = r.percentiles("64x16")
	save(p, "latency", some)
	p, some = r.offered()
	save(p, "delivery", some)
	p, some = r.bars("CPU of the server per message, 64 x 16", "µs", "64x16", "cpu_us")
	save(p, "cpu", some)
	p, some = r.bars("Own memory after the first send", "MiB", "start", "own_mib")
	save(p, "memory", some)
	return names, err
}

// chart is an empty plot with a logarithmic y axis, which all of these need: the subjects are far apart.
func chart(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	return p
}

// decades marks 1, 2 and 5 of each power of ten, with numbers that people read.
type decades struct{}

func (decades) Ticks(least, most float64) (ticks []plot.Tick) {
	for e := math.Floor(math.Log10(least)); e <= math.Ceil(math.Log10(most)); e++ {
		for _, m := range []float64{1, 2, 5} {
			if v := m * math.Pow(10, e); v >= least*0.999 && v <= most*1.001 {
				ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', -1, 64)})
			}
		}
	}
	return ticks
}

// line adds one subject's line; points of no value are left out.
func line(p *plot.Plot, name string, index int, points plotter.XYs) bool {
	var shown plotter.XYs
	for _, at := range points {
		if at.Y > 0 {
			shown = append(shown, at)
		}
	}
	if len(shown) == 0 {
		return false
	}
	l, marks, err := plotter.NewLinePoints(shown)
	if err != nil {
		return false
	}
	l.Color, l.Width = colors[index%len(colors)], vg.Points(1.8)
	marks.Color, marks.Shape = l.Color, draw.CircleGlyph{}
	if strings.HasPrefix(name, "stock") {
		l.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
	}
	p.Add(l, marks)
	p.Legend.Add(name, l, marks)
	return true
}

// lines has a figure of several works, for each subject.
func (r *run) lines(title, x, y string, works, labels []string, figure string) (*plot.Plot, bool) {
	p := chart(title, x, y)
	some := false
	for i, s := range r.subjects {
		var points plotter.XYs
		for at, w := range works {
			points = append(points, plotter.XY{X: float64(at), Y: median(r.of(key{s, w, figure}))})
		}
		some = line(p, s, i, points) || some
	}
	if labels == nil {
		labels = works
	}
	p.NominalX(labels...)
	return p, some
}

func (r *run) percentiles(work string) (*plot.Plot, bool) {
	p := chart("Time to the answer, "+strings.Replace(work, "x", " x ", 1), "", "µs")
	some := false
	for i, s := range r.subjects {
		var points plotter.XYs
		for at, q := range []string{"p50", "p99", "p999"} {
			points = append(points, plotter.XY{X: float64(at), Y: median(r.of(key{s, work, "answer_" + q + "_us"}))})
		}
		some = line(p, s, i, points) || some
	}
	p.NominalX("p50", "p99", "p99.9")
	return p, some
}

// offered is the delivery over the rate that was offered.
func (r *run) offered() (*plot.Plot, bool) {
	works := []string{"open-1000", "open-5000", "open-20000"}
	return r.lines("Delivery, p99, over the offered rate", "messages offered a second", "µs", works, []string{"1,000", "5,000", "20,000"}, "delivery_p99_us")
}

// bars has one figure of each subject. Their axis begins at zero, as bars have to.
func (r *run) bars(title, unit, work, figure string) (*plot.Plot, bool) {
	p := plot.New()
	p.Title.Text, p.Y.Label.Text, p.Y.Min = title, unit, 0
	var labels []string
	for i, s := range r.subjects {
		v := r.of(key{s, work, figure})
		if len(v) == 0 {
			continue
		}
		bar, err := plotter.NewBarChart(plotter.Values{median(v)}, vg.Points(40))
		if err != nil {
			continue
		}
		bar.XMin, bar.Color, bar.LineStyle.Width = float64(len(labels)), colors[i%len(colors)], 0
		p.Add(bar)
		labels = append(labels, s)
	}
	p.NominalX(labels...)
	return p, len(labels) > 0
}
