package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
	"ringmq/store/vfs/osfs"
)

// TestTermUnderLoad: a node that is told to stop while producers send finishes what it owes, closes its store and exits
// with 0, which it does only within its time. What it acknowledged is there afterwards.
func TestTermUnderLoad(t *testing.T) {
	dir, port := t.TempDir(), nodetest.FreePort(t)
	data := filepath.Join(dir, "data")
	conf := filepath.Join(dir, "broker.conf")
	text := fmt.Sprintf("storePathRootDir=%s\nlistenPort=%d\nnamesrvListenPort=%d\nadminListen=\nbindAddress=127.0.0.1\nadvertise=127.0.0.1\n"+
		"mappedFileSizeCommitLog=1048576\nmappedFileSizeConsumeQueue=6000\n", data, port, port+2)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "serve", "-c", conf)
	cmd.Env = append(os.Environ(), asRingmq+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	said := bufio.NewScanner(out)
	for said.Scan() && !strings.Contains(said.Text(), "serves, after") {
		t.Log(said.Text())
	}

	load := &termLoad{stored: map[[2]int64]string{}, enough: make(chan struct{})}
	var senders sync.WaitGroup
	for id := range 4 {
		c := nodetest.Dial(t, fmt.Sprintf("127.0.0.1:%d", port))
		c.Send("T", int32(id), "first") // the topic is there from now on
		for lane := range 8 {
			senders.Go(func() { load.send(c, int32(id), lane) })
		}
	}
	<-load.enough
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for said.Scan() {
		t.Log(said.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the node ended with: %v", err)
	}
	senders.Wait()
	if _, err := os.Stat(filepath.Join(data, "abort")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the store was not closed: %v", err)
	}
	load.check(t, data)
}

// termLoad is what producers were told.
type termLoad struct {
	mu     sync.Mutex
	stored map[[2]int64]string // bodies by queue and offset
	enough chan struct{}       // closed when there are some
}

// send sends until it is refused or the connection is gone.
func (l *termLoad) send(c *nodetest.Client, id int32, lane int) {
	for i := 0; ; i++ {
		body := fmt.Sprintf("%d/%d/%d", id, lane, i)
		ans, err := c.Try(nodetest.NewRequest(wire.SendMessageV2, nodetest.SendHeader("T", id), []byte(body)))
		if err != nil || ans.Code != wire.Success {
			return
		}
		var h wire.SendAnswer
		if h.Parse(ans) != nil {
			return
		}
		l.mu.Lock()
		l.stored[[2]int64{int64(id), h.QueueOffset}] = body
		if len(l.stored) == 2000 {
			close(l.enough)
		}
		l.mu.Unlock()
	}
}

// check reads all of it from another node on the same directory.
func (l *termLoad) check(t *testing.T, data string) {
	t.Helper()
	n := nodetest.Start(t, nodetest.Setup{FS: osfs.New(osfs.Options{}), RealTime: true, Config: map[string]string{"storePathRootDir": data}})
	c := n.Client()
	for id := range int32(4) {
		for at := int64(0); ; {
			records, _ := c.Pull("G", "T", id, at)
			if len(records) == 0 {
				break
			}
			for _, r := range records {
				place := [2]int64{int64(id), r.QueueOffset}
				if body, ok := l.stored[place]; ok && body != string(r.Body) {
					t.Errorf("at %v there is %q, %q was acknowledged there", place, r.Body, body)
				}
				delete(l.stored, place)
				at = r.QueueOffset + 1
			}
		}
	}
	if len(l.stored) > 0 {
		t.Errorf("%d acknowledged messages are gone", len(l.stored))
	}
}
