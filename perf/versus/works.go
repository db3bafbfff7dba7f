package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"ringmq/perf/host"
	"ringmq/perf/load"
)

// work is one thing that each server is measured by.
type work struct {
	name, what string
	bare       bool // the bare loop can do it
	run        func(context.Context, *measuring, func(name string, value float64)) error
}

func (w work) called() string { return w.name }

// messageBytes is the body of a message wherever nothing else is said.
const messageBytes = 1024

// allWorks in the order in which a server does them. Pulls read what the sends before have left.
var allWorks = []work{
	closed("1x1", 1, 1, 1), closed("16x1", 16, 1, 1), closed("64x1", 64, 1, 1), closed("64x16", 64, 16, 1),
	closed("batch", 16, 4, 32),
	{"pull", "8 consumers catch up, 32 messages a pull at most, contents checked once", false, pull},
	delivery(1000), delivery(5000), delivery(20000),
	{"topics", "1,000 topics of 4 queues are created, then 64 x 16", false, topics},
	{"idle", "own memory after all of it", false, idle},
}

// measuring is one server at work.
type measuring struct {
	versus
	server interface{ PID() int }
	subject
	dir string
}

func (m *measuring) addr() string { return fmt.Sprint("127.0.0.1:", m.port) }

// send is a load of sends without topics of its own.
func (m *measuring) send() load.Send {
	return load.Send{Addr: m.addr(), Topic: "Versus", Bytes: messageBytes, Warm: m.warm, For: m.span, Live: new(load.Live)}
}

// heat has a JVM compile what sends and pulls run through, so that its measurements are of a broker that has been up.
func (m *measuring) heat(ctx context.Context) error {
	c, err := m.fill(ctx, "VersusHeat", m.compile*2/3)
	if err != nil {
		return err
	}
	c.Plain, c.For = true, m.compile/3
	_, err = c.Run(ctx)
	return err
}

// fillLeast is how many messages a topic has at least before it is read: some in each queue.
const fillLeast = 1000

// fill sends to a topic for so long, or until it has enough to be read, and reads all of it back once, looking at every
// message. It returns consumers that catch up with it. A stock broker shows a message some time after its answer.
func (m *measuring) fill(ctx context.Context, topic string, span time.Duration) (load.Consume, error) {
	c := load.Consume{Addr: m.addr(), Topic: topic, Queues: 8, Conns: 8, Mode: load.Once, For: 10 * time.Minute}
	if err := m.create(ctx, topic, 1); err != nil {
		return c, err
	}
	s := m.send()
	s.Topic, s.Warm, s.For = topic, 0, span
	var stored int64
	for begin := time.Now(); stored < fillLeast; {
		r, err := s.Run(ctx)
		if err != nil {
			return c, err
		}
		if stored += r.OK; stored < fillLeast && time.Since(begin) > time.Minute {
			return c, fmt.Errorf("only %d messages were taken in a minute", stored)
		}
	}
	for begin := time.Now(); ; {
		r, err := c.Run(ctx)
		switch {
		case err != nil:
			return c, err
		case r.Wrong > 0:
			return c, fmt.Errorf("%d of %d messages are wrong: %w", r.Wrong, r.Messages, r.FirstWrong)
		case r.Messages >= stored:
			c.Mode, c.Live = load.Again, new(load.Live)
			return c, nil
		case time.Since(begin) > time.Minute:
			return c, fmt.Errorf("%d messages were acknowledged, %d can be read a minute later", stored, r.Messages)
		}
	}
}

// closed is a closed loop: so many connections with so many requests under way, each of a batch of messages.
func closed(name string, conns, inFlight, batch int) work {
	what := fmt.Sprintf("%d connections x %d under way, %d bytes", conns, inFlight, messageBytes)
	if batch > 1 {
		what += fmt.Sprintf(", %d in a batch", batch)
	}
	return work{name, what, batch == 1, func(ctx context.Context, m *measuring, add func(string, float64)) error {
		if err := m.create(ctx, "Versus", 1); err != nil {
			return err
		}
		s := m.send()
		s.Conns, s.InFlight, s.Batch = conns, inFlight, batch
		return m.sends(ctx, s, add)
	}}
}

// create makes topics, except at the bare loop, which knows none.
func (m *measuring) create(ctx context.Context, name string, count int) error {
	if m.bare {
		return nil
	}
	_, err := load.Topics{Addr: m.addr(), Topic: name, Topics: count, Queues: 8, Conns: 4}.Create(ctx)
	return err
}

