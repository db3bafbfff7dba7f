package main

import (
	"fmt"
	"os"
	"time"

	"ringmq/perf/floor"
	"ringmq/perf/host"
	"ringmq/perf/load"
)

// row is one line of the table: what it measures in one round, and the ratio or the difference that is held to the
// target.
type row struct {
	name    string
	what    string
	target  string
	measure func(c comparison, dir string) (held float64, figures string, err error)
}

var rows = []row{
	{"start", "from the start on an empty directory to the first acknowledged send, ms", "<= 150", comparison.firstSend},
	{"idle", "own memory of an idle node, MiB", "<= 40", comparison.idle},
	{"sync", "SYNC / min(ASYNC, bare write+fdatasync of 1,024 records)", ">= 0.85", comparison.syncRate},
	{"one", "one sender, SYNC: p50 beyond one fdatasync and one echo, µs", "<= 60", comparison.oneSender},
	{"cpu", "server CPU per message, SYNC, recycled segments / bare gnet and group commit", "<= 1.3", comparison.cpu},
	{"device", "bytes to the device per record byte, SYNC, recycled segments", "<= 1.3", comparison.deviceBytes},
	{"fresh", "first fill of a directory / recycled segments, SYNC", ">= 0.65", comparison.fresh},
	{"delayed", "sends with a delay level / plain ones, SYNC", ">= 0.8", comparison.delayed},
	{"due", "p99 of plain sends while 100,000 messages are due at once / without, SYNC", "<= 1.5", comparison.due},
	{"topics", "5,000 topics x 8 queues / one topic, SYNC", ">= 0.85", comparison.topics},
	{"pull", "catch-up, 1 KiB, 32 in a pull, 8 connections / bare writev", ">= 0.8", comparison.pullSmall},
	{"pull16", "the same with 16 KiB, a pull's 256 KiB / bare sendfile", ">= 0.85", comparison.pullLarge},
	{"pullcpu", "server CPU per pulled message of 1 KiB, µs", "<= 1.0", comparison.pullCPU},
	{"pullread", "bytes that the server reads for a byte of answers, 1 GiB of them", "<= 0.05", comparison.pullRead},
	{"arrive", "arrival to a waiting consumer at 1,000/s, SYNC: p50 beyond the sender's own answer, µs", "<= 60, p99 <= 500", comparison.arrivalSync},
	{"arriveA", "the same, ASYNC", "<= 60, p99 <= 500", comparison.arrivalAsync},
	{"waiters", "own memory of each of 10,000 waiting consumers, KiB", "<= 6, CPU < 2 %", comparison.waiting},
	{"stuck", "p99 of pulls beside 50 consumers that stop in answers of 4 MiB / without", "~1", comparison.stuck},
	{"cold", "p99 of a producer, SYNC, 20,000/s, beside a reader of what is not in memory / without", "<= 2", comparison.coldProducer},
	{"coldread", "that reader / a bare O_DIRECT reader beside the same producer", ">= 0.7", comparison.coldReader},
}

// recordBytes is what a stored record takes beyond its body in this load: 91 fixed bytes, topic and properties.
const recordBytes = 250

// run loads a server and returns what it answered.
func (c comparison) run(s *server, l load.Send) (load.Result, error) {
	l.Addr = s.Addr
	r, err := l.Run(c.ctx)
	if err == nil && len(r.Refused) > 0 {
		err = fmt.Errorf("refused %v", r.Refused)
	}
	if err == nil && r.OK == 0 {
		err = fmt.Errorf("no answer in %v", l.For)
	}
	return r, err
}

// withNode calls f with a node of its own on an empty directory.
func (c comparison) withNode(dir, flush string, settings []string, f func(*server) error) error {
	dir, err := os.MkdirTemp(dir, "node")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := c.startNode(dir, flush, settings...)
	if err != nil {
		return err
	}
	defer s.Stop()
	return f(s)
}

// rate is that of the load on a node with an empty directory.
func (c comparison) rate(dir, flush string) (perSecond float64, err error) {
	err = c.withNode(dir, flush, nil, func(s *server) error {
		r, err := c.run(s, c.load)
		perSecond = r.PerSecond()
		return err
	})
	return perSecond, err
}

func (c comparison) syncRate(dir string) (float64, string, error) {
	sync, err := c.rate(dir, "SYNC_FLUSH")
	if err != nil {
		return 0, "", err
	}
	async, err := c.rate(dir, "ASYNC_FLUSH")
	if err != nil {
		return 0, "", err
	}
	bare, err := floor.Sync{Dir: dir, Batch: 1024, Bytes: c.load.Bytes + recordBytes, FileMax: 256 << 20, For: c.load.For}.PerSecond()
	return sync / min(async, bare), fmt.Sprintf("SYNC %.0f/s, ASYNC %.0f/s, bare %.0f/s", sync, async, bare), err
}

