package nodetest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"ringmq/node/nodetest"
	"ringmq/store/vfs"
	"ringmq/store/vfs/memfs"
)

// lockFS calls back when a store takes its lock, the first thing that it does.
type lockFS struct {
	vfs.FS
	locked func()
}

func (f lockFS) Lock(name string) (io.Closer, error) {
	f.locked()
	return f.FS.Lock(name)
}

// TestNotReadyWhileStarting: while the store is opened, which can take long, the administration page answers
// that the node is alive and not ready.
func TestNotReadyWhileStarting(t *testing.T) {
	addr := fmt.Sprintf("127.0.0.1:%d", nodetest.FreePort(t))
	asked := false
	fsys := lockFS{memfs.New(1), func() {
		asked = true
		if status, text := get(t, "http://"+addr+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, "starting") {
			t.Errorf("ready: %d %q", status, text)
		}
		for _, page := range []string{"/healthz", "/metrics"} {
			if status, text := get(t, "http://"+addr+page); status != http.StatusOK {
				t.Errorf("%s: %d %q", page, status, text)
			}
		}
	}}
	nodetest.Start(t, nodetest.Setup{FS: fsys, Config: map[string]string{"adminListen": addr}})
	if !asked {
		t.Error("no lock was taken")
	}
	if status, text := get(t, "http://"+addr+"/readyz"); status != http.StatusOK {
		t.Errorf("started, and not ready: %d %q", status, text)
	}
}
