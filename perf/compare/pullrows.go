package main

import (
	"fmt"
	"os"
	"os/exec"
	"time"

	"ringmq/perf/floor"
	"ringmq/perf/host"
	"ringmq/perf/load"
)

// pullQueues are those of the topic that is read, one for each connection.
const pullQueues = 8

// pulls is the load of catch-up consumers.
func (c comparison) pulls() load.Consume {
	return load.Consume{Plain: true, Queues: pullQueues, Conns: pullQueues, Warm: c.load.Warm, For: c.load.For}
}

// filled is what a node has stored for a row of pulls.
type filled struct {
	messages    int64
	recordBytes int // of one message in the log
}

// withFilled calls f with a node that has taken messages of some bytes from one sender, so that the queues take turns in
// the log. What it has is in the page cache.
func (c comparison) withFilled(dir string, bytes int, f func(*server, filled) error) error {
	return c.withNode(dir, "ASYNC_FLUSH", nil, func(s *server) error {
		fill := c.load
		fill.Conns, fill.InFlight, fill.Queues, fill.Bytes, fill.Warm = 1, 256, pullQueues, bytes, 0
		r, err := c.run(s, fill)
		if err != nil {
			return err
		}
		end, err := s.Number("ringmq_store_visible_offset")
		if err != nil {
			return err
		}
		stored, err := s.Number("rocketmq_messages_in_total")
		if err != nil {
			return err
		}
		return f(s, filled{r.OK, int(end / stored)})
	})
}

// pull runs pulls on a server and returns what came, and its CPU time per message.
func (c comparison) pull(s *server) (r load.Consumed, perMessage time.Duration, err error) {
	p := c.pulls()
	p.Addr = s.Addr
	warm := p
	warm.For, warm.Warm = max(p.Warm, p.For/4), 0
	if _, err = warm.Run(c.ctx); err != nil {
		return r, 0, err
	}
	p.Warm = 0
	before, err := host.CPU(s.PID())
	if err != nil {
		return r, 0, err
	}
	if r, err = p.Run(c.ctx); err != nil {
		return r, 0, err
	}
	after, err := host.CPU(s.PID())
	if err == nil && r.Messages == 0 {
		err = fmt.Errorf("no message in %v", p.For)
	}
	return r, (after - before) / time.Duration(max(r.Messages, 1)), err
}

// pullRate compares a node's pulls with those of the bare loop, on as many records of the same size.
func (c comparison) pullRate(dir string, bytes, most int, sendfile bool) (held float64, figures string, err error) {
	var node load.Consumed
	var cpu time.Duration
	var has filled
	err = c.withFilled(dir, bytes, func(s *server, f filled) (err error) {
		has = f
		node, cpu, err = c.pull(s)
		return err
	})
	if err != nil {
		return 0, "", err
	}
	s, err := c.startBarePull(dir, floor.Layout{Queues: pullQueues, Records: int(has.messages) / pullQueues, RecordBytes: has.recordBytes, Most: most, Sendfile: sendfile})
	if err != nil {
		return 0, "", err
	}
	defer s.Stop()
	bare, bareCPU, err := c.pull(s)
	if err != nil {
		return 0, "", err
	}
	figures = fmt.Sprintf("node %.0f/s, %.1f in a pull, CPU %v each; bare %.0f/s, %.1f in a pull, CPU %v each", node.PerSecond(), perPull(node), cpu, bare.PerSecond(), perPull(bare), bareCPU)
	return node.PerSecond() / bare.PerSecond(), figures, nil
}

func perPull(p load.Consumed) float64 { return float64(p.Messages) / float64(max(p.Pulls, 1)) }

func (c comparison) pullSmall(dir string) (float64, string, error) {
	return c.pullRate(dir, 1024, 32, false)
}

// pullLarge: as many messages as make a pull's 256 KiB.
func (c comparison) pullLarge(dir string) (float64, string, error) {
	return c.pullRate(dir, 16<<10, 15, true)
}

func (c comparison) pullCPU(dir string) (us float64, figures string, err error) {
	err = c.withFilled(dir, 1024, func(s *server, _ filled) error {
		r, cpu, err := c.pull(s)
		us = float64(cpu.Nanoseconds()) / 1e3
		figures = fmt.Sprintf("%.0f/s, %.1f in a pull", r.PerSecond(), perPull(r))
		return err
	})
	return us, figures, err
}

// startBarePull starts the bare loop of pulls in a process of its own.
func (c comparison) startBarePull(dir string, l floor.Layout) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &server{Addr: fmt.Sprint("127.0.0.1:", c.port)}
	return s, s.Start(exec.Command(self, "-bare", s.Addr, "-dir", dir, "-pulls", encodeLayout(l)), s.Dial)
}

const layoutForm = "queues=%d,records=%d,bytes=%d,most=%d,sendfile=%t"

func encodeLayout(l floor.Layout) string {
	return fmt.Sprintf(layoutForm, l.Queues, l.Records, l.RecordBytes, l.Most, l.Sendfile)
}

func parseLayout(text string) (l floor.Layout, err error) {
	if _, err = fmt.Sscanf(text, layoutForm, &l.Queues, &l.Records, &l.RecordBytes, &l.Most, &l.Sendfile); err != nil {
		err = fmt.Errorf("-pulls %s: want %s: %w", text, layoutForm, err)
	}
	return l, err
}

// pullRead is what a node reads into its memory for a byte that consumers get: requests and queue entries, no message.
func (c comparison) pullRead(dir string) (share float64, figures string, err error) {
	err = c.withFilled(dir, 1024, func(s *server, _ filled) error {
		var before, after struct{ read, sendfile, copied float64 }
		look := func(read, sendfile, copied *float64) error {
			n, err := host.ReadBytes(s.PID())
			if err != nil {
				return err
			}
			*read = float64(n)
			if *sendfile, err = s.Labelled("ringmq_net_out_file_bytes_total", `by="sendfile"`); err != nil {
				return err
			}
			*copied, err = s.Labelled("ringmq_net_out_file_bytes_total", `by="copy"`)
			return err
		}
		if err := look(&before.read, &before.sendfile, &before.copied); err != nil {
			return err
		}
		p := c.pulls()
		p.Addr, p.Warm = s.Addr, 0
		pulled := int64(0)
		for pulled < c.pullBytes {
			r, err := p.Run(c.ctx)
			if err != nil {
				return err
			}
			pulled += r.Bytes
		}
		if err := look(&after.read, &after.sendfile, &after.copied); err != nil {
			return err
		}
		share = (after.read - before.read - (after.sendfile - before.sendfile)) / float64(pulled)
		figures = fmt.Sprintf("%.0f MiB pulled, %.1f MiB read, %.0f bytes of messages copied", float64(pulled)/(1<<20), share*float64(pulled)/(1<<20), after.copied-before.copied)
		return nil
	})
	return share, figures, err
}
