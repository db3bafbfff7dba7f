// Command compare measures a built node beside bare loops on the same disk, in interleaved rounds, because the speed of
// a shared disk changes by the minute: only ratios within one round mean anything. Each row of the table is measured
// once a round, one row after the other; the median over the rounds is held to the row's target.
//
//	make build
//	go run ./perf/compare -rounds 5                 # all rows
//	go run ./perf/compare -rounds 5 -rows sync,cpu  # some
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"ringmq/perf/floor"
	"ringmq/perf/host"
	"ringmq/perf/load"
)

func main() {
	var names []string
	for _, r := range rows {
		names = append(names, r.name)
	}
	bin := flag.String("bin", "bin/ringmq", "the node's binary")
	dir := flag.String("dir", "", "folder for data, on the disk to measure (default: a temporary one)")
	rounds := flag.Int("rounds", 3, "interleaved rounds")
	span := flag.Duration("for", 5*time.Second, "counted time of each measurement")
	conns := flag.Int("conns", 64, "connections")
	inFlight := flag.Int("inflight", 16, "requests under way on each connection")
	bytes := flag.Int("bytes", 1024, "body of a message")
	topics := flag.Int("topics", 5000, "topics of the row with many")
	port := flag.Int("port", 21911, "port of the servers under test; a node takes the ones 2 before, 2 and 4 after it as well")
	chosen := flag.String("rows", strings.Join(names, ","), "rows of the table")
	bare := flag.String("bare", "", "be the bare server at this address, on -dir (used by the command itself)")
	pulls := flag.String("pulls", "", "with -bare: serve pulls of these records")
	flag.Parse()
	if *bare != "" {
		exit(serveBare(*bare, *dir, *pulls))
	}
	c := comparison{ctx: context.Background(), bin: *bin, port: *port, topicCount: *topics, segmentBytes: 64 << 20, coldBytes: 1 << 30, dueCount: 100_000, dueAfter: 10 * time.Second, waiters: 10_000, pullBytes: 1 << 30, holdFor: 15 * time.Second, load: load.Send{Conns: *conns, InFlight: *inFlight, Bytes: *bytes, Warm: time.Second, For: *span}}
	exit(c.table(os.Stdout, *dir, *rounds, strings.Split(*chosen, ",")))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

type comparison struct {
	ctx          context.Context
	bin          string
	port         int
	topicCount   int
	segmentBytes int   // of the log, in the rows where segments are used again
	coldBytes    int   // of the log that is read while it is not in memory
	dueCount     int64 // messages that are due at once
	dueAfter     time.Duration
	pullBytes    int64         // pulled where it is counted what a node reads
	waiters      int           // consumers that wait
	holdFor      time.Duration // how long one of their pulls is held
	firstMessage bool          // a node counts as started once it has answered a send
	load         load.Send
}

// table measures and prints.
func (c comparison) table(out io.Writer, dir string, rounds int, names []string) error {
	var chosen []row
	for _, name := range names {
		at := slices.IndexFunc(rows, func(r row) bool { return r.name == name })
		if at < 0 {
			return fmt.Errorf("-rows %s: no such row", name)
		}
		chosen = append(chosen, rows[at])
	}
	dir, err := os.MkdirTemp(dir, "compare")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Fprintf(out, "%s\n%d connections x %d in flight, %d bytes, %v each, %d rounds\n\n", host.Describe(dir), c.load.Conns, c.load.InFlight, c.load.Bytes, c.load.For, rounds)
	held := make([][]float64, len(chosen))
	for round := 1; round <= rounds; round++ {
		for i, r := range chosen {
			value, figures, err := r.measure(c, dir)
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", r.name, round, err)
			}
			held[i] = append(held[i], value)
			fmt.Fprintf(out, "round %d  %-7s %8.2f  %s\n", round, r.name, value, figures)
		}
	}
	fmt.Fprintf(out, "\n| Row | Median | From | To | Target |\n|---|---|---|---|---|\n")
	for i, r := range chosen {
		slices.Sort(held[i])
		median := held[i][len(held[i])/2]
		fmt.Fprintf(out, "| %s | %.2f | %.2f | %.2f | %s |\n", r.what, median, held[i][0], held[i][len(held[i])-1], r.target)
	}
	return nil
}

// serveBare is the other process of a comparison; it ends at SIGTERM.
func serveBare(addr, dir, pulls string) error {
	if pulls != "" {
		layout, err := parseLayout(pulls)
		if err != nil {
			return err
		}
		p, err := floor.NewPull(dir, layout)
		if err != nil {
			return err
		}
		defer p.Close()
		atTerm(p.Stop)
		return p.Run(addr)
	}
	s, err := floor.NewServer(dir, 256<<20)
	if err != nil {
		return err
	}
	atTerm(s.Stop)
	return s.Run(addr, 1)
}

func atTerm(stop func()) {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM, os.Interrupt)
	go func() {
		<-term
		stop()
	}()
}
