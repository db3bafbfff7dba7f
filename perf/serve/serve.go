// Package serve starts servers that are to be measured, as processes of their own: a node, a stock broker, a bare loop.
package serve

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

// Server is a process that this one started.
type Server struct {
	Addr string // host:port where clients go
	Page string // URL of its numbers, of a node only
	cmd  *exec.Cmd
}

// Node starts a node with its data below dir and returns when it says that it is ready, or, with first, when it has
// answered a first send to a topic that does not exist. It takes port and the ones 2 before, 2 and 4 after it. settings
// are lines of broker.conf.
func Node(bin, dir string, port int, flush string, first bool, settings ...string) (*Server, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	admin := fmt.Sprintf("127.0.0.1:%d", port+4)
	conf := filepath.Join(dir, "broker.conf")
	lines := append([]string{
		"brokerName=bench", "brokerIP1=127.0.0.1", fmt.Sprint("listenPort=", port), fmt.Sprint("namesrvListenPort=", port+2),
		"adminListen=" + admin, "storePathRootDir=" + filepath.Join(dir, "store"), "flushDiskType=" + flush,
	}, settings...)
	if err := os.WriteFile(conf, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return nil, err
	}
	s := &Server{Addr: fmt.Sprint("127.0.0.1:", port), Page: "http://" + admin}
	up := func() error {
		_, err := get(s.Page + "/readyz")
		return err
	}
	if first {
		up = s.SendOne
	}
	return s, s.Start(exec.Command(bin, "serve", "--log", "warn", "-c", conf), up)
}

// SendOne sends a message to a topic that the node makes for it.
func (s *Server) SendOne() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := remoting.Dial(ctx, s.Addr, remoting.Options{})
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

// Dial tells whether somebody listens.
func (s *Server) Dial() error {
	conn, err := remoting.Dial(context.Background(), s.Addr, remoting.Options{})
	if err == nil {
		err = conn.Close()
	}
	return err
}

// Start starts a process and polls until up returns nil; a server that does not come up is ended.
func (s *Server) Start(cmd *exec.Cmd, up func() error) error {
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd = cmd
	const wait = 60 * time.Second // a JVM on a busy machine
	var err error
	for end := time.Now().Add(wait); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if err = up(); err == nil {
			return nil
		}
	}
	s.Stop()
	return fmt.Errorf("%s does not serve after %v: %w", filepath.Base(cmd.Path), wait, err)
}

// Stop ends the server that was started and waits for it, so that rounds never overlap.
func (s *Server) Stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	_ = s.cmd.Wait()
}

// PID is its process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Number is one of the numbers that a node shows.
func (s *Server) Number(name string) (float64, error) { return s.Labelled(name, "") }

// Labelled is the one of them with a label, such as by="copy".
func (s *Server) Labelled(name, label string) (float64, error) {
	page, err := get(s.Page + "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(page) { // name{labels} value
		full, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		if before, _, _ := bytes.Cut(full, []byte("{")); string(before) == name && bytes.Contains(full, []byte(label)) {
			return strconv.ParseFloat(string(value), 64)
		}
	}
	return 0, fmt.Errorf("%s/metrics shows no %s %s", s.Page, name, label)
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
