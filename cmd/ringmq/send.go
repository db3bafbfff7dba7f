package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"ringmq/netio/wire"
	"ringmq/store/record"
)

// sendOptions are the flags of send.
type sendOptions struct {
	namesrv string
	topic   string
	tag     string
	key     string
	count   int
	size    int
	group   string
}

// sendInFlight is how many messages of one run are on their way at once.
const sendInFlight = 64

func sendCommand() *cobra.Command {
	var o sendOptions
	cmd := &cobra.Command{
		Use:   "send --topic TOPIC [MESSAGE | -]",
		Short: "Send messages",
		Long: "Send one message, or --count of them, or with - each line of the standard input. The topic is created if\n" +
			"the broker allows it. The exit code is 0 only if every message was acknowledged.",
		Example: "  ringmq send --topic Hello \"first message\"\n" +
			"  ringmq send --topic Hello --count 1000 --size 1024\n" +
			"  seq 10 | ringmq send --topic Hello --tag numbers -",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.count < 1 || o.size < 0 {
				return fmt.Errorf("--count %d --size %d: want at least one message of at least one byte", o.count, o.size)
			}
			bodies, err := o.bodies(cmd.InOrStdin(), args)
			if err != nil {
				return err
			}
			return send(cmd.Context(), o, bodies, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.namesrv, "namesrv", env("NAMESRV_ADDR", "127.0.0.1:9876"), "name servers, host:port;host:port")
	f.StringVar(&o.topic, "topic", "", "topic to send to")
	f.StringVar(&o.tag, "tag", "", "tag of the messages")
	f.StringVar(&o.key, "key", "", "key of the messages")
	f.StringVar(&o.group, "group", "ringmq-send", "producer group")
	f.IntVar(&o.count, "count", 1, "how many messages")
	f.IntVar(&o.size, "size", 0, "pad or cut each message to this many bytes")
	_ = cmd.MarkFlagRequired("topic") // it exists
	return cmd
}

// lineBytes is the longest line that is read: the largest body that a broker takes by default.
const lineBytes = 4 << 20

// bodies yields the messages to send, one after the other; nil at the end, with an error where it came
// too early.
func (o sendOptions) bodies(in io.Reader, args []string) (func() ([]byte, error), error) {
	if len(args) == 1 && args[0] == "-" {
		return o.lines(in), nil
	}
	text := "message"
	if len(args) == 1 {
		text = args[0]
	}
	if text == "" && o.size == 0 {
		return nil, errors.New("an empty message: give it a text or a --size")
	}
	n := 0
	return func() ([]byte, error) {
		if n++; n > o.count {
			return nil, nil
		}
		if o.count > 1 {
			return o.sized(fmt.Appendf(nil, "%s %d", text, n)), nil
		}
		return o.sized([]byte(text)), nil
	}, nil
}

// lines yields the lines of in that are not empty.
func (o sendOptions) lines(in io.Reader) func() ([]byte, error) {
	lines, number := bufio.NewScanner(in), 0
	lines.Buffer(nil, lineBytes+len("\r\n"))
	return func() ([]byte, error) {
		for lines.Scan() {
			number++
			if b := o.sized(lines.Bytes()); len(b) > 0 {
				return b, nil
			}
		}
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("line %d of the standard input: %w", number+1, err)
		}
		return nil, nil
	}
}

// sized returns a copy of b, padded or cut to the size that was asked for.
func (o sendOptions) sized(b []byte) []byte {
	if o.size == 0 {
		return bytes.Clone(b)
	}
	sized := bytes.Repeat([]byte{'.'}, o.size)
	copy(sized, b)
	return sized
}

// send sends all bodies, many at once, spread over the topic's queues.
func send(ctx context.Context, o sendOptions, next func() ([]byte, error), out io.Writer) error {
	c := newClient(o.namesrv, nil)
	defer c.close()
	queues, err := publishQueues(ctx, c, o.topic)
	if err != nil {
		return err
	}
	s := sender{client: c, opts: o, queues: queues, out: out, slots: make(chan struct{}, sendInFlight), begun: time.Now()}
	for s.failed.Load() == nil && ctx.Err() == nil {
		body, err := next()
		if err != nil {
			s.failed.CompareAndSwap(nil, &err)
		}
		if body == nil {
			break
		}
		s.slots <- struct{}{}
		s.running.Add(1)
		go s.one(ctx, body, s.queues[s.started%len(s.queues)])
		s.started++
	}
	s.running.Wait()
	return s.report(ctx)
}

