package rigtest

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDiskFull fills the disk. Sends are refused for want of room, and everything that was acknowledged
// can still be read; when somebody removes a file, sends go on without a restart. Then the process is
// killed on the disk that is full again. The next one may need room to open; given some, it shows all that
// was promised.
func TestDiskFull(t *testing.T) {
	eachDisk(t, func(t *testing.T, fs string) {
		eachEngine(t, func(t *testing.T, e engine) {
			seed := newSeed(t)
			rng := rand.New(rand.NewPCG(seed, 0))
			dir := t.TempDir()
			mountTmpfs(t, dir, diskBytes[fs]+1<<20)
			disk := newImage(t, fs, dir, diskBytes[fs])
			for n := range rounds(1, 5) {
				t.Logf("round %d", n)
				diskFullRound(t, e, disk, rng)
			}
		})
	})
}

func diskFullRound(t *testing.T, e engine, disk *image, rng *rand.Rand) {
	dir, filler := filepath.Join(disk.dir, "s"), filepath.Join(disk.dir, "filler")
	if err := errors.Join(os.RemoveAll(dir), os.RemoveAll(filler), os.RemoveAll(filler+".more")); err != nil {
		t.Fatal(err)
	}
	disk.leave(filler, 12<<20+rng.Int64N(1<<20))
	disk.leave(filler+".more", 8<<20) // takes 4 MiB or so
	l := newLedger()
	j := job{Dir: dir, Load: true, Engine: e.ask, Deny: e.deny, SegmentBytes: 256 << 10, Seed: rng.Uint64()}

	p := start(t, l, j)
	p.wantEngine(e)
	p.awaitFull(1, 0)
	acked := p.soFar().acked
	if err := os.Remove(filler + ".more"); err != nil {
		t.Fatal(err)
	}
	p.tell('r')
	p.awaitFull(2, acked+1000)
	p.kill()
	disk.mayBeFull(t, l, e, j, filler)
	checkAll(t, l, e, j).close()
	disk.cycle()
	checkAll(t, l, e, j).close()
	t.Logf("%d messages were promised", len(l.promised))
}

// awaitFull waits until the child is refused after acked acknowledgements at least, and has it pause then,
// for the n-th time: all that was acknowledged must be there to be read.
func (p *process) awaitFull(n, acked int) {
	p.t.Helper()
	p.await("a refusal for want of room", func(r *report) bool { return r.full > 0 && r.ackedAtFull >= acked })
	p.tell('p')
	p.awaitRead(n)
	p.wantAllAckedRead()
}

// mayBeFull opens the store on the full disk. It may need room to recover; then it says so, and goes when
// there is some.
func (m *image) mayBeFull(t *testing.T, l *ledger, e engine, j job, filler string) {
	t.Helper()
	j.Load = false
	p := start(t, l, j)
	p.await("an open store, or a reason", func(r *report) bool { return r.open || r.refused != "" })
	p.kill()
	if why := p.soFar().refused; why != "" {
		t.Logf("not opened on the full disk: %s", why)
	}
	if err := os.Truncate(filler, 0); err != nil {
		t.Fatal(err)
	}
}

// leave makes a file that takes all but n bytes of the disk's room.
func (m *image) leave(name string, n int64) {
	m.t.Helper()
	var st unix.Statfs_t
	err := unix.Statfs(m.dir, &st)
	if err != nil {
		m.t.Fatal(err)
	}
	f, err := os.Create(name)
	if err == nil {
		take := int64(st.Bavail)*st.Frsize - n
		err = errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, take), f.Sync(), f.Close())
	}
	if err != nil {
		m.t.Fatalf("fill %s: %v", name, err)
	}
}
