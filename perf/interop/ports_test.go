package interop

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports of one node. A broker at B also takes B−2 (its second listener) and by default B+1 (replication), so a block
// of eight keeps them apart from the neighbours'. All stay below 32768, where the kernel picks ports of its own.
type ports struct {
	broker, namesrv, admin int
}

const (
	portBlock = 8
	portFirst = 20000
	portLimit = 32768
)

// taken guards the blocks handed out by this process.
var taken struct {
	sync.Mutex
	bases map[int]bool
}

// allocatePorts finds a block in which nothing listens. Another process may still take a port before the node does;
// the random start makes that unlikely.
func allocatePorts() (ports, error) {
	taken.Lock()
	defer taken.Unlock()
	if taken.bases == nil {
		taken.bases = map[int]bool{}
	}
	blocks := (portLimit - portFirst) / portBlock
	start := rand.IntN(blocks)
	for i := range blocks {
		base := portFirst + (start+i)%blocks*portBlock
		if !taken.bases[base] && free(base) == nil {
			taken.bases[base] = true
			return ports{broker: base + 2, namesrv: base + 4, admin: base + 5}, nil
		}
	}
	return ports{}, errors.New("interop: no free block of ports below 32768")
}

func free(base int) error {
	for p := base; p < base+portBlock; p++ {
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", p))
		if err != nil {
			return err
		}
		l.Close()
	}
	return nil
}
