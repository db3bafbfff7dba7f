package config

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/magiconair/properties"

	"ringmq/node/topic"
	"ringmq/store"
	"ringmq/store/record"
	"ringmq/uring"
)

// Warning is something an operator should know that does not stop the start.
type Warning struct {
	Key  string // empty if it is about no key
	Text string
}

// String reads as one sentence.
func (w Warning) String() string {
	if w.Key == "" {
		return w.Text
	}
	return w.Key + ": " + w.Text
}

// File is the name under which complaints speak of the text given to Parse.
const File = "broker.conf"

// variables are the environment variables that stand for a key.
var variables = map[string]string{
	"RINGMQ_ADMIN_LISTEN":        "adminListen",
	"RINGMQ_ADVERTISE":           "advertise",
	"RINGMQ_BROKER_CLUSTER_NAME": "brokerClusterName",
	"RINGMQ_BROKER_NAME":         "brokerName",
	"RINGMQ_DATA":                "storePathRootDir",
	"RINGMQ_FLUSH_DISK_TYPE":     "flushDiskType",
	"RINGMQ_LISTEN_PORT":         "listenPort",
	"RINGMQ_NAMESRV_LISTEN_PORT": "namesrvListenPort",
}

// namesrvVariable is the stock broker's: it stands in for a namesrvAddr that the file lacks.
const namesrvVariable = "NAMESRV_ADDR"

// Parse judges a broker.conf. flags are keys and values from the command line, which win over the environment
// (the RINGMQ_ variables), which wins over the file; NAMESRV_ADDR counts only where nothing else says
// namesrvAddr. The error holds all complaints, one a line, each with its key, its value and what is wanted.
func Parse(text []byte, env Env, flags map[string]string) (Config, []Warning, error) {
	p := &parser{reader: reader{values: map[string]value{}}, env: env}
	if err := p.collect(text, flags); err != nil {
		return Config{}, nil, err
	}
	c := p.config()
	slices.SortStableFunc(p.warnings, func(a, b Warning) int { return cmp.Compare(a.Key, b.Key) })
	return c, p.warnings, p.err()
}

type parser struct {
	reader
	env      Env
	warnings []Warning
}

func (p *parser) warn(key, format string, args ...any) {
	p.warnings = append(p.warnings, Warning{key, fmt.Sprintf(format, args...)})
}

