package rigtest

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"
)

// TestKill kills the process under load, again and again on one directory with tiny segments, so that
// kills meet rolls, new files and checkpoints. What a process gave to the kernel outlives it: with
// ASYNC_FLUSH too nothing that was acknowledged or shown is lost.
func TestKill(t *testing.T) {
	eachEngine(t, func(t *testing.T, e engine) {
		for _, async := range []bool{false, true} {
			t.Run(fmt.Sprintf("async=%v", async), func(t *testing.T) {
				seed := newSeed(t)
				rng := rand.New(rand.NewPCG(seed, 0))
				var l *ledger
				j := job{Engine: e.ask, Deny: e.deny, Async: async, SegmentBytes: 64 << 10}
				dir := memoryDir(t)
				for n := range rounds(4, 60) {
					if n%10 == 0 { // a full reading takes longer each time
						j.Dir, l = filepath.Join(dir, strconv.Itoa(n)), newLedger()
					}
					t.Logf("round %d", n)
					killUnderLoad(t, l, e, j, rng)
					if rng.IntN(2) == 0 {
						killWhileOpening(t, l, j, rng)
					}
					checkAll(t, l, e, j).kill()
				}
			})
		}
	})
}

// killWhileOpening kills a process somewhere in its recovery, or soon after it.
func killWhileOpening(t *testing.T, l *ledger, j job, rng *rand.Rand) {
	reports := rng.IntN(3)
	p := start(t, l, j)
	p.await("a few reports", func(r *report) bool { return len(r.logs)+len(r.found) >= reports })
	p.kill()
}
