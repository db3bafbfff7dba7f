package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net"
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
		if err := confine(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		main()
		return
	}
	os.Exit(m.Run())
}

// TestSecondSignal: a node that takes its time to stop, here because of a name server that does not answer, ignored
// every further SIGTERM. The second one ends it at once, and it says so.
func TestSecondSignal(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes connections; nobody reads them
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	conf := filepath.Join(t.TempDir(), "broker.conf")
	text := fmt.Sprintf("storePathRootDir=%s\nlistenPort=%d\nnamesrvAddr=%s\nregisterBrokerTimeoutMills=60000\nadminListen=\n"+
		"bindAddress=127.0.0.1\nadvertise=127.0.0.1\n", t.TempDir(), nodetest.FreePort(t), mute.Addr())
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "serve", "-c", conf)
	cmd.Env = append(os.Environ(), asRingmq+"=1")
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	said := bufio.NewScanner(out)
	for _, line := range []string{"serves, after", "stopping"} {
		for said.Scan() && !strings.Contains(said.Text(), line) {
			t.Log(said.Text())
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	for said.Scan() {
		t.Errorf("it went on to say %q", said.Text())
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 128+int(syscall.SIGTERM) {
		t.Errorf("the node ended with: %v", err)
	}
	if !strings.Contains(complaints.String(), "ringmq: terminated a second time: ended at once") {
		t.Errorf("it said:\n%s", &complaints)
	}
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
