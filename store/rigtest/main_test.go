package rigtest

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringmq/store/vfs/osfs"
)

const (
	jobEnv       = "RINGMQ_RIG_JOB"       // makes the test binary a child
	namespaceEnv = "RINGMQ_RIG_NAMESPACE" // it runs in a mount namespace of its own
	denyEnv      = "RINGMQ_RIG_DENY"      // io_uring is forbidden to the whole of it
)

func TestMain(m *testing.M) {
	if job := os.Getenv(jobEnv); job != "" {
		os.Exit(childMain(job))
	}
	if os.Getenv(namespaceEnv) == "" {
		if err := enterNamespace(); err != nil {
			noNamespace = err
		}
	}
	if os.Getenv(denyEnv) != "" {
		if err := denyRing(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// noNamespace says why nothing can be mounted here, nil if it can.
var noNamespace error

// enterNamespace starts the binary again, as the same process, where nobody else sees its mounts and the
// kernel removes them when it ends. It returns only with an error.
func enterNamespace() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("no mount namespace, which takes root: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("no private mounts: %w", err)
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(exe, os.Args, append(os.Environ(), namespaceEnv+"=1"))
}

// engines are the ways a store flushes: each rig runs with all of them.
var engines = []engine{
	{name: "uring", ask: osfs.URing, want: "io_uring"},
	{name: "posix", ask: osfs.POSIX, want: "posix"},
	{name: "denied", ask: osfs.Auto, want: "posix", deny: true},
}

type engine struct {
	name string
	ask  osfs.IOEngine
	want string // the name of the engine that it must get
	deny bool   // io_uring is forbidden by seccomp
}

// eachEngine runs f with each engine that the machine has.
func eachEngine(t *testing.T, f func(t *testing.T, e engine)) {
	for _, e := range engines {
		t.Run("engine="+e.name, func(t *testing.T) {
			t.Parallel()
			if e.ask == osfs.URing {
				probe, err := osfs.New(osfs.Options{IOEngine: osfs.URing}).NewEngine()
				if err != nil {
					t.Skip("no ring on this machine: ", err)
				}
				if err := probe.Close(); err != nil {
					t.Fatal(err)
				}
			}
			f(t, e)
		})
	}
}

// rounds is how often a rig does its thing: few in a test, many in a proof.
func rounds(test, proof int) int {
	if os.Getenv("RINGMQ_PROVE") != "" {
		return proof
	}
	return test
}

// memoryDir is a directory where a flush costs nothing: in memory, if something can be mounted.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if noNamespace == nil {
		mountTmpfs(t, dir, 1<<30)
	}
	return dir
}

// newSeed gives the seed of a test, and prints it.
func newSeed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("RINGMQ_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("RINGMQ_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("RINGMQ_SEED=%d", seed)
	return seed
}
