package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ringmq/store/inspect"
	"ringmq/store/record"
)

// dumpOptions are the flags of dump.
type dumpOptions struct {
	place        storePlace
	from, to     int64 // physical offsets
	topic        string
	queue        int32 // -1: all
	begin, end   int64 // queue offsets
	key          string
	since, until string
	count        int
	show         showOptions
}

func dumpCommand() *cobra.Command {
	var o dumpOptions
	cmd := &cobra.Command{
		Use:   "dump DIR",
		Short: "Print the messages of a store, read-only",
		Long: "Print messages as they stand on the disk, without changing a byte: by place in the log, by queue, by key, by time,\n" +
			"or by several of these. Damage is skipped, with a line on the standard error. Bodies that their sender compressed\n" +
			"are shown unpacked.",
		Example: "  ringmq store dump ./data --topic Hello --queue 0 --begin 10 --end 20\n" +
			"  ringmq store dump ./data --key order-17\n" +
			"  ringmq store dump ./data --since 2026-01-02T15:04:05Z --json | jq .body",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.place.clean(args)
			if err := dump(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr()); err != nil {
				return lookFailed(err)
			}
			return nil
		},
	}
	o.place.flags(cmd)
	f := cmd.Flags()
	f.Int64Var(&o.from, "from", 0, "physical offset to begin at")
	f.Int64Var(&o.to, "to", math.MaxInt64, "physical offset to end before")
	f.StringVar(&o.topic, "topic", "", "only this topic")
	f.Int32Var(&o.queue, "queue", -1, "only this queue of the topic, by its entries if it has any")
	f.Int64Var(&o.begin, "begin", 0, "queue offset to begin at")
	f.Int64Var(&o.end, "end", math.MaxInt64, "queue offset to end before")
	f.StringVar(&o.key, "key", "", "only messages with this key or unique key; reads the whole log")
	f.StringVar(&o.since, "since", "", "stored at this time or later: 2026-01-02T15:04:05Z, or ms since 1970")
	f.StringVar(&o.until, "until", "", "stored before this time")
	f.IntVar(&o.count, "count", 0, "stop after this many; 0 prints all")
	f.StringVar(&o.show.body, "body", bodyText, "how to show bodies: text, hex or size")
	f.IntVar(&o.show.limit, "body-limit", 200, "bytes of a body to show")
	f.BoolVar(&o.show.json, "json", false, "print one JSON object for each message")
	return cmd
}

// dump prints what the options choose.
func dump(ctx context.Context, o dumpOptions, out, complaints io.Writer) error {
	want, err := o.filter()
	if err != nil {
		return err
	}
	fsys, _ := disk(complaints)
	d, err := inspect.Open(fsys, o.place.inspected(nil))
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(out)
	shown := 0
	visit := func(at int64, r *record.Record) error {
		if !want.fits(at, r) {
			return nil
		}
		if shown++; o.count > 0 && shown > o.count {
			return errShown
		}
		return o.show.print(buffered, at, r)
	}
	err = o.scan(ctx, d, want, visit, complaints)
	if errors.Is(err, errShown) {
		err = nil
	}
	return errors.Join(err, buffered.Flush())
}

// errShown ends a scan that has printed what was asked for.
var errShown = errors.New("enough was printed")

// scan reads by the queue's entries where one queue is asked for and has files, else the log.
func (o *dumpOptions) scan(ctx context.Context, d *inspect.Dir, want filter, visit inspect.Visit, complaints io.Writer) error {
	if o.topic != "" && o.queue >= 0 {
		err := d.Queue(ctx, o.topic, o.queue, o.begin, o.end, visit, func(offset int64, err error) error {
			fmt.Fprintf(complaints, "ringmq store dump: %s/%d: %v\n", o.topic, o.queue, err)
			return nil
		})
		if !errors.Is(err, inspect.ErrNoQueue) {
			return err
		}
		fmt.Fprintf(complaints, "ringmq store dump: %v: the log is read instead\n", err)
	}
	from := o.from
	if want.sinceMs > math.MinInt64 {
		from = max(from, d.ScanFrom(want.sinceMs))
	}
	return d.Scan(ctx, from, o.to, visit, func(g inspect.Gap) error {
		if g.Used > 0 {
			fmt.Fprintf(complaints, "ringmq store dump: no record at %d, %d bytes are skipped: %v\n", g.At, g.Bytes, g.Err)
		}
		return nil
	})
}

// filter says which messages are wanted.
type filter struct {
	o                *dumpOptions
	sinceMs, untilMs int64
}

// filter checks the flags; all complaints at once.
func (o *dumpOptions) filter() (filter, error) {
	want := filter{o: o, sinceMs: math.MinInt64, untilMs: math.MaxInt64}
	var bad []error
	for _, t := range []struct {
		flag, text string
		ms         *int64
	}{{"since", o.since, &want.sinceMs}, {"until", o.until, &want.untilMs}} {
		if t.text == "" {
			continue
		}
		ms, err := parseTime(t.text)
		if err != nil {
			bad = append(bad, fmt.Errorf("--%s: %w", t.flag, err))
			continue
		}
		*t.ms = ms
	}
	if o.queue >= 0 && o.topic == "" {
		bad = append(bad, errors.New("--queue wants a --topic"))
	}
	if (o.begin != 0 || o.end != math.MaxInt64) && o.queue < 0 {
		bad = append(bad, errors.New("--begin and --end are offsets of one queue: they want --topic and --queue"))
	}
	if o.show.limit < 0 || o.count < 0 {
		bad = append(bad, fmt.Errorf("--body-limit %d --count %d: want 0 or more", o.show.limit, o.count))
	}
	if o.show.body != bodyText && o.show.body != bodyHex && o.show.body != bodySize {
		bad = append(bad, fmt.Errorf("--body %s: want text, hex or size", o.show.body))
	}
	return want, errors.Join(bad...)
}

// parseTime reads a time, or ms since 1970.
func parseTime(text string) (int64, error) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		return ms, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, fmt.Errorf("%q: want 2026-01-02T15:04:05Z, or ms since 1970", text)
	}
	return t.UnixMilli(), nil
}

func (w *filter) fits(at int64, r *record.Record) bool {
	o := w.o
	// A light queue's messages are of other topics: then the entries have chosen.
	light := strings.HasPrefix(o.topic, "%LMQ%")
	switch {
	case at < o.from || at >= o.to || r.StoreMs < w.sinceMs || r.StoreMs >= w.untilMs:
		return false
	case o.topic != "" && !light && string(r.Topic) != o.topic:
		return false
	case o.queue >= 0 && !light && (r.QueueID != o.queue || r.QueueOffset < o.begin || r.QueueOffset >= o.end):
		return false
	}
	return o.key == "" || hasKey(r.Props, o.key)
}

// hasKey reports whether one of a message's keys, or its unique key, is key.
func hasKey(props []byte, key string) bool {
	if unique, _ := record.Prop(props, record.PropUniqueKey); string(unique) == key {
		return true
	}
	keys, _ := record.Prop(props, record.PropKeys)
	for k := range strings.SplitSeq(string(keys), " ") {
		if k == key {
			return true
		}
	}
	return false
}
