package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// stockTarget runs the stock broker 5.5.0 and its name server from their published jars. The name server lives as
// long as the node: only the broker is stopped and killed.
type stockTarget struct {
	namesrv *process
}

// stockClasspath is where Maven put the jars.
var stockClasspath = sync.OnceValues(func() (string, error) { return mavenClasspath("stock", "dependency:build-classpath") })

func (*stockTarget) prepare() error {
	_, err := stockClasspath()
	return err
}

func (s *stockTarget) start(n *node) (*process, error) {
	if s.namesrv == nil {
		var err error
		if s.namesrv, err = startStockNamesrv(n); err != nil {
			return nil, err
		}
	}
	conf := filepath.Join(n.dir, "broker.conf")
	if err := os.WriteFile(conf, []byte(stockConf(n)), 0o644); err != nil {
		return nil, err
	}
	return stockJVM(n, "node.log", "org.apache.rocketmq.broker.BrokerStartup", "-c", conf)
}

// startStockNamesrv starts a stock name server on n's port for it and returns when it listens.
func startStockNamesrv(n *node) (*process, error) {
	conf := filepath.Join(n.dir, "namesrv.conf")
	err := os.WriteFile(conf, fmt.Appendf(nil, "listenPort=%d\nrocketmqHome=%s\n", n.ports.namesrv, n.dir), 0o644)
	if err != nil {
		return nil, err
	}
	p, err := stockJVM(n, "namesrv.log", "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", conf)
	if err != nil {
		return nil, err
	}
	if err := poll(startWait, func() error { return listening(n.namesrvAddr()) }); err != nil {
		p.kill()
		return nil, fmt.Errorf("stock name server: %w\n%s", err, p.tail())
	}
	return p, nil
}

func stockJVM(n *node, log, main string, args ...string) (*process, error) {
	cp, err := stockClasspath()
	if err != nil {
		return nil, err
	}
	jvm := []string{
		"-Xmx512m", "-XX:MaxDirectMemorySize=256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Duser.home=" + n.dir, "-cp", cp, main,
	}
	cmd := exec.Command("java", append(jvm, args...)...)
	cmd.Env = append(os.Environ(), "ROCKETMQ_HOME="+n.dir)
	return spawn(cmd, filepath.Join(n.dir, log))
}

func stockConf(n *node) string {
	flush := n.flush
	if flush == "" {
		flush = flushBuf
	}
	delays := n.delays
	if delays == "" {
		delays = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
	}
	return strings.Join([]string{
		"messageDelayLevel=" + delays,
		"brokerName=" + brokerName,
		"enablePropertyFilter=true",
		"brokerClusterName=" + clusterName,
		"brokerId=0",
		"brokerIP1=127.0.0.1",
		fmt.Sprintf("listenPort=%d", n.ports.broker),
		"namesrvAddr=" + n.namesrvAddr(),
		"storePathRootDir=" + filepath.Join(n.dir, "store"),
		"flushDiskType=" + flush,
		fmt.Sprintf("mappedFileSizeCommitLog=%d", n.segmentBytes),
		"waitTimeMillsInSendQueue=3000", // its 200 ms are too short for a JVM that shares two cores
		"timerWheelEnable=false",
	}, "\n") + "\n"
}

// ready: the broker is in the route of the topic template, which every client may ask for.
func (*stockTarget) ready(n *node) error {
	if err := n.routed("TBW102"); err != nil {
		return err
	}
	return listening(n.brokerAddr())
}

func (s *stockTarget) cleanup(*node) {
	if s.namesrv != nil {
		s.namesrv.kill()
		s.namesrv = nil
	}
}