// firstSend is the time that a user waits: a process is started, and the first message, to a topic that does not exist
// yet, is answered.
func (c comparison) firstSend(dir string) (ms float64, figures string, err error) {
	c.firstMessage = true
	begin := time.Now()
	err = c.withNode(dir, "SYNC_FLUSH", nil, func(*server) error {
		ms = time.Since(begin).Seconds() * 1e3
		return nil
	})
	return ms, fmt.Sprintf("%.0f ms", ms), err
}

// idle is a node's memory when it has taken messages and nobody wants anything any more.
func (c comparison) idle(dir string) (mib float64, figures string, err error) {
	c.firstMessage = true
	err = c.withNode(dir, "SYNC_FLUSH", nil, func(s *server) error {
		bytes, err := host.OwnMemory(s.PID())
		mib = float64(bytes) / (1 << 20)
		return err
	})
	return mib, fmt.Sprintf("%.1f MiB", mib), err
}

func (c comparison) oneSender(dir string) (float64, string, error) {
	one := c.load
	one.Conns, one.InFlight = 1, 1
	var node, echo load.Result
	err := c.withNode(dir, "SYNC_FLUSH", nil, func(s *server) (err error) {
		node, err = c.run(s, one)
		return err
	})
	if err != nil {
		return 0, "", err
	}
	s, err := c.startBare("")
	if err != nil {
		return 0, "", err
	}
	echo, err = c.run(s, one)
	s.Stop()
	if err != nil {
		return 0, "", err
	}
	sync, err := floor.Sync{Dir: dir, Batch: 1, Bytes: c.load.Bytes + recordBytes, FileMax: 64 << 20, For: c.load.For}.P50()
	beyond := node.P50() - echo.P50() - sync
	figures := fmt.Sprintf("p50 of node %v, echo %v, fdatasync %v; p99 of node %v", node.P50().Round(time.Microsecond), echo.P50().Round(time.Microsecond), sync.Round(time.Microsecond), node.P99().Round(time.Microsecond))
	return float64(beyond.Nanoseconds()) / 1e3, figures, err
}

// cost is a server's CPU per message over a load, its warming up included.
func (c comparison) cost(s *server) (time.Duration, error) {
	l := c.load
	l.Warm = 0
	if _, err := c.run(s, c.load); err != nil { // pages, pools and segments are there afterwards
		return 0, err
	}
	before, err := host.CPU(s.PID())
	if err != nil {
		return 0, err
	}
	r, err := c.run(s, l)
	if err != nil {
		return 0, err
	}
	after, err := host.CPU(s.PID())
	return (after - before) / time.Duration(r.OK), err
}

// cpu compares in segments that were written before, as the file of the bare loop was. In new ones the kernel finds
// memory for each page, and zeros go in front of the writer.
func (c comparison) cpu(dir string) (float64, string, error) {
	var fresh, used time.Duration
	err := c.withNode(dir, "SYNC_FLUSH", nil, func(s *server) (err error) {
		fresh, err = c.cost(s)
		return err
	})
	if err != nil {
		return 0, "", err
	}
	err = c.recycled(dir, func(s *server) (err error) {
		used, err = c.cost(s)
		return err
	})
	if err != nil {
		return 0, "", err
	}
	s, err := c.startBare(dir)
	if err != nil {
		return 0, "", err
	}
	defer s.Stop()
	bare, err := c.cost(s)
	return float64(used) / float64(bare), fmt.Sprintf("node %v, in new segments %v, bare %v", used, fresh, bare), err
}

// recycling are the settings of a node that soon writes into used segments only.
func (c comparison) recycling() []string {
	return []string{fmt.Sprint("mappedFileSizeCommitLog=", c.segmentBytes), fmt.Sprint("logRetentionBytes=", 4*c.segmentBytes), "cleanResourceInterval=100"}
}

// recycled runs load on a node until its new segments are used ones, and then calls f.
func (c comparison) recycled(dir string, f func(*server) error) error {
	return c.withNode(dir, "SYNC_FLUSH", c.recycling(), func(s *server) error {
		for range 20 {
			if _, err := c.run(s, c.load); err != nil {
				return err
			}
			used, err := s.Number("ringmq_store_segments_recycled_total")
			if err != nil {
				return err
			}
			if used >= 4 {
				return f(s)
			}
		}
		return fmt.Errorf("no segment was recycled after 20 loads of %v", c.load.For)
	})
}

