package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"ringmq/netio/wire"
	"ringmq/perf/host"
	"ringmq/perf/load"
)

// arrivalRate is that of the messages whose way to a waiting consumer is measured.
const arrivalRate = 1000

// arrival sends messages at a steady rate to queues at each of which a consumer waits. What is held is how much later half
// of the messages are with their consumer than half of the answers are with the sender.
func (c comparison) arrival(dir, flush string) (us float64, figures string, err error) {
	err = c.withNode(dir, flush, nil, func(s *server) error {
		send := load.Open{Rate: arrivalRate, Send: load.Send{Addr: s.Addr, Conns: 1, Queues: pullQueues, Bytes: c.load.Bytes, RunID: 1, For: c.load.For}}
		first := load.Send{Addr: s.Addr, Conns: 1, InFlight: 1, Queues: pullQueues, For: time.Second / 4} // makes the topic, and warms up
		if _, err := first.Run(c.ctx); err != nil {
			return err
		}
		ready := make(chan struct{})
		wait := load.Consume{
			Addr: s.Addr, Queues: pullQueues, Conns: pullQueues, Mode: load.Follow, Newest: true, RunID: 1, For: c.load.For + time.Second,
			Ready: func() { close(ready) },
		}
		var got load.Consumed
		var failed error
		var consumer sync.WaitGroup
		consumer.Go(func() { got, failed = wait.Run(c.ctx) })
		select {
		case <-ready:
		case <-time.After(30 * time.Second):
			return errors.New("the consumers do not begin")
		}
		sent, err := send.Run(c.ctx)
		consumer.Wait()
		if err := errors.Join(err, failed); err != nil {
			return err
		}
		if got.Delivery == nil || sent.OK == 0 || got.Wrong > 0 {
			return fmt.Errorf("%d sent, %d came, %d are wrong: %w", sent.OK, got.Messages, got.Wrong, got.FirstWrong)
		}
		beyond := func(q float64) time.Duration {
			return time.Duration(got.Delivery.ValueAtQuantile(q) - sent.Latency.ValueAtQuantile(q))
		}
		us = float64(beyond(50).Nanoseconds()) / 1e3
		figures = fmt.Sprintf("p50 of the answers %v, p99 %v; deliveries beyond them: p50 %v, p99 %v",
			sent.P50().Round(time.Microsecond), sent.P99().Round(time.Microsecond), beyond(50).Round(time.Microsecond), beyond(99).Round(time.Microsecond))
		return nil
	})
	return us, figures, err
}

func (c comparison) arrivalSync(dir string) (float64, string, error) {
	return c.arrival(dir, "SYNC_FLUSH")
}

func (c comparison) arrivalAsync(dir string) (float64, string, error) {
	return c.arrival(dir, "ASYNC_FLUSH")
}

// waiting has consumers of 100 groups wait, each on a connection and a queue of its own, for as long as it takes each of them
// to ask once more. They bring their subscription with each pull and are members of no group.
func (c comparison) waiting(dir string) (kib float64, figures string, err error) {
	const groups = 100
	each := max(c.waiters/groups, 1)
	err = c.withNode(dir, "SYNC_FLUSH", nil, func(s *server) error {
		topic := load.Topics{Addr: s.Addr, Topic: "LoadTopic", Topics: 1, Queues: each, Conns: 1}
		if _, err := topic.Create(c.ctx); err != nil {
			return err
		}
		if _, err := c.run(s, load.Send{Conns: 1, InFlight: 1, Queues: each, For: time.Second / 4}); err != nil {
			return err
		}
		without, err := host.OwnMemory(s.PID())
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(c.ctx)
		defer cancel()
		var consumers sync.WaitGroup
		defer consumers.Wait()
		defer cancel()
		failed := make(chan error, groups)
		for i := range groups {
			consumers.Go(func() {
				wait := load.Consume{
					Addr: s.Addr, Group: fmt.Sprint("waiting-", i), Queues: each, Conns: each, Mode: load.Follow, Newest: true,
					Hold: c.holdFor, For: time.Hour,
				}
				if _, err := wait.Run(ctx); err != nil && ctx.Err() == nil {
					failed <- err
				}
			})
		}
		for waits, end := 0.0, time.Now().Add(time.Minute); waits < float64(groups*each); time.Sleep(10 * time.Millisecond) {
			select {
			case err := <-failed:
				return err
			default:
			}
			if waits, err = s.Number("ringmq_rpc_pulls_waiting"); err != nil {
				return err
			}
			if time.Now().After(end) {
				return fmt.Errorf("%v of %d consumers wait after a minute", waits, groups*each)
			}
		}
		before, err := host.CPU(s.PID())
		if err != nil {
			return err
		}
		time.Sleep(c.holdFor)
		after, err := host.CPU(s.PID())
		if err != nil {
			return err
		}
		with, err := host.OwnMemory(s.PID())
		kib = float64(with-without) / 1024 / float64(groups*each)
		figures = fmt.Sprintf("%d wait: own memory %.1f MiB without, %.1f with; CPU %.2f %% of a core, all ask anew every %v",
			groups*each, float64(without)/(1<<20), float64(with)/(1<<20), 100*(after-before).Seconds()/c.holdFor.Seconds(), c.holdFor)
		return err
	})
	return kib, figures, err
}

const (
	stuckConsumers = 50
	largeBytes     = 4 << 20 // of the messages that they stop in
)

// stuck measures the p99 of pulls without, and then beside, consumers that ask for large messages and stop reading in the first.
func (c comparison) stuck(dir string) (held float64, figures string, err error) {
	err = c.withFilled(dir, 1024, func(s *server, _ filled) error {
		large := load.Send{Topic: "Large", Queues: 1, Conns: 1, InFlight: 1, Bytes: largeBytes - 1024, For: time.Second / 4}
		if _, err := c.run(s, large); err != nil {
			return err
		}
		alone, _, err := c.pull(s)
		if err != nil {
			return err
		}
		without, err := host.OwnMemory(s.PID())
		if err != nil {
			return err
		}
		for range stuckConsumers {
			conn, err := stopReading(s.Addr)
			if err != nil {
				return err
			}
			defer conn.Close()
		}
		beside, _, err := c.pull(s)
		if err != nil {
			return err
		}
		with, err := host.OwnMemory(s.PID())
		if err != nil {
			return err
		}
		buffered, err := s.Number("ringmq_net_buffered_out_bytes")
		held = float64(beside.P99()) / float64(alone.P99())
		figures = fmt.Sprintf("p99 alone %v, beside %v; own memory %.1f MiB before, %.1f with, %.1f KiB in output queues",
			alone.P99().Round(time.Microsecond), beside.P99().Round(time.Microsecond), float64(without)/(1<<20), float64(with)/(1<<20), buffered/1024)
		return err
	})
	return held, figures, err
}

// stopReading asks for more large messages than a connection may have waiting, and reads the beginning of the first.
func stopReading(addr string) (net.Conn, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	var out []byte
	for i := range 16 {
		var cmd wire.Command
		cmd.Request(wire.PullMessage, int32(i))
		(&wire.PullRequest{
			ConsumerGroup: []byte("stuck"), Topic: []byte("Large"), MaxMsgNums: 1,
			SysFlag: wire.PullSubscription, Subscription: []byte("*"), MaxMsgBytes: -1, RequestSource: -1,
		}).Append(&cmd)
		out = cmd.Append(out)
	}
	if _, err = conn.Write(out); err == nil {
		_, err = io.ReadFull(conn, make([]byte, 64<<10))
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("a consumer that stops: %w", err)
	}
	return conn, nil
}