// collect gathers the values from file, environment and flags, weakest first.
func (p *parser) collect(text []byte, flags map[string]string) error {
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	file, err := loader.LoadBytes(text)
	if err != nil {
		return fmt.Errorf("%s: %w", File, err)
	}
	if addr, ok := p.env.Lookup(namesrvVariable); ok {
		p.set("namesrvAddr", addr, namesrvVariable)
	}
	for _, name := range file.Keys() {
		v, _ := file.Get(name)
		p.set(name, v, File)
	}
	for _, variable := range slices.Sorted(maps.Keys(variables)) {
		if v, ok := p.env.Lookup(variable); ok {
			p.set(variables[variable], v, variable)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		p.set(name, flags[name], "command line")
	}
	return nil
}

// set takes one value. A key that is given twice in the file under two spellings must have one value.
func (p *parser) set(name, text, from string) {
	text = strings.TrimSpace(text)
	k, ok := known(name)
	if !ok {
		p.unknown(name)
		return
	}
	if old, ok := p.values[k.name]; ok && old.from == from && old.text != text {
		p.bad = append(p.bad, fmt.Errorf("%s: %s=%s and %s=%s: want one of the two spellings", from, old.name, old.text, name, text))
	}
	if k.effect != used && !strings.EqualFold(text, k.standard) {
		p.warn(name, "has no effect: %s", noEffect[k.effect])
	}
	p.values[k.name] = value{text, from, name}
}

func (p *parser) unknown(name string) {
	if near := nearest(name); near != "" {
		p.warn(name, "unknown key, did you mean %s?", near)
		return
	}
	p.warn(name, "unknown key")
}

func (p *parser) config() Config {
	c := Config{
		Cluster: p.name("brokerClusterName"),
		Broker:  cmp.Or(p.name("brokerName"), p.env.Hostname, "broker"),
		Dir:     cmp.Or(p.text("storePathRootDir"), path.Join(p.env.Home, "store")),

		Perm:               topic.Perm(p.number("brokerPermission", 0, 7)),
		DefaultTopicQueues: int32(p.number("defaultTopicQueueNums", 1, 65535)),
		AutoCreateTopic:    p.yes("autoCreateTopicEnable"),
		AutoCreateGroup:    p.yes("autoCreateSubscriptionGroup"),
		ClusterTopic:       p.yes("clusterTopicEnable"),
		BrokerTopic:        p.yes("brokerTopicEnable"),
		ReviveQueues:       int32(p.number("reviveQueueNum", 1, 65535)),
		TimerWheel:         p.yes("timerWheelEnable"),
		RegionID:           p.name("regionId"),
		TraceOn:            p.yes("traceOn"),
		LitePull:           p.yes("litePullMessageEnable"),
		PropertyFilter:     p.yes("enablePropertyFilter"),
		RejectPullConsumer: p.yes("rejectPullConsumerEnable"),
		NotifyIDsChanged:   p.yes("notifyConsumerIdsChangedEnable"),
		ChannelExpire:      p.ms("channelExpiredTimeout", 1000),
		Idle:               time.Duration(p.number("serverChannelMaxIdleTimeSeconds", 1, 86400)) * time.Second,
		OffsetFlush:        p.ms("flushConsumerOffsetInterval", 10),
		DelayLevels:        p.levels("messageDelayLevel"),
		DelayFlush:         p.ms("flushDelayOffsetInterval", 10),

		RegisterPeriod:  p.ms("registerNameServerPeriod", 1000),
		RegisterTimeout: p.ms("registerBrokerTimeoutMills", 100),
	}
	if p.yes("traceTopicEnable") {
		c.TraceTopic = p.name("msgTraceTopicName")
	}
	p.writing(&c)
	p.retaining(&c)
	p.reading(&c)
	p.addresses(&c)
	p.refuseUnsupported()
	return c
}

func (p *parser) writing(c *Config) {
	c.CommitLogDirs, c.ReadOnlyLogDirs = p.dirs("storePathCommitLog"), p.dirs("readOnlyCommitLogStorePaths")
	if len(c.CommitLogDirs) == 0 {
		c.CommitLogDirs = []string{path.Join(c.Dir, "commitlog")}
	}
	c.FlushSync = p.one("flushDiskType", "SYNC_FLUSH", "ASYNC_FLUSH") == "SYNC_FLUSH"
	c.FlushDepth = int(p.number("flushDepth", 0, 16))
	c.FlushInterval = p.ms("flushIntervalCommitLog", 1)
	c.FlushThorough = p.ms("flushCommitLogThoroughInterval", 1)
	c.FlushLeastPages = int(p.number("flushCommitLogLeastPages", 0, 1<<20))
	c.QueueFlush = p.ms("flushIntervalConsumeQueue", 1)
	c.SyncFlushTimeout = p.ms("syncFlushTimeout", 1)
	c.MaxMessageBytes = int(p.number("maxMessageSize", 1, maxMessageBytes))
	c.SendWait = p.ms("waitTimeMillsInSendQueue", 1)
	if p.given("mappedFileSizeCommitLog") {
		if c.SegmentBytes = p.number("mappedFileSizeCommitLog", pageBytes, 1<<31-pageBytes); c.SegmentBytes%pageBytes != 0 {
			p.complain("mappedFileSizeCommitLog", fmt.Sprintf("a multiple of %d", pageBytes))
		}
	}
	if p.given("mappedFileSizeConsumeQueue") {
		c.QueueFileBytes = p.number("mappedFileSizeConsumeQueue", queueEntryBytes, 1<<31-1)
	}
	c.NoIndex = !p.yes("messageIndexEnable")
	c.IndexSlots = int(p.number("maxHashSlotNum", 1, 1<<26))
	c.IndexEntries = int(p.number("maxIndexNum", 2, math.MaxInt32))
	c.Check = p.check()
	if p.one("recoveryOnDamage", "stop", "cut") == "cut" {
		c.OnDamage = store.CutOnDamage
	}
	c.IOEngine = p.one("ioEngine", "auto", "uring", "posix")
	if c.FlushSync && c.SyncFlushTimeout >= clientSendTimeout && p.given("syncFlushTimeout") {
		p.warn("syncFlushTimeout", "clients give a send up after %v unless told otherwise and then never see that a flush took longer", clientSendTimeout)
	}
}

const (
	pageBytes       = 4096
	queueEntryBytes = 20
	maxMessageBytes = 16<<20 - 64<<10 // what fits a frame of the protocol beside its header

	// clientSendTimeout is the default of the Java and Go clients.
	clientSendTimeout = 3 * time.Second
)

// check is what new records end with. The stock key selects the stock form.
func (p *parser) check() record.Check {
	stock := p.yes("enabledAppendPropCRC")
	name := p.one("recordCheck", "trailer", "property", "off")
	if stock && !p.given("recordCheck") {
		return record.CheckProperty
	}
	if stock && name != "property" {
		p.complain("recordCheck", "property, as enabledAppendPropCRC=true says")
	}
	switch name {
	case "property":
		return record.CheckProperty
	case "off":
		return record.CheckOff
	}
	return record.CheckTrailer
}

func (p *parser) reading(c *Config) {
	c.MemoryRatio = int(p.number("accessMessageInMemoryMaxRatio", 1, 100))
	c.PullMemoryBytes = int(p.number("maxTransferBytesOnMessageInMemory", 1, math.MaxInt32))
	c.PullDiskBytes = int(p.number("maxTransferBytesOnMessageInDisk", 1, math.MaxInt32))
	c.PullMemoryCount = int(p.number("maxTransferCountOnMessageInMemory", 1, math.MaxInt32))
	c.PullDiskCount = int(p.number("maxTransferCountOnMessageInDisk", 1, math.MaxInt32))
	c.LongPolling = p.yes("longPollingEnable")
	c.ShortPolling = p.ms("shortPollingTimeMills", 1)
	c.SendfileBytes = int(p.number("sendfileMinBytes", 1, uring.MappedRangeMax))
}

func (p *parser) addresses(c *Config) {
	bind := cmp.Or(p.text("bindAddress"), "0.0.0.0")
	port := int(p.number("listenPort", 3, maxPort)) // two below is the second listener
	haPort := cmp.Or(int(p.number("haListenPort", 1, maxPort)), port+1)
	c.Listen = []string{hostPort(bind, port), hostPort(bind, port-2)}
	c.Namesrvs = p.hostPorts("namesrvAddr")
	c.AdminListen = p.text("adminListen")
	if c.AdminListen != "" && !isListen(c.AdminListen) {
		p.complain("adminListen", "host:port, or nothing to switch it off")
	}

	namesrvPort := int(p.number("namesrvListenPort", 0, maxPort))
	if !p.given("namesrvListenPort") && len(c.Namesrvs) == 0 {
		namesrvPort = defaultNamesrvPort
	}
	if namesrvPort != 0 {
		c.NamesrvListen = hostPort(bind, namesrvPort)
	}
	p.distinct(map[string]int{"listenPort": port, "listenPort - 2": port - 2, "haListenPort": haPort, "namesrvListenPort": namesrvPort})

	host, hostPortNumber := p.advertised(bind, port)
	c.Advertise = hostPort(host, hostPortNumber)
	c.StoreHost = netip.AddrPortFrom(p.numbers(host), uint16(hostPortNumber))
	c.HAAddr = hostPort(cmp.Or(p.text("brokerIP2"), host), haPort)
}

const (
	maxPort            = 65535
	defaultNamesrvPort = 9876
)

func hostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// isListen admits an empty host and port 0, which the kernel chooses.
func isListen(text string) bool {
	_, port, err := net.SplitHostPort(text)
	n, perr := strconv.Atoi(port)
	return err == nil && perr == nil && n >= 0 && n <= maxPort
}

// distinct complains about two of our own listeners on one port; 0 is off.
func (p *parser) distinct(ports map[string]int) {
	taken := map[int]string{}
	for _, name := range slices.Sorted(maps.Keys(ports)) {
		port := ports[name]
		if other := taken[port]; other != "" && port != 0 {
			p.bad = append(p.bad, fmt.Errorf("%s: %s and %s are both port %d: want different ports", File, other, name, port))
		}
		taken[port] = name
	}
}

// advertised is the host and port that clients are given: what was said, else the address that is listened
// on, else one of the machine's.
func (p *parser) advertised(bind string, port int) (string, int) {
	name := "advertise"
	if !p.given(name) {
		name = "brokerIP1"
	} else if stock := p.text("brokerIP1"); stock != "" && stock != p.text(name) {
		p.complain(name, "the same as its alias brokerIP1="+stock+", or only one of them")
	}
	if said := p.text(name); said != "" {
		host := said
		if h, n, err := net.SplitHostPort(said); err == nil {
			given, err := strconv.Atoi(n)
			if err != nil || given < 1 || given > maxPort {
				p.complain(name, "a host, or host:port")
			}
			host, port = h, given
		}
		host = strings.Trim(host, "[]")
		if a, err := netip.ParseAddr(host); err == nil && a.IsUnspecified() {
			p.complain(name, "an address that clients can connect to, not a wildcard")
		}
		return host, port
	}
	if a, err := netip.ParseAddr(bind); err == nil && !a.IsUnspecified() {
		return bind, port
	}
	a := pick(p.env.Addrs)
	if a.IsLoopback() {
		p.warn("advertise", "no address but %v found: only clients on this machine will reach the broker", a)
	}
	return a.String(), port
}

// numbers is the address of a host as stored in messages.
func (p *parser) numbers(host string) netip.Addr {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap().WithZone("")
	}
	found, err := p.env.Resolve(host)
	if err != nil || len(found) == 0 {
		p.bad = append(p.bad, fmt.Errorf("advertise (brokerIP1): %s: want a name that resolves, or an address: %v", host, err))
		return netip.IPv4Unspecified()
	}
	return pick(found)
}

// refuseUnsupported stops the start where a setting asks for a promise that would not be kept.
func (p *parser) refuseUnsupported() {
	if p.one("brokerRole", "ASYNC_MASTER", "SYNC_MASTER", "SLAVE") != "ASYNC_MASTER" {
		p.complain("brokerRole", "ASYNC_MASTER: replication is not supported yet")
	}
	if p.number("brokerId", 0, math.MaxInt32) != 0 {
		p.warn("brokerId", "a master has id 0, whatever the file says")
	}
	if !strings.EqualFold(p.text("storeType"), "default") {
		p.complain("storeType", "default: there is no RocksDB in this broker")
	}
	if p.yes("enableDLegerCommitLog") {
		p.complain("enableDLegerCommitLog", "false: DLedger logs are not supported")
	}
	if p.yes("enableControllerMode") {
		p.complain("enableControllerMode", "false: the controller mode is not supported yet")
	}
}
