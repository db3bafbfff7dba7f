package interop

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

// Switches of the suite; README.md lists them.
var (
	targetName = envOr("RINGMQ_INTEROP_TARGET", "ringmq")
	strict     = os.Getenv("RINGMQ_INTEROP_STRICT") == "1"
	keep       = os.Getenv("RINGMQ_INTEROP_KEEP") == "1"
)

// workDir holds all that a run writes: node data, logs, client state. Set before the first test.
var workDir string

func TestMain(m *testing.M) {
	flag.Parse()
	if !given("test.parallel") {
		flag.Set("test.parallel", "8") // stories mostly wait, also on a machine with two cores
	}
	os.Exit(run(m))
}

// given tells whether a flag was set on the command line.
func given(name string) bool {
	found := false
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

func run(m *testing.M) int {
	var err error
	if workDir, err = os.MkdirTemp("", "ringmq-interop-"); err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		return 1
	}
	if keep {
		fmt.Println("interop: keeping", workDir)
	} else {
		defer os.RemoveAll(workDir)
	}
	// The Go client's words, errors during a planned kill among them, go to a file beside the node's log.
	rlog.SetLogLevel("error")
	if err := rlog.SetOutputPath(filepath.Join(workDir, "client-go.log")); err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		return 1
	}
	defer stopShared()
	return m.Run()
}

// ringmqBinary is the node under test: RINGMQ_BIN, else built from this repository once per run.
var ringmqBinary = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv("RINGMQ_BIN"); bin != "" {
		return filepath.Abs(bin)
	}
	bin := filepath.Join(workDir, "ringmq")
	build := exec.Command("go", "build", "-o", bin, "./cmd/ringmq")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build ringmq: %w\n%s", err, out)
	}
	return bin, nil
})

// errMissing marks what this machine lacks; anything else that goes wrong is a failure.
var errMissing = errors.New("missing on this machine")

// need ends a test for err, unless that is nil: what is missing here is skipped with word of what to install, or
// failed where RINGMQ_INTEROP_STRICT=1 promises that nothing is skipped.
func need(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, errMissing) && !strict:
		t.Skip(err)
	default:
		t.Fatal(err)
	}
}

func envOr(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}