// publishQueues returns where messages of a topic go; for an unknown topic where they go until the
// broker has created it.
func publishQueues(ctx context.Context, c *client, topic string) ([]queue, error) {
	route, err := c.route(ctx, topic)
	count := func(d wire.QueueData) int32 { return d.WriteQueueNums }
	if isCode(err, wire.TopicNotExist) {
		route, err = c.route(ctx, templateTopic)
		count = func(d wire.QueueData) int32 { return min(d.WriteQueueNums, newTopicQueues) }
		if isCode(err, wire.TopicNotExist) {
			return nil, fmt.Errorf("topic %s does not exist, and no broker creates topics by itself", topic)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("where is topic %s: %w", topic, err)
	}
	list := queues(route, topic, permWrite, count)
	if len(list) == 0 {
		return nil, fmt.Errorf("topic %s has no queue that may be written", topic)
	}
	return list, nil
}

// A topic that does not exist is created after the template, with this many queues.
const (
	templateTopic  = "TBW102"
	newTopicQueues = 4
)

// sender is one run of send.
type sender struct {
	client *client
	opts   sendOptions
	queues []queue
	out    io.Writer
	begun  time.Time

	// The goroutine that starts the others.
	started int

	// All of them.
	slots   chan struct{}
	running sync.WaitGroup
	done    atomic.Int64
	bytes   atomic.Int64
	failed  atomic.Pointer[error] // the first failure; nothing is started after it
	last    atomic.Pointer[string]
}

// one sends one message.
func (s *sender) one(ctx context.Context, body []byte, q queue) {
	defer func() { <-s.slots; s.running.Done() }()
	var props []byte
	if s.opts.tag != "" {
		props = record.AppendProp(props, record.PropTags, s.opts.tag)
	}
	if s.opts.key != "" {
		props = record.AppendProp(props, record.PropKeys, s.opts.key)
	}
	req := request(wire.SendMessageV2, sendHeader(s.opts, q, record.AppendProp(props, record.PropWait, "true")))
	req.Body = body
	ans, err := s.client.call(ctx, q.addr, req)
	if err != nil {
		err = fmt.Errorf("send to %v: %w", q, err)
		s.failed.CompareAndSwap(nil, &err)
		return
	}
	s.done.Add(1)
	s.bytes.Add(int64(len(body)))
	var h wire.SendAnswer
	if h.Parse(ans) == nil {
		text := fmt.Sprintf("%s queue=%v/%d offset=%d id=%s", s.opts.topic, q.broker, h.QueueID, h.QueueOffset, h.MsgID)
		s.last.Store(&text)
	}
}

// sendHeader is the header of one message.
func sendHeader(o sendOptions, q queue, props []byte) *wire.SendRequest {
	return &wire.SendRequest{
		ProducerGroup: []byte(o.group), Topic: []byte(o.topic), DefaultTopic: []byte(templateTopic),
		DefaultTopicQueueNums: newTopicQueues, QueueID: q.id, BornTimestamp: time.Now().UnixMilli(),
		Properties: props, MaxReconsumeTimes: -1, BrokerName: []byte(q.broker),
	}
}

// report tells what was acknowledged; a failure is returned after it.
func (s *sender) report(ctx context.Context) error {
	done, took := s.done.Load(), time.Since(s.begun)
	switch {
	case done == 1:
		fmt.Fprintf(s.out, "sent %s\n", *s.last.Load())
	case done > 1:
		fmt.Fprintf(s.out, "sent %d messages, %d bytes, in %v (%.0f/s); the last: %s\n", done, s.bytes.Load(),
			took.Round(time.Millisecond), float64(done)/took.Seconds(), *s.last.Load())
	}
	if err := s.failed.Load(); err != nil {
		return *err
	}
	if done == 0 && ctx.Err() == nil {
		return errors.New("nothing to send")
	}
	return ctx.Err()
}

// clientID names this process to brokers: address, process, time.
func clientID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	host = strings.Map(func(r rune) rune {
		if r == '@' || r == '#' || r < ' ' {
			return '-'
		}
		return r
	}, host)
	return fmt.Sprintf("%s@%d#%d", host, os.Getpid(), time.Now().UnixNano())
}
