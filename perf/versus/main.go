// Command versus measures a built node beside a stock broker, as shipped and tuned, and beside the bare loop of both, on
// one disk, one server at a time, in interleaved rounds: the speed of a shared disk changes by the minute, and only what was
// measured in one round may be compared. It writes what it measured as JSON; perf/report makes tables and plots of that.
//
//	make compare                                       # build, measure, report
//	go run ./perf/versus -rounds 1 -for 300ms -works 64x16,1x1   # a glance
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"ringmq/perf/floor"
	"ringmq/perf/host"
	"ringmq/perf/serve"
)

func main() {
	var v versus
	flag.StringVar(&v.bin, "bin", "bin/ringmq", "the node's binary")
	flag.StringVar(&v.dir, "dir", "", "folder for data, on the disk to measure (default: a temporary one)")
	flag.IntVar(&v.rounds, "rounds", 5, "interleaved rounds")
	flag.DurationVar(&v.span, "for", 3*time.Second, "counted time of each measurement")
	flag.DurationVar(&v.warm, "warm", time.Second, "time before each that is not counted")
	flag.DurationVar(&v.compile, "compile", 15*time.Second, "load before all measurements of a JVM, in which it compiles what is hot")
	flag.IntVar(&v.port, "port", 22911, "port of the servers; they take the ones from 2 before to 4 after it")
	flag.StringVar(&v.heap, "heap", "2g", "heap of the stock broker's JVM (as shipped: 8g, which few machines of two processors have)")
	pom := flag.String("stock", "perf/interop/stock/pom.xml", "Maven project with the stock broker; empty: none is measured")
	chosen := flag.String("subjects", strings.Join(namesOf(subjects), ","), "what is measured")
	works := flag.String("works", strings.Join(namesOf(allWorks), ","), "by what")
	out := flag.String("out", "perf/reports/latest.json", "where the figures go")
	bare := flag.String("bare", "", "be the bare loop at this address, on -dir (used by the command itself)")
	flag.Parse()
	if *bare != "" {
		exit(serveBare(*bare, v.dir))
	}
	var err error
	if v.subjects, err = choose(subjects, *chosen); err != nil {
		exit(err)
	}
	if v.works, err = choose(allWorks, *works); err != nil {
		exit(err)
	}
	if slices.ContainsFunc(v.subjects, func(s subject) bool { return s.stock }) && *pom != "" {
		if v.classpath, err = serve.StockClasspath(*pom); err != nil {
			exit(err)
		}
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	r, err := v.measure(ctx, os.Stdout)
	if err == nil {
		err = r.write(*out)
	}
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "versus:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serveBare(addr, dir string) error {
	s, err := floor.NewServer(dir, 256<<20)
	if err != nil {
		return err
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM, os.Interrupt)
	go func() {
		<-term
		s.Stop()
	}()
	return s.Run(addr, 1)
}

// named is a row of a table that is chosen from by name.
type named interface{ called() string }

func namesOf[T named](list []T) (names []string) {
	for _, x := range list {
		names = append(names, x.called())
	}
	return names
}

func choose[T named](list []T, names string) (chosen []T, err error) {
	for name := range strings.SplitSeq(names, ",") {
		at := slices.IndexFunc(list, func(x T) bool { return x.called() == name })
		if at < 0 {
			return nil, fmt.Errorf("no %q: choose from %s", name, strings.Join(namesOf(list), ","))
		}
		chosen = append(chosen, list[at])
	}
	return chosen, nil
}

// versus is what was asked for.
type versus struct {
	bin, dir, classpath, heap string
	rounds, port              int
	span, warm, compile       time.Duration
	subjects                  []subject
	works                     []work
}

// Report is the file that is written. perf/report reads it; a field that it knows is not renamed.
type Report struct {
	Host     string            `json:"host"`
	Began    time.Time         `json:"began"`
	Rounds   int               `json:"rounds"`
	Seconds  float64           `json:"seconds"`  // of each measurement
	Subjects map[string]string `json:"subjects"` // how each was started
	Works    map[string]string `json:"works"`
	Figures  []Figure          `json:"figures"`
}

// Figure is one measured number.
type Figure struct {
	Round   int     `json:"round"`
	Subject string  `json:"subject"`
	Work    string  `json:"work"`
	Name    string  `json:"name"` // such as per_second
	Value   float64 `json:"value"`
}

// measure runs all rounds: in each, one server after the other is started on an empty directory, does all works, and ends.
func (v versus) measure(ctx context.Context, out io.Writer) (*Report, error) {
	dir, err := os.MkdirTemp(v.dir, "versus")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	r := &Report{Host: host.Describe(dir), Began: time.Now().UTC(), Rounds: v.rounds, Seconds: v.span.Seconds(), Subjects: map[string]string{}, Works: map[string]string{}}
	for _, s := range v.subjects {
		r.Subjects[s.name] = s.how(v)
	}
	for _, w := range v.works {
		r.Works[w.name] = w.what
	}
	fmt.Fprintln(out, r.Host)
	for round := 1; round <= v.rounds; round++ {
		for _, s := range v.subjects {
			if s.stock && v.classpath == "" {
				continue
			}
			if err := v.subject(ctx, r, round, s, filepath.Join(dir, fmt.Sprint(s.name, round)), out); err != nil {
				return nil, fmt.Errorf("round %d, %s: %w", round, s.name, err)
			}
		}
	}
	return r, nil
}

func (v versus) subject(ctx context.Context, r *Report, round int, s subject, dir string, out io.Writer) (err error) {
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	began := time.Now()
	server, err := s.start(v, dir)
	if err != nil {
		return err
	}
	defer server.Stop()
	add := func(work, name string, value float64) {
		r.Figures = append(r.Figures, Figure{round, s.name, work, name, value})
		fmt.Fprintf(out, "round %d  %-18s %-12s %-18s %12.2f\n", round, s.name, work, name, value)
	}
	add("start", "ms", time.Since(began).Seconds()*1e3)
	own, err := host.OwnMemory(server.PID())
	if err != nil {
		return err
	}
	add("start", "own_mib", float64(own)/(1<<20))
	m := &measuring{versus: v, server: server, subject: s, dir: dir}
	if s.stock && v.compile > 0 {
		if err := m.heat(ctx); err != nil {
			return err
		}
	}
	for _, w := range v.works {
		if s.bare && !w.bare {
			continue
		}
		if err := w.run(ctx, m, func(name string, value float64) { add(w.name, name, value) }); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}

func (r *Report) write(file string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
