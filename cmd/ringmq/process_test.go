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
	"syscall"
	"testing"

	"ringmq/node/nodetest"
)

// asRingmq makes a process of the test binary a ringmq of its own.
const asRingmq = "RINGMQ_TEST_AS_RINGMQ"

func TestMain(m *testing.M) {
	if os.Getenv(asRingmq) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestServeOutlivesItsReader: the node runs as "ringmq serve 2>&1 | head" when head ends. The next thing that it has to say
// must not be its end, and it stops as if somebody still listened.
func TestServeOutlivesItsReader(t *testing.T) {
	dir := t.TempDir()
	port := nodetest.FreePort(t)
	cmd := exec.Command(os.Args[0], "serve", "--data", dir, "--listen", fmt.Sprint(port), "--namesrv-listen", fmt.Sprint(port+2),
		"--admin", "", "--advertise", "127.0.0.1")
	cmd.Env = append(os.Environ(), asRingmq+"=1")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	_ = write.Close()
	said := bufio.NewScanner(read)
	for said.Scan() && !strings.Contains(said.Text(), "ringmq.test consume") {
		t.Log(said.Text())
	}
	_ = read.Close()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the node ended with: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "abort")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the store was not closed: %v", err)
	}
}
