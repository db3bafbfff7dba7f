package main

import (
	"fmt"
	"os"
	"os/exec"

	"ringmq/perf/serve"
)

// server is a process under load: a node, or the bare loop of one.
type server = serve.Server

// startNode starts a node and returns when it serves. settings are lines of broker.conf.
func (c comparison) startNode(dir, flush string, settings ...string) (*server, error) {
	return serve.Node(c.bin, dir, c.port, flush, c.firstMessage, settings...)
}

// startBare starts the bare loop in a process of its own; without dir it has no disk.
func (c comparison) startBare(dir string) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &server{Addr: fmt.Sprint("127.0.0.1:", c.port)}
	return s, s.Start(exec.Command(self, "-bare", s.Addr, "-dir", dir), s.Dial)
}
