package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ringmq/perf/floor"
	"ringmq/perf/load"
)

// benchOptions are the flags of all benchmarks; each shows those that it uses.
type benchOptions struct {
	load.Send
	consumers int
	rate      float64
	warm, run time.Duration
	hold      time.Duration
	check     bool
	fill      int64
	exec      string

	pid    int
	disk   string
	asJSON bool
}

// bench is one benchmark: a row of the help, its flags, and what it does.
type bench struct {
	name, short, long string
	flags             string // names, see benchFlags
	change            func(*benchOptions)
	run               func(context.Context, *benchOptions, *meter) error
}

var benches = []bench{
	{"send", "Send as fast as answers come (closed loop)", "Each of --conns connections keeps --in-flight requests under way, each of --batch messages, over --topics topics of --queues queues.",
		"conns in-flight size topics queues batch level", nil, benchSend},
	{"open", "Send at a fixed rate, whatever the broker does (open loop)", "Latency counts from when a message should have been sent, so that nothing is omitted. \"late\" is what the generator itself was late.",
		"conns size topics queues rate", nil, benchOpen},
	{"pull", "Catch up: read all queues from their beginning, over and over", "Each message is held to its checksum, its place and its body. Fill the topic first: ringmq bench send.",
		"consumers topics queues check", nil, benchPull},
	{"e2e", "From when a message should have been sent to its delivery", "An open loop at --rate, and consumers that wait for what arrives.",
		"conns size topics queues rate consumers", nil, benchDelivery},
	{"mixed", "Send as fast as answers come, with consumers that follow", "", "conns in-flight size topics queues batch consumers", nil, benchDelivery},
	{"topics", "Create many topics, then send to all of them", "", "conns in-flight size topics queues", func(o *benchOptions) { o.Topics = 5000; o.Queues = 4 }, benchTopics},
	{"fan", "Send beside thousands of consumers that wait for something else", "The consumers have long polls on a topic of their own. Each takes a connection: see ulimit -n on both sides.",
		"conns in-flight size topics queues consumers", func(o *benchOptions) { o.consumers = 1000 }, benchFan},
	{"cold", "Catch up with what is no longer in memory, beside a producer", "First the producer alone, at --rate, then beside consumers that read the whole topic. --fill sends that many bytes before; take\n" +
		"more than the machine or the broker's control group has memory.", "conns size queues rate consumers fill check", nil, benchCold},
	{"restart", "Send while the broker is restarted, then read back what was acknowledged", "Restart it by hand, or by --exec after a third of the time. The exit code is 1 if anything is lost.",
		"conns size topics queues exec", func(o *benchOptions) { o.Conns = 16; o.run = 15 * time.Second }, benchRestart},
	{"ceiling", "What the generator itself can do: send to a server that only answers", "A process of its own echoes every request. The rate is the most that any broker can be measured at on this machine.",
		"conns in-flight size batch", nil, benchCeiling},
}

func benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a broker, ringmq or any other that speaks RocketMQ",
		Long: "Measure a broker, ringmq or any other that speaks RocketMQ. On a terminal a line shows how it goes; with --json each second and\n" +
			"the result are one JSON object a line. Give --pid for the broker's CPU per message and memory, and --disk for what its device wrote.",
		Example: "  ringmq bench ceiling\n  ringmq bench send --conns 64 --in-flight 16 --pid $(pgrep -f 'ringmq serve') --disk /srv/ringmq\n" +
			"  ringmq bench e2e --rate 20000\n  ringmq bench restart --exec 'systemctl restart ringmq'",
	}
	for _, b := range benches {
		cmd.AddCommand(b.command())
	}
	cmd.AddCommand(echoCommand())
	return cmd
}

func (b bench) command() *cobra.Command {
	o := &benchOptions{Send: load.Send{Topic: "RingmqBench"}, rate: 1000, warm: time.Second, run: 10 * time.Second, consumers: 8, hold: 15 * time.Second, check: true}
	o.Fill()
	if b.change != nil {
		b.change(o)
	}
	cmd := &cobra.Command{
		Use: b.name, Short: b.short, Long: b.short + ".\n" + b.long, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Warm, o.For = o.warm, o.run
			m, err := newMeter(b.name, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			o.Live = &m.live
			defer m.close()
			return b.run(cmd.Context(), o, m)
		},
	}
	o.flags(cmd, b)
	return cmd
}

// prepare creates the topics of a run, so that none is made by its first message with other queues.
func (o *benchOptions) prepare(ctx context.Context, topic string, topics int) error {
	_, err := load.Topics{Addr: o.Addr, Topic: topic, Topics: topics, Queues: o.Queues, Conns: 4}.Create(ctx)
	return err
}

