// Command compare measures SYNC_FLUSH and ASYNC_FLUSH of a built node and the bare write+fdatasync loop on the same disk, in
// interleaved rounds, because the speed of a shared disk changes by the minute: only ratios within one round mean
// anything. It prints one line a round and the medians.
//
//	go run ./perf/compare -bin bin/ringmq -rounds 5
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"ringmq/perf/floor"
	"ringmq/perf/load"
)

func main() {
	bin := flag.String("bin", "bin/ringmq", "the node's binary")
	dir := flag.String("dir", "", "folder for data, on the disk to measure (default: a temporary one here)")
	rounds := flag.Int("rounds", 3, "interleaved rounds")
	span := flag.Duration("for", 5*time.Second, "counted time of each measurement")
	conns := flag.Int("conns", 64, "connections")
	inFlight := flag.Int("inflight", 16, "requests under way on each connection")
	bytes := flag.Int("bytes", 1024, "body of a message")
	port := flag.Int("port", 21911, "port of the node under test; the name server takes the one above the next")
	flag.Parse()
	c := comparison{bin: *bin, port: *port, load: load.Send{Conns: *conns, InFlight: *inFlight, Bytes: *bytes, Warm: time.Second, For: *span}}
	if err := c.run(*dir, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

type comparison struct {
	bin  string
	port int
	load load.Send
}

// recordBytes is what a stored record takes beyond its body in this load: 91 fixed bytes, topic and properties.
const recordBytes = 250

func (c comparison) run(dir string, rounds int) error {
	dir, err := os.MkdirTemp(dir, "compare")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var ratios []float64
	fmt.Printf("%-6s %12s %12s %12s  %s\n", "round", "SYNC/s", "ASYNC/s", "floor/s", "SYNC / min(ASYNC, floor)")
	for round := 1; round <= rounds; round++ {
		var rate [3]float64
		for i, flush := range []string{"SYNC_FLUSH", "ASYNC_FLUSH"} {
			if rate[i], err = c.node(filepath.Join(dir, fmt.Sprint(round, flush)), flush); err != nil {
				return err
			}
		}
		bare := floor.Sync{Dir: dir, Batch: 1024, Bytes: c.load.Bytes + recordBytes, FileMax: 256 << 20, For: c.load.For}
		if rate[2], err = bare.PerSecond(); err != nil {
			return err
		}
		ratio := rate[0] / min(rate[1], rate[2])
		ratios = append(ratios, ratio)
		fmt.Printf("%-6d %12.0f %12.0f %12.0f  %.2f\n", round, rate[0], rate[1], rate[2], ratio)
	}
	slices.Sort(ratios)
	fmt.Printf("median of %d rounds: %.2f (from %.2f to %.2f)\n", rounds, ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1])
	return nil
}

// node starts a node on an empty directory, loads it, stops it, and returns acknowledged messages per second.
func (c comparison) node(dir, flush string) (float64, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	conf := filepath.Join(dir, "broker.conf")
	admin := fmt.Sprintf("127.0.0.1:%d", c.port+3)
	text := fmt.Sprintf("brokerName=bench\nbrokerIP1=127.0.0.1\nlistenPort=%d\nnamesrvListenPort=%d\nadminListen=%s\nstorePathRootDir=%s\nflushDiskType=%s\n",
		c.port, c.port+2, admin, filepath.Join(dir, "store"), flush)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return 0, err
	}
	node := exec.Command(c.bin, "serve", "-c", conf)
	node.Stderr = os.Stderr
	if err := node.Start(); err != nil {
		return 0, err
	}
	defer stop(node)
	if err := ready("http://" + admin + "/readyz"); err != nil {
		return 0, err
	}
	c.load.Addr = fmt.Sprintf("127.0.0.1:%d", c.port)
	r, err := c.load.Run(context.Background())
	if err != nil {
		return 0, err
	}
	if len(r.Refused) > 0 {
		fmt.Fprintf(os.Stderr, "compare: %s refused %v\n", flush, r.Refused)
	}
	return r.PerSecond(), nil
}

// ready polls until the node says that it serves, ten seconds at most.
func ready(url string) error {
	var last error
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get(url)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("%s: %s", url, strings.TrimSpace(resp.Status))
		}
		last = err
	}
	return fmt.Errorf("the node is not ready after 10 s: %w", last)
}

// stop ends the node that this command started and waits for it, so that rounds never overlap.
func stop(node *exec.Cmd) {
	_ = node.Process.Signal(syscall.SIGTERM)
	_ = node.Wait()
}