func (c comparison) deviceBytes(dir string) (held float64, figures string, err error) {
	disk, err := host.DiskOf(dir)
	if err != nil {
		return 0, "", err
	}
	err = c.recycled(dir, func(s *server) error {
		var at [2]struct{ device, log, segments, used float64 }
		for i := range at {
			if i == 1 {
				if _, err := c.run(s, c.load); err != nil {
					return err
				}
			}
			written, err := disk.Written()
			if err != nil {
				return err
			}
			at[i].device = float64(written)
			for name, to := range map[string]*float64{
				"ringmq_store_visible_offset": &at[i].log, "ringmq_store_segments_total": &at[i].segments, "ringmq_store_segments_recycled_total": &at[i].used,
			} {
				if *to, err = s.Number(name); err != nil {
					return err
				}
			}
		}
		held = (at[1].device - at[0].device) / (at[1].log - at[0].log)
		figures = fmt.Sprintf("%.0f MiB of records, %.0f MiB to the device, %.0f of %.0f new segments were recycled",
			(at[1].log-at[0].log)/(1<<20), (at[1].device-at[0].device)/(1<<20), at[1].used-at[0].used, at[1].segments-at[0].segments)
		return nil
	})
	return held, figures, err
}

func (c comparison) fresh(dir string) (float64, string, error) {
	fresh, err := c.rate(dir, "SYNC_FLUSH")
	if err != nil {
		return 0, "", err
	}
	var used float64
	err = c.recycled(dir, func(s *server) error {
		r, err := c.run(s, c.load)
		used = r.PerSecond()
		return err
	})
	return fresh / used, fmt.Sprintf("fresh %.0f/s, recycled %.0f/s", fresh, used), err
}

func (c comparison) topics(dir string) (held float64, figures string, err error) {
	one, err := c.rate(dir, "SYNC_FLUSH")
	if err != nil {
		return 0, "", err
	}
	many := c.load
	many.Topics, many.Queues = c.topicCount, 8
	err = c.withNode(dir, "SYNC_FLUSH", nil, func(s *server) error {
		many.Addr = s.Addr
		many.Fill()
		took, err := load.Topics{Addr: s.Addr, Topic: many.Topic, Topics: many.Topics, Queues: many.Queues, Conns: 1}.Create(c.ctx)
		if err != nil {
			return err
		}
		created := float64(many.Topics) / took.Seconds()
		r, err := c.run(s, many)
		if err != nil {
			return err
		}
		memory, err := host.OwnMemory(s.PID())
		held = r.PerSecond() / one
		figures = fmt.Sprintf("one topic %.0f/s, %d topics %.0f/s, own memory %d MiB, created %.0f topics/s", one, many.Topics, r.PerSecond(), memory>>20, created)
		return err
	})
	return held, figures, err
}

func (c comparison) delayed(dir string) (float64, string, error) {
	plain, err := c.rate(dir, "SYNC_FLUSH")
	if err != nil {
		return 0, "", err
	}
	c.load.Level = 18 // in two hours
	delayed, err := c.rate(dir, "SYNC_FLUSH")
	return delayed / plain, fmt.Sprintf("plain %.0f/s, delayed %.0f/s", plain, delayed), err
}

// due stops a node with messages that are due when it is started again.
func (c comparison) due(dir string) (held float64, figures string, err error) {
	settings := []string{"messageDelayLevel=" + c.dueAfter.String()}
	one := c.load
	one.Conns, one.InFlight, one.Warm = 8, 1, 0 // one after the other: what waits is not the senders' own queue
	dir, err = os.MkdirTemp(dir, "node")
	if err != nil {
		return 0, "", err
	}
	defer os.RemoveAll(dir)
	s, err := c.startNode(dir, "SYNC_FLUSH", settings...)
	if err != nil {
		return 0, "", err
	}
	alone, err := c.run(s, one)
	delayed := c.load
	delayed.Level, delayed.Warm, delayed.For = 1, 0, time.Second
	count := int64(0)
	for began := time.Now(); err == nil && count < c.dueCount && time.Since(began) < c.dueAfter/2; {
		var r load.Result
		r, err = c.run(s, delayed)
		count += r.OK
	}
	stopped := time.Now()
	s.Stop()
	if err != nil {
		return 0, "", err
	}
	time.Sleep(time.Until(stopped.Add(c.dueAfter)))
	if s, err = c.startNode(dir, "SYNC_FLUSH", settings...); err != nil {
		return 0, "", err
	}
	defer s.Stop()
	beside, err := c.run(s, one)
	if err != nil {
		return 0, "", err
	}
	delivered, err := s.Number("ringmq_delay_delivered_total")
	figures = fmt.Sprintf("p99 alone %v, beside %.0f of %d due %v", alone.P99().Round(time.Microsecond), delivered, count, beside.P99().Round(time.Microsecond))
	return float64(beside.P99()) / float64(alone.P99()), figures, err
}
