package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// benchFlags are the flags that only some benchmarks have.
var benchFlags = map[string]func(*cobra.Command, *benchOptions){
	"conns": func(c *cobra.Command, o *benchOptions) {
		c.Flags().IntVar(&o.Conns, "conns", o.Conns, "connections that send")
	},
	"in-flight": func(c *cobra.Command, o *benchOptions) {
		c.Flags().IntVar(&o.InFlight, "in-flight", o.InFlight, "requests under way on each connection")
	},
	"size": func(c *cobra.Command, o *benchOptions) {
		c.Flags().IntVar(&o.Bytes, "size", o.Bytes, "bytes of a message's body")
	},
	"topics": func(c *cobra.Command, o *benchOptions) {
		c.Flags().IntVar(&o.Topics, "topics", o.Topics, "topics, named --topic with -0, -1 …; one has no number")
	},
	"queues": func(c *cobra.Command, o *benchOptions) {
		c.Flags().IntVar(&o.Queues, "queues", o.Queues, "queues of each topic")
	},
	"batch": func(c *cobra.Command, o *benchOptions) {
		c.Flags().IntVar(&o.Batch, "batch", o.Batch, "messages in one request")
	},
	"level": func(c *cobra.Command, o *benchOptions) {
		c.Flags().IntVar(&o.Level, "level", o.Level, "delay level; 0 is none")
	},
	"rate": func(c *cobra.Command, o *benchOptions) {
		c.Flags().Float64Var(&o.rate, "rate", o.rate, "messages a second, of all connections together")
	},
	"consumers": func(c *cobra.Command, o *benchOptions) {
		c.Flags().IntVar(&o.consumers, "consumers", o.consumers, "connections that pull")
	},
	"check": func(c *cobra.Command, o *benchOptions) {
		c.Flags().BoolVar(&o.check, "check", o.check, "look at each message; without, the reader itself costs least")
	},
	"fill": func(c *cobra.Command, o *benchOptions) {
		c.Flags().Int64Var(&o.fill, "fill", o.fill, "bytes of messages to send before; 0: the topic has them")
	},
	"exec": func(c *cobra.Command, o *benchOptions) {
		c.Flags().StringVar(&o.exec, "exec", o.exec, "shell command that restarts the broker")
	},
}

func (o *benchOptions) flags(cmd *cobra.Command, b bench) {
	f := cmd.Flags()
	for _, name := range strings.Fields(b.flags) {
		benchFlags[name](cmd, o)
	}
	f.DurationVar(&o.run, "for", o.run, "counted time")
	f.BoolVar(&o.asJSON, "json", false, "JSON lines: one each second, one for the result")
	if b.name != "restart" {
		f.DurationVar(&o.warm, "warm", o.warm, "time before that")
	}
	if b.name == "ceiling" {
		return
	}
	f.StringVar(&o.Addr, "addr", "127.0.0.1:10911", "host:port of the broker")
	f.StringVar(&o.Topic, "topic", o.Topic, "topic")
	if b.name != "restart" {
		f.IntVar(&o.pid, "pid", 0, "process of the broker, for its CPU and memory")
		f.StringVar(&o.disk, "disk", "", "a folder on the broker's disk, for what the device wrote")
	}
}
