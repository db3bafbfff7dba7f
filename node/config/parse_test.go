package config

import (
	"bufio"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"ringmq/store"
	"ringmq/store/record"
)

// env is a machine with one address and no variables.
func env(variables ...string) Env {
	return Env{
		Lookup: func(name string) (string, bool) {
			for i := 0; i < len(variables); i += 2 {
				if variables[i] == name {
					return variables[i+1], true
				}
			}
			return "", false
		},
		Resolve: func(host string) ([]netip.Addr, error) {
			if host == "broker.example" {
				return []netip.Addr{netip.MustParseAddr("10.1.2.3")}, nil
			}
			return nil, errors.New("no such host")
		},
		Hostname: "box", Home: "/home/me",
		Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.7")},
	}
}

// good parses a file that must have neither complaints nor warnings beside the given ones.
func good(t *testing.T, file string, e Env, warnings ...string) Config {
	t.Helper()
	c, got, err := Parse([]byte(file), e, nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "warnings", texts(got), warnings)
	return c
}

func texts(warnings []Warning) []string {
	var all []string
	for _, w := range warnings {
		all = append(all, w.String())
	}
	return all
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n  %s\nwant:\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestDefaults(t *testing.T) {
	c := good(t, "", env())
	want := Config{
		Cluster: "DefaultCluster", Broker: "box",
		Listen: []string{"0.0.0.0:10911", "0.0.0.0:10909"}, NamesrvListen: "0.0.0.0:9876", AdminListen: "127.0.0.1:10980",
		Advertise: "192.0.2.7:10911", StoreHost: netip.MustParseAddrPort("192.0.2.7:10911"), HAAddr: "192.0.2.7:10912",
		Dir: "/home/me/store", CommitLogDirs: []string{"/home/me/store/commitlog"},
		IOEngine: "auto", FlushSync: true, FlushInterval: 500 * time.Millisecond, FlushThorough: 10 * time.Second, FlushLeastPages: 4,
		QueueFlush: time.Second, SyncFlushTimeout: 5 * time.Second, IndexSlots: 5_000_000, IndexEntries: 20_000_000, MaxMessageBytes: 4 << 20, Check: record.CheckTrailer,
		SendWait: 200 * time.Millisecond,
		Retention: store.Retention{
			Keep: 72 * time.Hour, Hours: []int{4}, UsedPercent: 75, ForcePercent: 85, WarnPercent: 90, BatchMax: 10, Pause: 100 * time.Millisecond,
		},
		RetainEvery: 10 * time.Second,
		MemoryRatio: 40, PullMemoryBytes: 256 << 10, PullDiskBytes: 64 << 10, PullMemoryCount: 32, PullDiskCount: 8,
		LongPolling: true, ShortPolling: time.Second, SendfileBytes: 32768,
		Perm: 6, DefaultTopicQueues: 8, AutoCreateTopic: true, AutoCreateGroup: true, ClusterTopic: true, BrokerTopic: true,
		ReviveQueues: 8, TimerWheel: true, RegionID: "DefaultRegion", TraceOn: true, LitePull: true, NotifyIDsChanged: true,
		ChannelExpire: 2 * time.Minute, Idle: 2 * time.Minute, OffsetFlush: 5 * time.Second,
		DelayFlush: 10 * time.Second, DelayLevels: store.Levels{
			1 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, 1 * time.Minute, 2 * time.Minute, 3 * time.Minute,
			4 * time.Minute, 5 * time.Minute, 6 * time.Minute, 7 * time.Minute, 8 * time.Minute, 9 * time.Minute, 10 * time.Minute,
			20 * time.Minute, 30 * time.Minute, 1 * time.Hour, 2 * time.Hour,
		},
		RegisterPeriod: 30 * time.Second, RegisterTimeout: 24 * time.Second,
	}
	got, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	wanted, err := json.MarshalIndent(want, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "config", strings.Split(string(got), "\n"), strings.Split(string(wanted), "\n"))
	if o := c.Store(); !o.FlushSync || o.Dir != c.Dir || o.MaxMessageBytes != c.MaxMessageBytes || o.SegmentBytes != 0 {
		t.Errorf("store options: %+v", o)
	}
	if o := c.Net(); !slices.Equal(o.Addrs, c.Listen) || o.BusyWait != c.SendWait || o.OweWait != c.SyncFlushTimeout || o.IdleWait != c.Idle {
		t.Errorf("net options: %+v", o)
	}
	if o := c.Topics(); o.Broker != "box" || o.DefaultQueues != 8 || !o.AutoCreate || o.Trace != "" {
		t.Errorf("topic options: %+v", o)
	}
	if p := c.SideFile("topics.json"); p != "/home/me/store/config/topics.json" {
		t.Errorf("side file: %s", p)
	}
}

// The sample file of the stock distribution, with what people add to it.
func TestStockFile(t *testing.T) {
	c := good(t, `# a comment
brokerClusterName = DefaultCluster
brokerName = broker-a
brokerId = 0
deleteWhen = 04
fileReservedTime = 48
brokerRole = ASYNC_MASTER
flushDiskType = async_flush
namesrvAddr=10.0.0.1:9876; ns.example:9876;
mapedFileSizeCommitLog=1048576
mappedFileSizeConsumeQueue=6000000
storePathConsumeQueue=/data/consumequeue
traceTopicEnable=true
enabledAppendPropCRC=true
! another comment
storePathRootDir = /data
`, env(),
		"storePathConsumeQueue: has no effect: the path follows from storePathRootDir; stock brokers do not read this key either")
	if c.FlushSync || c.Broker != "broker-a" || c.Dir != "/data" || !slices.Equal(c.CommitLogDirs, []string{"/data/commitlog"}) ||
		c.SegmentBytes != 1<<20 || c.QueueFileBytes != 6_000_000 || c.TraceTopic != "RMQ_SYS_TRACE_TOPIC" || c.Check != record.CheckProperty || c.Retention.Keep != 48*time.Hour {
		t.Errorf("config: %+v", c)
	}
	same(t, "name servers", c.Namesrvs, []string{"10.0.0.1:9876", "ns.example:9876"})
	if c.NamesrvListen != "" {
		t.Errorf("the embedded name server runs at %s beside others", c.NamesrvListen)
	}
}

// TestLogDirs: both lists are joined by commas, as in stock files.
func TestLogDirs(t *testing.T) {
	c := good(t, "storePathCommitLog=/b/log, /a/log,\nreadOnlyCommitLogStorePaths=/old", env())
	if o := c.Store(); !slices.Equal(o.CommitLogDirs, []string{"/b/log", "/a/log"}) || !slices.Equal(o.ReadOnlyLogDirs, []string{"/old"}) {
		t.Errorf("log directories %q, read-only %q", o.CommitLogDirs, o.ReadOnlyLogDirs)
	}
}

// A file with many mistakes is edited once.
func TestAllComplaintsAtOnce(t *testing.T) {
	_, warnings, err := Parse([]byte(`
listenPort=ten
maxMessageSize=-1
flushDiskType=SOMETIMES
autoCreateTopicEnable=yes
namesrvAddr=nowhere
mappedFileSizeCommitLog=5000
brokerIP1=0.0.0.0
flushConsumerOffsetInterval=5s
brokerRole=SLAVE
storeType=defaultRocksDB
recordCheck=off
enabledAppendPropCRC=true
adminListen=here
flushDiscType=SYNC_FLUSH
`), env(), map[string]string{"defaultTopicQueueNums": "0"})
	if err == nil {
		t.Fatal("no complaint")
	}
	same(t, "complaints", strings.Split(err.Error(), "\n"), []string{
		"broker.conf: adminListen=here: want host:port, or nothing to switch it off",
		"broker.conf: autoCreateTopicEnable=yes: want true or false",
		"broker.conf: brokerIP1=0.0.0.0: want an address that clients can connect to, not a wildcard",
		"broker.conf: brokerRole=SLAVE: want ASYNC_MASTER: replication is not supported yet",
		"broker.conf: flushConsumerOffsetInterval=5s: want a number from 10 to 86400000",
		"broker.conf: flushDiskType=SOMETIMES: want SYNC_FLUSH or ASYNC_FLUSH",
		"broker.conf: listenPort=ten: want a number from 3 to 65535",
		"broker.conf: mappedFileSizeCommitLog=5000: want a multiple of 4096",
		"broker.conf: maxMessageSize=-1: want a number from 1 to 16711680",
		"broker.conf: namesrvAddr=nowhere: want host:port, several joined by semicolons",
		"broker.conf: recordCheck=off: want property, as enabledAppendPropCRC=true says",
		"broker.conf: storeType=defaultRocksDB: want default: there is no RocksDB in this broker",
		"command line: defaultTopicQueueNums=0: want a number from 1 to 65535",
	})
	same(t, "warnings", texts(warnings), []string{"flushDiscType: unknown key, did you mean flushDiskType?"})
}

func TestWarnings(t *testing.T) {
	for file, want := range map[string][]string{
		"transientStorePoolEnable=true":                    {"transientStorePoolEnable: has no effect: messages are staged in memory beside the page cache anyway, always bounded"},
		"transientStorePoolEnable=FALSE":                   nil, // the default
		"warmMappedFileEnable=true":                        {"warmMappedFileEnable: has no effect: files are written without mapping them, and mapped for reading where that is quicker: see sendfileMinBytes"},
		"warmMapedFileEnable=true":                         {"warmMapedFileEnable: has no effect: files are written without mapping them, and mapped for reading where that is quicker: see sendfileMinBytes"},
		"brokerid=0":                                       {"brokerid: unknown key, did you mean brokerId?"},
		"somethingElseAltogether=1":                        {"somethingElseAltogether: unknown key"},
		"brokerId=3":                                       {"brokerId: a master has id 0, whatever the file says"},
		"syncFlushTimeout=3000":                            {"syncFlushTimeout: clients give a send up after 3s unless told otherwise and then never see that a flush took longer"},
		"syncFlushTimeout=2999":                            nil,
		"flushDiskType=ASYNC_FLUSH\nsyncFlushTimeout=9000": nil,
		"inSyncReplicas=1":                                 {"inSyncReplicas: has no effect: replication is not supported yet"},
	} {
		t.Run(file, func(t *testing.T) { good(t, file, env(), want...) })
	}
}

func TestSpellings(t *testing.T) {
	if c := good(t, "mapedFileSizeCommitLog=8192", env()); c.SegmentBytes != 8192 {
		t.Errorf("maped: %d", c.SegmentBytes)
	}
	_, _, err := Parse([]byte("mapedFileSizeCommitLog=8192\nmappedFileSizeCommitLog=4096"), env(), nil)
	const want = "broker.conf: mapedFileSizeCommitLog=8192 and mappedFileSizeCommitLog=4096: want one of the two spellings"
	if err == nil || err.Error() != want {
		t.Errorf("both: %v, want %s", err, want)
	}
}

func TestWhoWins(t *testing.T) {
	file := "brokerName=file\nflushDiskType=ASYNC_FLUSH\n"
	e := env("RINGMQ_BROKER_NAME", "variable", "RINGMQ_DATA", "/v", "NAMESRV_ADDR", "a:1")
	c, _, err := Parse([]byte(file), e, map[string]string{"storePathRootDir": "/flag", "listenPort": "20911"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Broker != "variable" || c.Dir != "/flag" || c.FlushSync || c.Listen[0] != "0.0.0.0:20911" || !slices.Equal(c.Namesrvs, []string{"a:1"}) {
		t.Errorf("config: %+v", c)
	}
	c = good(t, "namesrvAddr=b:2", e)
	same(t, "name servers", c.Namesrvs, []string{"b:2"}) // as in a stock broker the file wins over NAMESRV_ADDR
}

func TestAddresses(t *testing.T) {
	addrs := func(list ...string) Env {
		e := env()
		e.Addrs = nil
		for _, a := range list {
			e.Addrs = append(e.Addrs, netip.MustParseAddr(a))
		}
		return e
	}
	const lonely = "advertise: no address but 127.0.0.1 found: only clients on this machine will reach the broker"
	for _, w := range []struct {
		name      string
		env       Env
		file      string
		advertise string
		storeHost string
		ha        string
		warning   string
	}{
		{"picked", env(), "", "192.0.2.7:10911", "192.0.2.7:10911", "192.0.2.7:10912", ""},
		{"the first of two", addrs("10.0.0.1", "10.0.0.2"), "", "10.0.0.1:10911", "10.0.0.1:10911", "10.0.0.1:10912", ""},
		{"not link-local", addrs("169.254.1.1", "fe80::1", "2001:db8::1"), "", "[2001:db8::1]:10911", "[2001:db8::1]:10911", "[2001:db8::1]:10912", ""},
		{"IPv4 before IPv6", addrs("2001:db8::1", "10.0.0.1"), "", "10.0.0.1:10911", "10.0.0.1:10911", "10.0.0.1:10912", ""},
		{"loopback only", addrs("127.0.0.1", "::1"), "", "127.0.0.1:10911", "127.0.0.1:10911", "127.0.0.1:10912", lonely},
		{"told loopback", addrs(), "brokerIP1=127.0.0.1", "127.0.0.1:10911", "127.0.0.1:10911", "127.0.0.1:10912", ""},
		{"told", env(), "advertise=198.51.100.1\nlistenPort=20911", "198.51.100.1:20911", "198.51.100.1:20911", "198.51.100.1:20912", ""},
		{"told with a port", env(), "advertise=198.51.100.1:30000", "198.51.100.1:30000", "198.51.100.1:30000", "198.51.100.1:10912", ""},
		{"told both", env(), "advertise=198.51.100.1\nbrokerIP1=198.51.100.1", "198.51.100.1:10911", "198.51.100.1:10911", "198.51.100.1:10912", ""},
		{"IPv6", env(), "brokerIP1=2001:db8::9", "[2001:db8::9]:10911", "[2001:db8::9]:10911", "[2001:db8::9]:10912", ""},
		{"IPv6 in brackets", env(), "advertise=[2001:db8::9]:1234", "[2001:db8::9]:1234", "[2001:db8::9]:1234", "[2001:db8::9]:10912", ""},
		{"a name", env(), "advertise=broker.example", "broker.example:10911", "10.1.2.3:10911", "broker.example:10912", ""},
		{"bound", env(), "bindAddress=10.9.9.9", "10.9.9.9:10911", "10.9.9.9:10911", "10.9.9.9:10912", ""},
		{"bound to all", env(), "bindAddress=::", "192.0.2.7:10911", "192.0.2.7:10911", "192.0.2.7:10912", ""},
		{"HA elsewhere", env(), "brokerIP2=10.7.7.7\nhaListenPort=4000", "192.0.2.7:10911", "192.0.2.7:10911", "10.7.7.7:4000", ""},
	} {
		t.Run(w.name, func(t *testing.T) {
			var warnings []string
			if w.warning != "" {
				warnings = []string{w.warning}
			}
			c := good(t, w.file, w.env, warnings...)
			if c.Advertise != w.advertise || c.StoreHost.String() != w.storeHost || c.HAAddr != w.ha {
				t.Errorf("advertise %s, store host %s, HA %s; want %s, %s, %s", c.Advertise, c.StoreHost, c.HAAddr, w.advertise, w.storeHost, w.ha)
			}
		})
	}
}

func TestWrongAddresses(t *testing.T) {
	for file, want := range map[string]string{
		"advertise=nobody.example":               "advertise (brokerIP1): nobody.example: want a name that resolves, or an address: no such host",
		"advertise=::":                           "broker.conf: advertise=::: want an address that clients can connect to, not a wildcard",
		"advertise=10.0.0.1\nbrokerIP1=10.0.0.2": "broker.conf: advertise=10.0.0.1: want the same as its alias brokerIP1=10.0.0.2, or only one of them",
		"advertise=10.0.0.1:x":                   "broker.conf: advertise=10.0.0.1:x: want a host, or host:port",
		"namesrvListenPort=10911":                "broker.conf: listenPort and namesrvListenPort are both port 10911: want different ports",
		"listenPort=10914":                       "broker.conf: haListenPort and listenPort - 2 are both port 10912: want different ports",
		"listenPort=2":                           "broker.conf: listenPort=2: want a number from 3 to 65535",
	} {
		if file == "listenPort=10914" {
			file += "\nhaListenPort=10912"
		}
		if _, _, err := Parse([]byte(file), env(), nil); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", file, err, want)
		}
	}
}

// TestNamesCanBePrinted: a control byte in a name went into routes, metrics and the properties of messages, where some of
// them are separators.
func TestNamesCanBePrinted(t *testing.T) {
	for _, key := range []string{"brokerClusterName", "brokerName", "regionId", "msgTraceTopicName"} {
		for value, quoted := range map[string]string{`a\u0001b`: `"a\x01b"`, `a\nb`: `"a\nb"`, `a\u007f`: `"a\x7f"`, "a\xffb": `"a`} {
			_, _, err := Parse([]byte("traceTopicEnable=true\n"+key+"="+value), env(), nil)
			if err == nil || !strings.HasPrefix(err.Error(), "broker.conf: "+key+"="+quoted) || !strings.Contains(err.Error(), "can be printed") {
				t.Errorf("%s=%s: %v", key, value, err)
			}
		}
	}
	if c := good(t, "brokerName=Bröker nr. 1", env()); c.Broker != "Bröker nr. 1" {
		t.Errorf("name %q", c.Broker)
	}
}

func TestSwitchedOff(t *testing.T) {
	c := good(t, "adminListen=\nnamesrvListenPort=0", env())
	if c.AdminListen != "" || c.NamesrvListen != "" {
		t.Errorf("admin %q, name server %q", c.AdminListen, c.NamesrvListen)
	}
	c = good(t, "namesrvAddr=a:1\nnamesrvListenPort=19876", env())
	if c.NamesrvListen != "0.0.0.0:19876" || len(c.Namesrvs) != 1 {
		t.Errorf("name servers: own %q, others %v", c.NamesrvListen, c.Namesrvs)
	}
}

func TestNotAPropertiesFile(t *testing.T) {
	if _, _, err := Parse([]byte(`a=\u12`), env(), nil); err == nil || !strings.Contains(err.Error(), File) {
		t.Errorf("Parse: %v", err)
	}
}

// Values with dollars and braces are taken as they are, as Java does.
func TestNoExpansion(t *testing.T) {
	if c := good(t, "storePathRootDir=/data/${x}/${y", env()); c.Dir != "/data/${x}/${y" {
		t.Errorf("directory %q", c.Dir)
	}
}

// TestKeysAsStock: each key of the stock classes is known, with the stock default where it is used.
func TestKeysAsStock(t *testing.T) {
	f, err := os.Open("testdata/configkeys.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ours := map[string]string{
		"flushDiskType": "SYNC_FLUSH", "inSyncReplicas": "2", // by design
		"listenPort": "10911", "haListenPort": "", // what the stock start makes of its own defaults
	}
	seen := 0
	for s := bufio.NewScanner(f); s.Scan(); seen++ {
		var w struct{ Key, Default string }
		if err := json.Unmarshal(s.Bytes(), &w); err != nil {
			t.Fatal(err)
		}
		k, ok := keys[w.Key]
		if !ok {
			t.Errorf("%s is unknown", w.Key)
			continue
		}
		want := w.Default
		if own, ok := ours[w.Key]; ok {
			want = own
		}
		if k.standard != want {
			t.Errorf("%s: default %q, stock has %q", w.Key, k.standard, want)
		}
	}
	if seen < 400 {
		t.Fatalf("%d keys", seen)
	}
}

// TestKeyTable: each effect has its reason, each reason a key, and each used key is read by Parse.
func TestKeyTable(t *testing.T) {
	reasons := map[string]bool{}
	read := readKeys(t)
	for name, k := range keys {
		if k.effect == used {
			if !read[name] {
				t.Errorf("%s is marked as used and nobody reads it", name)
			}
			continue
		}
		if reasons[k.effect] = true; noEffect[k.effect] == "" {
			t.Errorf("%s: no reason is called %q", name, k.effect)
		}
		if read[name] {
			t.Errorf("%s is read and marked as without effect", name)
		}
	}
	for effect := range noEffect {
		if !reasons[effect] {
			t.Errorf("no key has the reason %q", effect)
		}
	}
}

// readKeys finds the keys that the source reads: every known key that stands in it in quotes.
func readKeys(t *testing.T) map[string]bool {
	t.Helper()
	var source []byte
	for _, name := range []string{"parse.go", "retain.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		source = append(source, text...)
	}
	read := map[string]bool{}
	for name := range keys {
		if strings.Contains(string(source), `"`+name+`"`) {
			read[name] = true
		}
	}
	return read
}

func TestMachine(t *testing.T) {
	if _, _, err := Parse(nil, Machine(), nil); err != nil {
		t.Errorf("an empty file on this machine: %v", err)
	}
}

// FuzzParse: any file is an error or a config, and the same one each time.
func FuzzParse(f *testing.F) {
	f.Add([]byte("listenPort=10911\nbrokerName = a\\u0041\n"))
	f.Add([]byte("mapedFileSizeCommitLog=1\nadvertise=[::1]:5\nnamesrvAddr=;;a:1;"))
	f.Add([]byte("a b c\n=\n:\\\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		c, _, err := Parse(file, env(), nil)
		if err != nil {
			return
		}
		if c.Dir == "" || c.Broker == "" || len(c.Listen) != 2 || !c.StoreHost.IsValid() || c.MaxMessageBytes <= 0 {
			t.Fatalf("accepted %+v", c)
		}
	})
}

// TestRetention: which messages go, and mistakes in it.
func TestRetention(t *testing.T) {
	c := good(t, "deleteWhen=4;16; 23\nlogRetentionBytes=8589934592\ndiskMinFreeBytes=1073741824\ncleanFileForciblyEnable=false\ndeleteFileBatchMax=3\n"+
		"diskMaxUsedSpaceRatio=60\ndiskSpaceCleanForciblyRatio=70\ndiskSpaceWarningLevelRatio=95\nfileReservedTime=1\ncleanResourceInterval=500\ndeleteCommitLogFilesInterval=0", env(),
		"cleanFileForciblyEnable: logRetentionBytes removes files before their age in any case")
	want := store.Retention{
		Keep: time.Hour, Hours: []int{4, 16, 23}, MaxBytes: 8 << 30, UsedPercent: 60, ForcePercent: 70, WarnPercent: 95,
		MinFreeBytes: 1 << 30, KeepYoung: true, BatchMax: 3,
	}
	if got := c.Store().Retention; !reflect.DeepEqual(got, want) || c.RetainEvery != 500*time.Millisecond {
		t.Errorf("%+v", got)
	}
	_, _, err := Parse([]byte("deleteWhen=24\ndiskMaxUsedSpaceRatio=90\nmappedFileSizeCommitLog=1048576\nlogRetentionBytes=2000000\n"), env(), nil)
	same(t, "complaints", strings.Split(err.Error(), "\n"), []string{
		"broker.conf: deleteWhen=24: want hours from 0 to 23, several joined by semicolons",
		"broker.conf: diskMaxUsedSpaceRatio=90: want at most diskSpaceCleanForciblyRatio=85: first old files go, then any files, and only then messages are refused",
		"broker.conf: logRetentionBytes=2000000: want two files of 1048576 bytes at least (mappedFileSizeCommitLog): the newest file never goes; 0 is no limit",
	})
}
