package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"ringmq/store/record"
)

// consumeOptions are the flags of consume.
type consumeOptions struct {
	namesrv string
	topic   string
	group   string
	from    string
	tags    string
	count   int
}

// Where a group without offsets begins.
const (
	fromFirst = "first"
	fromLast  = "last"
)

func consumeCommand() *cobra.Command {
	var o consumeOptions
	cmd := &cobra.Command{
		Use:   "consume --topic TOPIC --group GROUP",
		Short: "Read messages as a member of a consumer group",
		Long: "Read messages and print one line for each: broker, queue, offset and body. Members of a group share the\n" +
			"queues. The group's progress is stored at the broker, so the next run goes on where this one stopped.",
		Example: "  ringmq consume --topic Hello --group readers --from first --count 10",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.from != fromFirst && o.from != fromLast {
				return fmt.Errorf("--from %s: want first or last", o.from)
			}
			return consume(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.namesrv, "namesrv", env("NAMESRV_ADDR", "127.0.0.1:9876"), "name servers, host:port;host:port")
	f.StringVar(&o.topic, "topic", "", "topic to read")
	f.StringVar(&o.group, "group", "", "consumer group")
	f.StringVar(&o.from, "from", fromLast, "where a group that never read the topic begins: first or last")
	f.StringVar(&o.tags, "tags", "*", "tags to read, such as \"a||b\"")
	f.IntVar(&o.count, "count", 0, "stop after this many messages; 0 goes on until interrupted")
	_ = cmd.MarkFlagRequired("topic") // they exist
	_ = cmd.MarkFlagRequired("group")
	return cmd
}

// consume prints messages until there were enough or ctx ends, and leaves the group properly.
func consume(ctx context.Context, o consumeOptions, out, complaints io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := newMember(o, complaints)
	defer m.client.close()
	ended := make(chan error, 1)
	go func() { ended <- m.run(ctx) }()
	for printed := 0; o.count == 0 || printed < o.count; {
		select {
		case err := <-ended:
			if err != nil {
				return err
			}
			return m.leave()
		case b := <-m.batches:
			p, err := printBatch(out, b, o.count-printed, o.count > 0)
			m.handled(b.queue, p)
			printed += p.messages
			if err != nil {
				cancel()
				<-ended // it has joined, and so it does not fail
				return errors.Join(err, m.leave())
			}
		}
	}
	cancel()
	<-ended
	return m.leave()
}

// progress is how far a batch was handled.
type progress struct {
	messages int
	next     int64 // queue offset to go on at
}

// printBatch prints the messages of a batch, at most most of them if there is a bound.
func printBatch(out io.Writer, b batch, most int, bounded bool) (progress, error) {
	p := progress{next: b.next}
	for rest := b.records; len(rest) > 0; {
		var r record.Record
		if err := record.Parse(rest, &r); err != nil {
			return p, fmt.Errorf("queue %v: %w", b.queue, err)
		}
		if bounded && p.messages == most {
			p.next = r.QueueOffset
			return p, nil
		}
		body := r.Body
		if r.SysFlag&record.SysCompressed != 0 {
			body = fmt.Appendf(nil, "(%d bytes, compressed by the sender)", len(body))
		}
		if _, err := fmt.Fprintf(out, "%v %d\t%s\n", b.queue, r.QueueOffset, body); err != nil {
			p.next = r.QueueOffset
			return p, err
		}
		p.messages++
		rest = rest[r.Size:]
	}
	return p, nil
}
