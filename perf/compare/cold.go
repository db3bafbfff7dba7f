package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"ringmq/perf/floor"
	"ringmq/perf/load"
)

// What one does to the other: a producer in an open loop with SYNC_FLUSH, and a reader of messages that the page cache does not
// have. The files are taken out of the cache before each measurement; the reader begins anew at the end of its queues, and what
// it reads past the cache stays out of it. So a machine with little memory is not needed.
const (
	coldProducerRate = 20_000
	coldConns        = 8
)

// coldWorld is a node with a log that nobody has in memory.
type coldWorld struct {
	c     comparison
	s     *server
	files []string // of the log, full
}

// withCold calls f with such a node.
func (c comparison) withCold(dir string, f func(coldWorld) error) error {
	dir, err := os.MkdirTemp(dir, "node")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := c.startNode(dir, "SYNC_FLUSH", fmt.Sprint("mappedFileSizeCommitLog=", c.segmentBytes))
	if err != nil {
		return err
	}
	defer s.Stop()
	old := load.Send{Addr: s.Addr, Topic: "Old", Conns: coldConns, InFlight: 4, Batch: 32, Bytes: c.load.Bytes, For: time.Second}
	w := coldWorld{c: c, s: s}
	for {
		if _, err := old.Run(c.ctx); err != nil {
			return err
		}
		end, err := s.Number("ringmq_store_visible_offset")
		if err != nil {
			return err
		}
		if full := int(end) / c.segmentBytes; full*c.segmentBytes >= c.coldBytes {
			for i := range full {
				w.files = append(w.files, filepath.Join(dir, "store", "commitlog", fmt.Sprintf("%020d", i*c.segmentBytes)))
			}
			return f(w)
		}
	}
}

// produce runs the producer beside something that lasts as long as it does.
func (w coldWorld) produce(beside func(ctx context.Context) error) (load.Result, error) {
	if err := floor.DropCache(w.files); err != nil {
		return load.Result{}, err
	}
	open := load.Open{Send: load.Send{Addr: w.s.Addr, Topic: "New", Conns: coldConns, Bytes: w.c.load.Bytes, Warm: w.c.load.Warm, For: w.c.load.For}, Rate: coldProducerRate}
	ctx, cancel := context.WithTimeout(w.c.ctx, open.Warm+open.For)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- beside(ctx) }()
	r, err := open.Run(w.c.ctx)
	if failed := <-ended; err == nil {
		err = failed
	}
	if err == nil && r.OK == 0 {
		err = fmt.Errorf("no answer in %v", open.For)
	}
	return r, err
}

func (w coldWorld) alone() (load.Result, error) {
	return w.produce(func(context.Context) error { return nil })
}

// besideReader is the producer beside consumers that catch up at full speed. read is what they got a second, in bytes.
func (w coldWorld) besideReader() (r load.Result, read float64, cold float64, err error) {
	before, err := w.s.Number("ringmq_store_cold_bytes_total")
	if err != nil {
		return r, 0, 0, err
	}
	began := time.Now()
	r, err = w.produce(func(ctx context.Context) error {
		got, err := load.Consume{
			Addr: w.s.Addr, Topic: "Old", Group: "catchup", Conns: coldConns, Most: 32, Plain: true, Mode: load.Again,
			Warm: w.c.load.Warm, For: w.c.load.For,
		}.Run(w.c.ctx)
		read = float64(got.Bytes) / got.Elapsed.Seconds()
		if err == nil && len(got.Refused) > 0 {
			err = fmt.Errorf("refused %v", got.Refused)
		}
		return err
	})
	if err != nil {
		return r, 0, 0, err
	}
	after, err := w.s.Number("ringmq_store_cold_bytes_total")
	return r, read, (after - before) / time.Since(began).Seconds(), err
}

// besideDirect is the producer beside a bare reader of the log's files.
func (w coldWorld) besideDirect() (r load.Result, read float64, err error) {
	began := time.Now()
	r, err = w.produce(func(ctx context.Context) error {
		n, err := floor.Direct{Files: w.files, PieceBytes: 256 << 10}.Read(ctx)
		read = float64(n) / time.Since(began).Seconds()
		return err
	})
	return r, read, err
}

const mib = 1 << 20

func (c comparison) coldProducer(dir string) (held float64, figures string, err error) {
	err = c.withCold(dir, func(w coldWorld) error {
		alone, err := w.alone()
		if err != nil {
			return err
		}
		beside, read, cold, err := w.besideReader()
		held = float64(beside.P99()) / float64(alone.P99())
		figures = fmt.Sprintf("p99 alone %v, beside %v; p50 %v, %v; %d and %d sent; the reader got %.0f MiB/s, of %.0f MiB/s from the disk",
			alone.P99().Round(time.Microsecond), beside.P99().Round(time.Microsecond), alone.P50().Round(time.Microsecond), beside.P50().Round(time.Microsecond),
			alone.OK, beside.OK, read/mib, cold/mib)
		return err
	})
	return held, figures, err
}

func (c comparison) coldReader(dir string) (held float64, figures string, err error) {
	err = c.withCold(dir, func(w coldWorld) error {
		with, read, cold, err := w.besideReader()
		if err != nil {
			return err
		}
		bare, direct, err := w.besideDirect()
		held = read / direct
		figures = fmt.Sprintf("reader %.0f MiB/s, of %.0f MiB/s from the disk; bare %.0f MiB/s; p99 of the producer %v and %v", read/mib, cold/mib, direct/mib,
			with.P99().Round(time.Microsecond), bare.P99().Round(time.Microsecond))
		return err
	})
	return held, figures, err
}
