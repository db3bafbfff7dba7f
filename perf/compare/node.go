package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ringmq/netio/remoting"
	"ringmq/netio/wire"
)

// server is a process under load that this command started: a node, or the bare loop of one.
type server struct {
	cmd  *exec.Cmd
	addr string
	page string // URL of its numbers, of a node only
}

// startNode starts a node on an empty directory and returns when it serves. settings are lines of broker.conf.
func (c comparison) startNode(dir, flush string, settings ...string) (*server, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	admin := fmt.Sprintf("127.0.0.1:%d", c.port+4)
	conf := filepath.Join(dir, "broker.conf")
	lines := append([]string{
		"brokerName=bench", "brokerIP1=127.0.0.1", fmt.Sprint("listenPort=", c.port), fmt.Sprint("namesrvListenPort=", c.port+2),
		"adminListen=" + admin, "storePathRootDir=" + filepath.Join(dir, "store"), "flushDiskType=" + flush,
	}, settings...)
	if err := os.WriteFile(conf, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return nil, err
	}
	s := &server{addr: fmt.Sprint("127.0.0.1:", c.port), page: "http://" + admin}
	up := func() error {
		_, err := get(s.page + "/readyz")
		return err
	}
	if c.firstMessage {
		up = s.sendOne
	}
	return s, s.start(exec.Command(c.bin, "serve", "--log", "warn", "-c", conf), up)
}

// sendOne sends a message to a topic that the node makes for it.
func (s *server) sendOne() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := remoting.Dial(ctx, s.addr, remoting.Options{})
	if err != nil {
		return err
	}
	defer conn.Close()
	var cmd wire.Command
	cmd.Request(wire.SendMessageV2, 0)
	(&wire.SendRequest{
		ProducerGroup: []byte("first"), Topic: []byte("First"), DefaultTopic: []byte("TBW102"), DefaultTopicQueueNums: 8,
		BornTimestamp: time.Now().UnixMilli(),
	}).Append(&cmd)
	cmd.Body = []byte("hello")
	a, err := conn.Call(ctx, &cmd)
	if err == nil && a.Code != wire.Success {
		err = fmt.Errorf("send: code %d: %s", a.Code, a.Remark)
	}
	return err
}

// startBare starts the bare loop in a process of its own; without dir it has no disk.
func (c comparison) startBare(dir string) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &server{addr: fmt.Sprint("127.0.0.1:", c.port)}
	return s, s.start(exec.Command(self, "-bare", s.addr, "-dir", dir), s.dial)
}

// dial tells whether somebody listens.
func (s *server) dial() error {
	conn, err := remoting.Dial(context.Background(), s.addr, remoting.Options{})
	if err == nil {
		err = conn.Close()
	}
	return err
}

// start polls until up returns nil; a server that does not come up is ended.
func (s *server) start(cmd *exec.Cmd, up func() error) error {
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd = cmd
	const wait = 30 * time.Second
	var err error
	for end := time.Now().Add(wait); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if err = up(); err == nil {
			return nil
		}
	}
	s.stop()
	return fmt.Errorf("%s does not serve after %v: %w", filepath.Base(cmd.Path), wait, err)
}

// stop ends the server that this command started and waits for it, so that rounds never overlap.
func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	_ = s.cmd.Wait()
}

func (s *server) pid() int { return s.cmd.Process.Pid }

// number is one of the numbers that a node shows.
func (s *server) number(name string) (float64, error) {
	page, err := get(s.page + "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(page) { // name{labels} value
		full, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		if before, _, _ := bytes.Cut(full, []byte("{")); string(before) == name {
			return strconv.ParseFloat(string(value), 64)
		}
	}
	return 0, fmt.Errorf("%s/metrics shows no %s", s.page, name)
}

func get(url string) ([]byte, error) {
	resp, err := http.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, resp.Status)
	}
	return body, err
}
