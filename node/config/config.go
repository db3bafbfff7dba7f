// Package config reads broker.conf, a Java properties file with the keys and defaults of the stock broker
// 5.5.0 and a few of our own, and turns it into the options of every layer.
//
// What an operator sees: all wrong values at once as one error; a warning for each key that nobody knows
// (with the nearest known one) and for each stock key that is set and has no effect here (with the reason).
// Start with Parse; keys.txt is the table of all keys, read.go judges the values, address.go picks the
// address that clients are given.
package config

import (
	"net/netip"
	"path"
	"time"

	"ringmq/netio"
	"ringmq/node/topic"
	"ringmq/store"
	"ringmq/store/record"
)

// Config is everything that a node is told from outside, checked and with all defaults filled in.
type Config struct {
	// Who this node is.
	Cluster, Broker string
	BrokerID        int64 // 0 is the master

	// Where it is reached.
	Listen        []string       // the broker's main address and its second one, two ports below
	NamesrvListen string         // the embedded name server; empty: off
	AdminListen   string         // HTTP; empty: off
	Advertise     string         // host:port of the broker that clients are given
	StoreHost     netip.AddrPort // the same as numbers: part of each stored message and of its id
	HAAddr        string         // host:port for slaves, part of a registration
	Namesrvs      []string       // host:port of the name servers elsewhere to register with

	// Where its data are.
	Dir                            string
	CommitLogDirs, ReadOnlyLogDirs []string

	// Writing.
	IOEngine         string // auto, uring or posix
	FlushSync        bool
	FlushDepth       int // 0: by the number of CPUs
	FlushInterval    time.Duration
	FlushThorough    time.Duration
	FlushLeastPages  int
	QueueFlush       time.Duration
	SyncFlushTimeout time.Duration
	SegmentBytes     int64
	QueueFileBytes   int64
	NoIndex          bool // messages cannot be looked up by key
	IndexSlots       int  // of one file of the index
	IndexEntries     int
	MaxMessageBytes  int
	Check            record.Check
	OnDamage         store.OnDamage
	Retention        store.Retention
	RetainEvery      time.Duration // period of the removal of old messages
	SendWait         time.Duration // how long a send may wait for room before it is answered "busy"

	// Reading.
	MemoryRatio                    int // percent of the machine's memory in which messages count as in memory
	PullMemoryBytes, PullDiskBytes int // per pull, for messages in memory and beyond
	PullMemoryCount, PullDiskCount int
	LongPolling                    bool
	ShortPolling                   time.Duration // hold of a pull without LongPolling
	SendfileBytes                  int           // from this length on a run of messages is sent by sendfile, shorter ones from a mapping

	// Topics, groups, clients.
	Perm               topic.Perm // of the broker
	DefaultTopicQueues int32
	AutoCreateTopic    bool
	AutoCreateGroup    bool
	ClusterTopic       bool
	BrokerTopic        bool
	TraceTopic         string // empty: none
	ReviveQueues       int32
	TimerWheel         bool
	RegionID           string
	TraceOn            bool
	LitePull           bool
	PropertyFilter     bool // SQL92 subscriptions are served
	RejectPullConsumer bool
	NotifyIDsChanged   bool
	ChannelExpire      time.Duration // without a heartbeat
	Idle               time.Duration // without a byte
	OffsetFlush        time.Duration // period of writing the consumer offsets
	DelayLevels        store.Levels  // how long a message of each level waits
	DelayFlush         time.Duration // period of writing how far they are delivered

	// Name servers.
	RegisterPeriod  time.Duration
	RegisterTimeout time.Duration
}

// Store returns the store's options, without clock, log and callbacks.
func (c *Config) Store() store.Options {
	return store.Options{
		Dir: c.Dir, CommitLogDirs: c.CommitLogDirs, ReadOnlyLogDirs: c.ReadOnlyLogDirs, SegmentBytes: c.SegmentBytes, QueueFileBytes: c.QueueFileBytes,
		FlushSync: c.FlushSync, FlushDepth: c.FlushDepth, FlushInterval: c.FlushInterval, FlushThorough: c.FlushThorough,
		NoIndex: c.NoIndex, IndexSlots: c.IndexSlots, IndexEntries: c.IndexEntries,
		FlushLeastPages: c.FlushLeastPages, QueueFlushInterval: c.QueueFlush, MaxMessageBytes: c.MaxMessageBytes,
		Check: c.Check, OnDamage: c.OnDamage, DelayLevels: c.DelayLevels, Retention: c.Retention,
	}
}

// Net returns the options of the broker's listener, without clock and log.
func (c *Config) Net() netio.Options {
	return netio.Options{Addrs: c.Listen, BusyWait: c.SendWait, OweWait: c.SyncFlushTimeout, IdleWait: c.Idle, SendfileBytes: c.SendfileBytes}
}

// NamesrvNet returns the options of the embedded name server's listener. It has little to do: one loop.
func (c *Config) NamesrvNet() netio.Options {
	return netio.Options{Addrs: []string{c.NamesrvListen}, Loops: 1, MaxConns: 16384, MaxInBytes: 64 << 20, MaxOutBytes: 64 << 20}
}

// Topics returns which system topics the broker has.
func (c *Config) Topics() topic.SystemOptions {
	return topic.SystemOptions{
		Broker: c.Broker, Cluster: c.Cluster, DefaultQueues: c.DefaultTopicQueues, ReviveQueues: c.ReviveQueues,
		AutoCreate: c.AutoCreateTopic, ClusterTopic: c.ClusterTopic, BrokerTopic: c.BrokerTopic,
		Trace: c.TraceTopic, Timer: c.TimerWheel,
	}
}

// SideFile is the path of one of the small files that the broker keeps beside its messages.
func (c *Config) SideFile(name string) string { return path.Join(c.Dir, "config", name) }