func benchSend(ctx context.Context, o *benchOptions, m *meter) error {
	if err := o.prepare(ctx, o.Topic, o.Topics); err != nil {
		return err
	}
	return m.measure("", o.Bytes, func() (f figures, err error) {
		f.sent, err = some(o.Send.Run(ctx))
		return f, err
	})
}

func some[T any](v T, err error) (*T, error) { return &v, err }

func (o *benchOptions) open() load.Open { return load.Open{Send: o.Send, Rate: o.rate} }

// consume is the run's consumers, in one of the modes.
func (o *benchOptions) consume(mode load.Mode) load.Consume {
	return load.Consume{
		Addr: o.Addr, Topic: o.Topic, Topics: o.Topics, Queues: o.Queues, Conns: o.consumers, Mode: mode, Plain: !o.check,
		Hold: o.hold, Warm: o.Warm, For: o.For, Live: o.Live,
	}
}

func benchOpen(ctx context.Context, o *benchOptions, m *meter) error {
	if err := o.prepare(ctx, o.Topic, o.Topics); err != nil {
		return err
	}
	return m.measure("", o.Bytes, func() (f figures, err error) {
		f.sent, err = some(o.open().Run(ctx))
		return f, err
	})
}

func benchPull(ctx context.Context, o *benchOptions, m *meter) error {
	return m.measure("", 0, func() (f figures, err error) {
		f.received, err = catchUp(ctx, o)
		return f, err
	})
}

// catchUp reads over and over. When the messages were sent has nothing to do with it.
func catchUp(ctx context.Context, o *benchOptions) (*load.Consumed, error) {
	r, err := o.consume(load.Again).Run(ctx)
	r.Delivery = nil
	return &r, err
}

