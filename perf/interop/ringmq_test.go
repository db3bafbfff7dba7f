package interop

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// ringmqTarget runs this repository's node, set up by a broker.conf as an operator would write it.
type ringmqTarget struct{}

func (ringmqTarget) prepare() error {
	_, err := ringmqBinary()
	return err
}

func (ringmqTarget) start(n *node) (*process, error) {
	bin, err := ringmqBinary()
	if err != nil {
		return nil, err
	}
	conf := filepath.Join(n.dir, "broker.conf")
	if err := os.WriteFile(conf, []byte(ringmqConf(n)), 0o644); err != nil {
		return nil, err
	}
	return spawn(exec.Command(bin, "serve", "-c", conf), n.logFile())
}

func ringmqConf(n *node) string {
	lines := []string{
		"brokerName=" + brokerName,
		"enablePropertyFilter=true",
		"brokerClusterName=" + clusterName,
		"brokerIP1=127.0.0.1",
		fmt.Sprintf("listenPort=%d", n.ports.broker),
		fmt.Sprintf("adminListen=127.0.0.1:%d", n.admin),
		"storePathRootDir=" + filepath.Join(n.dir, "store"),
		fmt.Sprintf("mappedFileSizeCommitLog=%d", n.segmentBytes),
	}
	if n.foreignNamesrv {
		lines = append(lines, "namesrvAddr="+n.namesrvAddr())
	} else {
		lines = append(lines, fmt.Sprintf("namesrvListenPort=%d", n.ports.namesrv))
	}
	if n.flush != "" {
		lines = append(lines, "flushDiskType="+n.flush)
	}
	if n.delays != "" {
		lines = append(lines, "messageDelayLevel="+n.delays)
	}
	return strings.Join(lines, "\n") + "\n"
}

func (ringmqTarget) ready(n *node) error {
	c := http.Client{Timeout: time.Second}
	r, err := c.Get(fmt.Sprintf("http://127.0.0.1:%d/readyz", n.admin))
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz says %s", r.Status)
	}
	return nil
}

func (ringmqTarget) cleanup(*node) {}
