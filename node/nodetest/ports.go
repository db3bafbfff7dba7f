package nodetest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports come from below 32768, where the kernel takes the ports of outgoing connections from, and
// from above what services usually have. A broker needs port-2 and port+1 besides its own.
const (
	firstPort = 12000
	lastPort  = 32000
)

// FreePort returns a port p so that p-2, p, p+1 and p+2 can be listened on at this moment. Another
// process may still be faster, so that the caller tries again when its node finds a port taken.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 200 {
		p := firstPort + rand.IntN((lastPort-firstPort)/8)*8
		if canListen(p-2) && canListen(p) && canListen(p+1) && canListen(p+2) {
			return p
		}
	}
	t.Fatalf("nodetest: no free ports from %d to %d", firstPort, lastPort)
	return 0
}

func canListen(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