// sends runs a load and adds its figures: rate, latencies, and the server's share.
func (m *measuring) sends(ctx context.Context, s load.Send, add func(string, float64)) error {
	return m.costs(s.Live, s.Bytes, add, func() error {
		r, err := s.Run(ctx)
		if err != nil {
			return err
		}
		sent(r, add)
		return nil
	})
}

func sent(r load.Result, add func(string, float64)) {
	add("per_second", r.PerSecond())
	quantiles("answer", r.Latency, add)
	refused := int64(0)
	for _, n := range r.Refused {
		refused += n
	}
	if refused+r.Missing > 0 {
		add("refused", float64(refused+r.Missing))
	}
}

func quantiles(name string, h *hdrhistogram.Histogram, add func(string, float64)) {
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50", 50}, {"p99", 99}, {"p999", 99.9}} {
		add(name+"_"+q.name+"_us", float64(h.ValueAtQuantile(q.at))/1e3)
	}
}

// costs runs a load and adds the server's CPU for each message, and the device's bytes for each byte of a body.
func (m *measuring) costs(live *load.Live, bodyBytes int, add func(string, float64), run func() error) error {
	disk, noDisk := host.DiskOf(m.dir)
	var cpu [2]time.Duration
	var written [2]int64
	for i := range 2 {
		if i == 1 {
			if err := run(); err != nil {
				return err
			}
		}
		var err error
		if cpu[i], err = host.CPU(m.server.PID()); err != nil {
			return err
		}
		if noDisk == nil {
			if written[i], err = disk.Written(); err != nil {
				return err
			}
		}
	}
	if n := live.Sent.Load() + live.Received.Load(); n > 0 {
		add("cpu_us", float64((cpu[1]-cpu[0]).Nanoseconds())/1e3/float64(n))
	}
	if n := live.Sent.Load() * int64(bodyBytes); n > 0 && noDisk == nil {
		add("device_bytes", float64(written[1]-written[0])/float64(n))
	}
	return nil
}

// pull catches up with what was read once before, with every message looked at. The rate is that of passes that look at none, so that
// it is the server's.
func pull(ctx context.Context, m *measuring, add func(string, float64)) error {
	c, err := m.fill(ctx, "VersusPull", m.span)
	if err != nil {
		return err
	}
	c.Plain, c.Warm, c.For = true, m.warm, m.span
	return m.costs(c.Live, 0, add, func() error {
		r, err := c.Run(ctx)
		if err != nil {
			return err
		}
		add("per_second", r.PerSecond())
		return nil
	})
}

// delivery is an open loop with consumers that follow: from when a message should have been sent to its delivery.
func delivery(rate int) work {
	return work{fmt.Sprint("open-", rate), fmt.Sprintf("%d messages a second, whatever comes, and 8 consumers that wait for them", rate), false,
		func(ctx context.Context, m *measuring, add func(string, float64)) error {
			topic := fmt.Sprint("VersusOpen", rate)
			if err := m.create(ctx, topic, 1); err != nil {
				return err
			}
			live := new(load.Live)
			s := m.send()
			s.Topic, s.Conns, s.Live = topic, 8, live
			s.Fill()
			ready := make(chan struct{})
			c := load.Consume{
				Addr: m.addr(), Topic: topic, Conns: 8, Mode: load.Follow, Newest: true, RunID: s.RunID, Warm: s.Warm, For: s.For + 2*time.Second, Live: live,
				Ready: func() { close(ready) },
			}
			return m.costs(live, messageBytes, add, func() error {
				var got load.Consumed
				var failed error
				var follow sync.WaitGroup
				follow.Go(func() { got, failed = c.Run(ctx) })
				<-ready
				r, err := load.Open{Send: s, Rate: float64(rate)}.Run(ctx)
				follow.Wait()
				if err := errors.Join(err, failed); err != nil {
					return err
				}
				sent(r, add)
				quantiles("late", r.Late, add)
				if got.Delivery == nil {
					return errors.New("nothing was delivered")
				}
				quantiles("delivery", got.Delivery, add)
				return nil
			})
		}}
}

func topics(ctx context.Context, m *measuring, add func(string, float64)) error {
	const count, queues = 1000, 4
	took, err := load.Topics{Addr: m.addr(), Topic: "VersusMany", Topics: count, Queues: queues, Conns: 8}.Create(ctx)
	if err != nil {
		return err
	}
	add("created_per_second", count/took.Seconds())
	s := m.send()
	s.Topic, s.Topics, s.Queues = "VersusMany", count, queues
	return m.sends(ctx, s, add)
}

func idle(_ context.Context, m *measuring, add func(string, float64)) error {
	own, err := host.OwnMemory(m.server.PID())
	add("own_mib", float64(own)/(1<<20))
	return err
}