// benchDelivery sends beside consumers that follow: an open loop, or in "mixed" a closed one.
func benchDelivery(ctx context.Context, o *benchOptions, m *meter) error {
	if err := o.prepare(ctx, o.Topic, o.Topics); err != nil {
		return err
	}
	return m.measure("", o.Bytes, func() (f figures, err error) {
		ready := make(chan struct{})
		c := o.consume(load.Follow)
		c.Newest, c.RunID, c.Ready = true, o.RunID, func() { close(ready) }
		c.For += time.Second // for what is under way at the end
		follow := func(ctx context.Context) (*load.Consumed, error) {
			r, err := c.Run(ctx)
			r.Elapsed = o.For
			return &r, err
		}
		return beside(ctx, follow, func() (*load.Result, error) {
			select {
			case <-ready:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			if m.bench == "mixed" {
				return some(o.Send.Run(ctx))
			}
			return some(o.open().Run(ctx))
		})
	})
}

// beside runs consumers and senders side by side.
func beside(ctx context.Context, consume func(context.Context) (*load.Consumed, error), send func() (*load.Result, error)) (f figures, err error) {
	var failed error
	var both sync.WaitGroup
	both.Go(func() { f.received, failed = consume(ctx) })
	f.sent, err = send()
	both.Wait()
	return f, errors.Join(err, failed)
}

func benchTopics(ctx context.Context, o *benchOptions, m *meter) error {
	took, err := load.Topics{Addr: o.Addr, Topic: o.Topic, Topics: o.Topics, Queues: o.Queues, Conns: 8}.Create(ctx)
	if err != nil {
		return err
	}
	return m.measure("", o.Bytes, func() (f figures, err error) {
		f.sent, err = some(o.Send.Run(ctx))
		f.add("topics created", float64(o.Topics)/took.Seconds(), "/s")
		return f, err
	})
}

func benchFan(ctx context.Context, o *benchOptions, m *meter) error {
	idle := o.Topic + "Idle"
	if err := errors.Join(o.prepare(ctx, o.Topic, o.Topics), o.prepare(ctx, idle, 1)); err != nil {
		return err
	}
	before, err := m.memory()
	if err != nil {
		return err
	}
	return m.measure("", o.Bytes, func() (f figures, err error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		ready := make(chan struct{})
		c := o.consume(load.Follow)
		c.Topic, c.Topics, c.Newest, c.For, c.Ready = idle, 1, true, time.Hour, func() { close(ready) }
		waiting := make(chan error, 1)
		go func() {
			_, err := c.Run(ctx)
			waiting <- err
		}()
		select {
		case <-ready:
		case err := <-waiting:
			return f, fmt.Errorf("consumers: %w", err)
		}
		if m.pid > 0 {
			after, err := m.memory()
			if err != nil {
				return f, err
			}
			f.add("own memory for each consumer", float64(after-before)/float64(o.consumers)/1024, "KiB")
		}
		if f.sent, err = some(o.Send.Run(ctx)); err != nil {
			return f, err
		}
		cancel()
		if err := <-waiting; !errors.Is(err, context.Canceled) {
			return f, fmt.Errorf("consumers: %w", err)
		}
		return f, nil
	})
}

func benchCold(ctx context.Context, o *benchOptions, m *meter) error {
	liveTopic := o.Topic + "Live"
	if err := errors.Join(o.prepare(ctx, o.Topic, 1), o.prepare(ctx, liveTopic, 1)); err != nil {
		return err
	}
	if o.fill > 0 {
		if err := fillTopic(ctx, o, m); err != nil {
			return err
		}
	}
	o.Topics = 1
	producer := o.open()
	producer.Topic = liveTopic
	err := m.measure("alone", o.Bytes, func() (f figures, err error) {
		f.sent, err = some(producer.Run(ctx))
		return f, err
	})
	if err != nil {
		return err
	}
	return m.measure("beside", o.Bytes, func() (figures, error) {
		return beside(ctx, func(ctx context.Context) (*load.Consumed, error) { return catchUp(ctx, o) },
			func() (*load.Result, error) { return some(producer.Run(ctx)) })
	})
}

// fillTopic sends until the topic has got so many bytes more.
func fillTopic(ctx context.Context, o *benchOptions, m *meter) error {
	s := o.Send
	s.Conns, s.InFlight, s.Warm, s.For = 64, 16, 0, 24*time.Hour
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	want := m.live.Sent.Load() + o.fill/int64(o.Bytes)
	stop := m.each(func() {
		if m.live.Sent.Load() >= want {
			enough()
		}
	})
	defer stop()
	if _, err := s.Run(ctx); err != nil && m.live.Sent.Load() < want {
		return fmt.Errorf("fill: %w", err)
	}
	return nil
}

func benchRestart(ctx context.Context, o *benchOptions, m *meter) error {
	if err := o.prepare(ctx, o.Topic, o.Topics); err != nil {
		return err
	}
	var command sync.WaitGroup
	var failed error
	if o.exec != "" {
		command.Go(func() {
			select {
			case <-time.After(o.For / 3):
			case <-ctx.Done():
				return
			}
			c := exec.CommandContext(ctx, "sh", "-c", o.exec)
			c.Stdout, c.Stderr = os.Stderr, os.Stderr
			failed = c.Run()
		})
	}
	r, err := load.Restart{Send: o.Send}.Run(ctx)
	command.Wait()
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	f := figures{refused: r.Refused}
	for _, x := range []struct {
		name  string
		value int64
	}{
		{"acknowledged", r.Acked}, {"connections that broke", r.Broken}, {"read back", r.Found}, {"lost", r.Lost},
		{"read more than once", r.Twice}, {"read though not acknowledged", r.Unasked}, {"not what was sent", r.Wrong},
	} {
		f.add(x.name, float64(x.value), "")
	}
	f.add("longest time without an acknowledgement", r.Away.Seconds()*1e3, "ms")
	m.print("", f)
	if r.Lost+r.Wrong > 0 {
		return fmt.Errorf("%d acknowledged messages are lost (%s), %d are altered", r.Lost, r.FirstLost, r.Wrong)
	}
	return nil
}

// benchCeiling measures the generator against a server that does nothing but answer.
func benchCeiling(ctx context.Context, o *benchOptions, m *meter) error {
	addr, pid, stop, err := startEcho(ctx)
	if err != nil {
		return err
	}
	defer stop()
	o.Addr, m.pid = addr, pid
	return m.measure("", o.Bytes, func() (f figures, err error) {
		f.sent, err = some(o.Send.Run(ctx))
		return f, err
	})
}

// startEcho runs this binary's echo server in a process of its own.
func startEcho(ctx context.Context) (addr string, pid int, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // for a free port
	if err != nil {
		return "", 0, nil, err
	}
	addr = l.Addr().String()
	if err := l.Close(); err != nil {
		return "", 0, nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return "", 0, nil, err
	}
	cmd := exec.CommandContext(ctx, self, "bench", "echo", "--listen", addr)
	cmd.Stderr = os.Stderr
	up, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", 0, nil, err
	}
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}
	if _, err := up.Read(make([]byte, 1)); err != nil { // it says so when it listens
		stop()
		return "", 0, nil, fmt.Errorf("the echo server did not start: %w", err)
	}
	return addr, cmd.Process.Pid, stop, nil
}

// echoCommand is the other process of "bench ceiling".
func echoCommand() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use: "echo", Short: "Answer every request, and do nothing else", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return serveEcho(cmd.Context(), listen, cmd.OutOrStdout()) },
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:10999", "host:port")
	return cmd
}

func serveEcho(ctx context.Context, listen string, out io.Writer) error {
	s, err := floor.NewServer("", 0)
	if err != nil {
		return err
	}
	go func() {
		select {
		case <-s.Up():
			fmt.Fprintln(out, "echoing at", listen)
		case <-ctx.Done():
		}
		<-ctx.Done()
		s.Stop()
	}()
	return s.Run(listen, 1)
}
