package rigtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	pageBytes    = 4096
	segmentBytes = 1 << 20
)

// TestLostPage has the write-back of single pages of the log fail, once, while all others succeed. The
// kernel reports that to each open file description once and forgets it; the page cache keeps what the
// disk does not have. So: no message at or behind the lost page is acknowledged or shown, ever; reads of
// what is before it go on; and a process that starts afterwards on the same page cache, with the disk in
// order again, shows nothing that a power cut then takes away.
func TestLostPage(t *testing.T) {
	eachDisk(t, func(t *testing.T, fs string) {
		eachEngine(t, func(t *testing.T, e engine) {
			seed := newSeed(t)
			rng := rand.New(rand.NewPCG(seed, 0))
			disk := newSparseDisk(t, fs)
			for n := range rounds(2, 35) {
				t.Logf("round %d", n)
				lostPageRound(t, e, disk, rng)
			}
		})
	})
}

func lostPageRound(t *testing.T, e engine, disk *sparseDisk, rng *rand.Rand) {
	dir := filepath.Join(disk.dir, "s")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	l := newLedger()
	j := job{Dir: dir, Load: true, Engine: e.ask, Deny: e.deny, SegmentBytes: segmentBytes, Seed: rng.Uint64()}

	p := start(t, l, j)
	p.wantEngine(e)
	p.awaitAcks(1 + rng.IntN(300))
	p.tell('p')
	p.awaitRead(1)
	lost := disk.lose(filepath.Join(dir, "commitlog"), p.soFar().paused[0], rng)
	p.tell('r')
	p.await("the log to fail", func(r *report) bool { return r.failed != nil || r.ackedEnd > lost })
	if end := p.soFar().ackedEnd; end > lost {
		p.fatal(fmt.Sprintf("acknowledged up to %d, and the disk has lost the page at %d", end, lost))
	}
	p.holdToEnd()
	p.awaitRead(2)
	p.wantAllAckedRead()
	disk.fill()
	p.kill()

	checkAll(t, l, e, j).kill() // what this one shows is promised, too
	disk.cut()
	disk.cycle()
	checkAll(t, l, e, j).close()
}

// sparseDisk is an image in a tmpfs that is full: a page of the image that is punched out of it cannot be
// written again, and only that page.
type sparseDisk struct {
	*image
	filler string // takes what room there is in the tmpfs
}

func newSparseDisk(t *testing.T, fs string) *sparseDisk {
	t.Helper()
	dir := t.TempDir()
	mountTmpfs(t, dir, diskBytes[fs]+1<<20)
	d := &sparseDisk{image: newImage(t, fs, dir, diskBytes[fs]), filler: filepath.Join(dir, "filler")}
	d.fill()
	return d
}

// fill gives the image all its pages back.
func (d *sparseDisk) fill() {
	d.t.Helper()
	if err := os.Remove(d.filler); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.t.Fatal(err)
	}
	f, err := os.OpenFile(d.file, os.O_RDWR, 0)
	if err == nil {
		err = errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, diskBytes[d.fs]), f.Close())
	}
	if err != nil {
		d.t.Fatalf("fill %s: %v", d.file, err)
	}
}

// lose takes one page, or some, from under the log's files, all behind end, where the log ends and nothing
// but zeros was written yet. It returns the physical offset of the first. The log must not be written
// meanwhile.
func (d *sparseDisk) lose(commitlog string, end int64, rng *rand.Rand) (first int64) {
	d.t.Helper()
	from := (end + pageBytes - 1) / pageBytes * pageBytes
	first = -1
	for range 1 + rng.IntN(3) {
		page := from + rng.Int64N(64)*pageBytes
		at, err := d.place(commitlog, page)
		if errors.Is(err, os.ErrNotExist) { // the next segment is not there yet; where this one is full to its last page it is on its way
			page = from
			err = patiently(func() (err error) {
				at, err = d.place(commitlog, page)
				return err
			}, os.ErrNotExist)
		}
		if err != nil {
			d.t.Fatalf("no block of the log at %d: %v", page, err)
		}
		d.punch(at)
		if first < 0 || page < first {
			first = page
		}
	}
	d.stuff()
	return first
}

// place returns where on the disk a page of the log is; os.ErrNotExist if its segment is not there.
func (d *sparseDisk) place(commitlog string, page int64) (int64, error) {
	d.t.Helper()
	file := filepath.Join(commitlog, fmt.Sprintf("%020d", page/segmentBytes*segmentBytes))
	page %= segmentBytes
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	ask := struct { // struct fiemap of the kernel's fiemap.h, with room for one extent
		start, length       uint64
		flags, mapped, room uint32
		_                   uint32
		logical, physical   uint64
		bytes               uint64
		_                   [2]uint64
		state               uint32
		_                   [3]uint32
	}{start: uint64(page), length: pageBytes, room: 1}
	const fiemap = 0xC020660B // FS_IOC_FIEMAP
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), fiemap, uintptr(unsafe.Pointer(&ask)))
	if errno != 0 || ask.mapped != 1 || ask.logical > uint64(page) {
		d.t.Fatalf("fiemap %s at %d: %v, %+v", file, page, errno, ask)
	}
	return int64(ask.physical) + page - int64(ask.logical), nil
}

func (d *sparseDisk) punch(at int64) {
	d.t.Helper()
	f, err := os.OpenFile(d.file, os.O_RDWR, 0)
	if err == nil {
		defer f.Close()
		err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, pageBytes)
	}
	if err != nil {
		d.t.Fatalf("punch %s at %d: %v", d.file, at, err)
	}
	if hole, err := f.Seek(at, unix.SEEK_HOLE); err != nil || hole != at {
		d.t.Fatalf("punched %s at %d, the next hole is at %d, %v", d.file, at, hole, err)
	}
}

// stuff takes all the room that there is.
func (d *sparseDisk) stuff() {
	d.t.Helper()
	f, err := os.OpenFile(d.filler, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	for page := make([]byte, pageBytes); err == nil; {
		_, err = f.Write(page)
	}
	if !errors.Is(err, unix.ENOSPC) {
		d.t.Fatalf("fill the tmpfs: %v", err)
	}
}
