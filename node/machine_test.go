package node

import (
	"testing"

	"ringmq/netio"
)

// TestBoundsFitTheMachine: an operator who gives a container 256 MiB must not find 512 MiB of buffers in it, and one whose
// descriptors are few must get refused connections, not a log that cannot open its next segment.
func TestBoundsFitTheMachine(t *testing.T) {
	var large, small netio.Options
	fit(&large, 64<<30, 1<<20)
	if large.MaxInBytes != 256<<20 || large.MaxOutBytes != 256<<20 || large.MaxConns != 65536 {
		t.Errorf("a large machine has %+v", large)
	}
	fit(&small, 256<<20, 1024)
	if small.MaxInBytes > 64<<20 || small.MaxOutBytes > 64<<20 || small.MaxConnOutBytes > 16<<20 || small.MaxConns != 256 {
		t.Errorf("a small machine has %+v", small)
	}
	small.Addrs = []string{"127.0.0.1:0"}
	if err := small.Check(); err != nil {
		t.Errorf("the bounds of a small machine are refused: %v", err)
	}
}
