package nodetest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// Ports come from below 32768, where the kernel takes the ports of outgoing connections from, and
// from above what services usually have. Each process has a range of its own, so that nobody takes
// a port between two servers that a test starts on it one after the other. A broker needs port-2,
// port+1 and port+2 besides its own, a comparison port+4: a block has eight.
const (
	firstPort  = 12000
	lastPort   = 32000
	portRange  = 400
	portBlock  = 8
	lockPrefix = "ringmq-ports-"
)

// ports are those of this process.
var ports struct {
	sync.Mutex
	first int          // of the range, 0 before the first call
	lock  *os.File     // tells other processes; goes with the process
	held  map[int]bool // given to a test that runs
}

// FreePort returns a port p so that p-2 to p+5 can be listened on; they are the test's until it ends.
func FreePort(t testing.TB) int {
	t.Helper()
	p, err := freePort(true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ports.Lock()
		defer ports.Unlock()
		delete(ports.held, p)
	})
	return p
}

// freePort returns a port that is free at this moment. If it is not held, another test of the process
// may be faster, so that the caller tries again when its node finds it taken.
func freePort(hold bool) (int, error) {
	ports.Lock()
	defer ports.Unlock()
	if ports.first == 0 {
		if err := takeRange(); err != nil {
			return 0, err
		}
	}
	const blocks = portRange / portBlock
	for i, start := 0, rand.IntN(blocks); i < blocks; i++ {
		p := ports.first + (start+i)%blocks*portBlock + 2
		if !ports.held[p] && canListen(p-2) && canListen(p) && canListen(p+1) && canListen(p+2) && canListen(p+4) {
			if hold {
				ports.held[p] = true
			}
			return p, nil
		}
	}
	return 0, fmt.Errorf("nodetest: no free ports from %d to %d", ports.first, ports.first+portRange-1)
}

// takeRange locks a range that no other process has. The caller holds the lock.
func takeRange() error {
	const ranges = (lastPort - firstPort) / portRange
	for i, start := 0, rand.IntN(ranges); i < ranges; i++ {
		first := firstPort + (start+i)%ranges*portRange
		f, err := os.OpenFile(filepath.Join(os.TempDir(), fmt.Sprint(lockPrefix, first)), os.O_CREATE|os.O_RDWR, 0o666)
		if err != nil {
			continue // another user's
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			ports.first, ports.lock, ports.held = first, f, map[int]bool{}
			return nil
		}
		_ = f.Close()
	}
	return fmt.Errorf("nodetest: other processes have all ranges of ports from %d to %d", firstPort, lastPort)
}

func canListen(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
