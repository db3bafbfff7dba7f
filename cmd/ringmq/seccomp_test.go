package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ringmq/node/nodetest"
	"ringmq/store/vfs/vfstest"
	"ringmq/uring"
)

// allowedCalls has a process of the test binary begin under a filter that refuses all but these system calls, by number.
const allowedCalls = "RINGMQ_TEST_ALLOWED_CALLS"

// confine puts the filter on, if it is asked for.
func confine() error {
	text := os.Getenv(allowedCalls)
	if text == "" {
		return nil
	}
	var allowed []uint32
	for word := range strings.SplitSeq(text, ",") {
		nr, err := strconv.ParseUint(word, 10, 32)
		if err != nil {
			return err
		}
		allowed = append(allowed, uint32(nr))
	}
	return vfstest.DenyOthers(unix.EPERM, allowed)
}

// profile returns the numbers, on this machine, of the calls that docs/operate/seccomp-ringmq.json permits, but for those
// left out. Names that this architecture does not have are passed over, as container engines do.
func profile(t *testing.T, without string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operate/seccomp-ringmq.json")
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		DefaultAction string
		Syscalls      []struct {
			Names  []string
			Action string
		}
	}
	if err := json.Unmarshal(text, &p); err != nil || p.DefaultAction != "SCMP_ACT_ERRNO" {
		t.Fatal(err, p.DefaultAction)
	}
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "unix", "zsysnum_linux_"+runtime.GOARCH+".go"))
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[string]string{}
	for _, m := range regexp.MustCompile(`SYS_(\w+)\s+= (\d+)`).FindAllStringSubmatch(string(table), -1) {
		numbers[strings.ToLower(m[1])] = m[2]
	}
	var allowed []string
	for _, s := range p.Syscalls {
		if s.Action != "SCMP_ACT_ALLOW" {
			t.Errorf("action %s", s.Action)
		}
		for _, name := range s.Names {
			if nr := numbers[name]; nr != "" && !strings.HasPrefix(name, without) {
				allowed = append(allowed, nr)
			}
		}
	}
	return strings.Join(allowed, ",")
}

// TestSeccompProfile: under the profile of docs/operate a node does all that it does without, in the ring; and where the
// profile lacks io_uring, as those of container engines do, it does it all without a ring.
func TestSeccompProfile(t *testing.T) {
	canRing := 0
	if r, err := uring.NewRing(1); err == nil {
		canRing = 1
		r.Close()
	}
	for name, c := range map[string]struct {
		without string
		ring    int
	}{"as it is": {"none", canRing}, "without io_uring": {"io_uring", 0}} {
		t.Run(name, func(t *testing.T) {
			port := nodetest.FreePort(t)
			dir := t.TempDir()
			cmd := exec.Command(os.Args[0], "serve", "--data", dir, "--listen", fmt.Sprint(port), "--namesrv-listen", fmt.Sprint(port+2), "--admin", fmt.Sprint("127.0.0.1:", port+4), "--advertise", "127.0.0.1")
			cmd.Env = append(os.Environ(), asRingmq+"=1", allowedCalls+"="+profile(t, c.without))
			var said strings.Builder
			cmd.Stderr, cmd.Stdout = &said, &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			page := func(name string) string {
				resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/%s", port+4, name))
				if err != nil {
					return ""
				}
				defer resp.Body.Close()
				text, _ := io.ReadAll(resp.Body)
				return string(text)
			}
			nodetest.Until(t, "it is ready", func() bool { return strings.HasPrefix(page("readyz"), "ok") })
			addr := fmt.Sprint("127.0.0.1:", port)
			for _, args := range [][]string{{"send", "--conns", "4"}, {"pull", "--consumers", "2"}, {"e2e", "--rate", "100"}} {
				if out, err := benchOutput(t, append(args, "--addr", addr, "--for", "300ms", "--warm", "0s")...); err != nil {
					t.Errorf("%v: %v\n%s", args, err, out)
				}
			}
			metrics := page("metrics")
			if m := regexp.MustCompile(`(?m)^ringmq_store_ring\{.*\} (\d)$`).FindStringSubmatch(metrics); m == nil || m[1] != fmt.Sprint(c.ring) {
				t.Errorf("ringmq_store_ring: %q, want %d", m, c.ring)
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil || !strings.Contains(said.String(), "everything is on the disk") {
				t.Errorf("stop: %v\n%s", err, &said)
			}
			if strings.Contains(said.String(), "level=ERROR") || c.ring == 1 && strings.Contains(said.String(), "not permitted") {
				t.Errorf("the log says %s", &said)
			}
		})
	}
}
