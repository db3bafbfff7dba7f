package rigtest

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestPowerCut cuts the power of a store under load. Whatever it acknowledged or showed is there when the
// power is back; after the cut it acknowledged nothing. Then, on the same disk:
//
//   - a cut right after recovery, before any append: what recovery showed is there again
//   - a kill, and a cut right after the recovery from that: what the killed process had left in the page
//     cache, and the next one has shown, is on the disk
func TestPowerCut(t *testing.T) {
	eachDisk(t, func(t *testing.T, fs string) {
		eachEngine(t, func(t *testing.T, e engine) {
			seed := newSeed(t)
			rng := rand.New(rand.NewPCG(seed, 0))
			dir := t.TempDir()
			mountTmpfs(t, dir, diskBytes[fs]+1<<20)
			disk := newImage(t, fs, dir, diskBytes[fs])
			for n := range rounds(1, 20) {
				t.Logf("round %d", n)
				powerCutRound(t, e, disk, rng)
			}
		})
	})
}

func powerCutRound(t *testing.T, e engine, disk *image, rng *rand.Rand) {
	dir := filepath.Join(disk.dir, "s")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	l := newLedger()
	j := job{Dir: dir, Engine: e.ask, Deny: e.deny, SegmentBytes: 1 << 20}

	cutUnderLoad(t, l, e, j, disk, rng)
	p := checkAll(t, l, e, j)
	disk.cut()
	p.kill()
	disk.cycle()
	checkAll(t, l, e, j).kill()

	lazy := j
	lazy.Async = true // leaves the most in the page cache
	killUnderLoad(t, l, e, lazy, rng)
	p = checkAll(t, l, e, j)
	disk.cut()
	p.kill()
	disk.cycle()
	p = checkAll(t, l, e, j)
	if rng.IntN(2) == 0 {
		p.close()
	} else {
		p.kill()
	}

	cutUnderLoad(t, l, e, j, disk, rng) // and once more on what all that left
	checkAll(t, l, e, j).close()
	t.Logf("%d messages were promised", len(l.promised))
}

// cutUnderLoad cuts the power at a random moment and switches it on again.
func cutUnderLoad(t *testing.T, l *ledger, e engine, j job, disk *image, rng *rand.Rand) {
	j.Load, j.Seed = true, rng.Uint64()
	p := start(t, l, j)
	p.wantEngine(e)
	p.awaitAcks(1 + rng.IntN(2000))
	disk.cut()
	p.tell('c')
	p.awaitEnd()
	p.kill()
	disk.cycle()
}

// killUnderLoad kills the process at a random moment.
func killUnderLoad(t *testing.T, l *ledger, e engine, j job, rng *rand.Rand) {
	j.Load, j.Seed = true, rng.Uint64()
	p := start(t, l, j)
	p.wantEngine(e)
	p.awaitAcks(1 + rng.IntN(2000))
	p.kill()
}
