package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"ringmq/perf/serve"
)

// subject is a server that is measured.
type subject struct {
	name     string
	stock    bool
	bare     bool     // it only answers sends
	settings []string // of broker.conf
}

func (s subject) called() string { return s.name }

// Lines that only change what a stock broker refuses under load, not how quick it is: as shipped it answers code 2 to what has
// waited for 200 ms, and a closed loop of 1,024 messages is that often.
var (
	patience = []string{"waitTimeMillsInSendQueue=5000", "sendThreadPoolQueueCapacity=100000"}
	tuned    = []string{"sendMessageThreadPoolNums=4", "useReentrantLockWhenPutMessage=true", "timerWheelEnable=false", "messageIndexEnable=false"}
)

func stock(name string, lines ...[]string) subject {
	s := subject{name: name, stock: true, settings: append([]string{}, patience...)}
	for _, l := range lines {
		s.settings = append(s.settings, l...)
	}
	return s
}

// subjects in the order of a round.
var subjects = []subject{
	{name: "ringmq-sync", settings: []string{"flushDiskType=SYNC_FLUSH"}},
	stock("stock-sync", []string{"flushDiskType=SYNC_FLUSH"}),
	{name: "bare", bare: true},
	stock("stock-sync-tuned", []string{"flushDiskType=SYNC_FLUSH", "writeWithoutMmap=true"}, tuned),
	{name: "ringmq-async", settings: []string{"flushDiskType=ASYNC_FLUSH"}},
	stock("stock-async", []string{"flushDiskType=ASYNC_FLUSH"}),
	stock("stock-async-tuned", []string{"flushDiskType=ASYNC_FLUSH", "writeWithoutMmap=true"}, tuned),
}

// jvm are the flags of bin/runbroker.sh of the distribution, with another heap, and without touching all of it at the start.
func (v versus) jvm() []string {
	return []string{
		"-server", "-Xms" + v.heap, "-Xmx" + v.heap, "-XX:+UseG1GC", "-XX:G1HeapRegionSize=16m", "-XX:G1ReservePercent=25",
		"-XX:InitiatingHeapOccupancyPercent=30", "-XX:SoftRefLRUPolicyMSPerMB=0", "-XX:MaxDirectMemorySize=4g", "-XX:-UseLargePages",
	}
}

// how says how a subject is started, for the report.
func (s subject) how(v versus) string {
	switch {
	case s.bare:
		return "gnet, one write and one fdatasync for all that came meanwhile; no topics, queues, checks"
	case s.stock:
		return "java " + strings.Join(v.jvm(), " ") + "; " + strings.Join(s.settings, " ")
	}
	return "ringmq serve; " + strings.Join(s.settings, " ")
}

// start starts it on an empty directory and returns when it has answered a first send.
func (s subject) start(v versus, dir string) (*serve.Server, error) {
	switch {
	case s.bare:
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		server := &serve.Server{Addr: fmt.Sprint("127.0.0.1:", v.port)}
		return server, server.Start(exec.Command(self, "-bare", server.Addr, "-dir", dir), server.Dial)
	case s.stock:
		return serve.Stock(v.classpath, dir, v.port, v.jvm(), s.settings...)
	}
	flush := strings.TrimPrefix(s.settings[0], "flushDiskType=")
	return serve.Node(v.bin, dir, v.port, flush, true, s.settings[1:]...)
}
