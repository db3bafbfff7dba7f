// Package faultfs wraps a vfs.FS for tests: it counts the calls that change something or make it durable,
// and makes chosen ones fail, stop short, wait, or be the last before the power goes.
//
// Counted, from 0, are Create, Remove, Rename, MkdirAll, SyncDir, File.WriteAt, WriteVec, Truncate,
// Preallocate, Sync, Engine.Begin, and twice Slot.WriteDurable. A test of "whatever happens at any call" runs its story with a fault
// at call 0, 1, 2, … until a run ends before the fault does:
//
//	for k := 0; ; k++ {
//		disk := memfs.New(seed)
//		power := faultfs.Wrap(disk)
//		power.CutAt(k)
//		story(power)
//		if !power.IsCut() {
//			break
//		}
//		check(disk.Crash(rng, 50))
//	}
//
// A test of "every sync is needed" makes one call site of syncs lie after the other (Sites, Lie), and must
// see a check fail for each.
//
//	faultfs.go  what to do at which call
//	files.go    the wrapped calls
//	engine.go   flushes
//	sites.go    who asked for a sync
package faultfs

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"ringmq/store/vfs"
)

// ErrPower is what every call fails with from the cut on, reads as well.
var ErrPower = errors.New("faultfs: the power is out")

// FS wraps another file system. Faults are planned before or while it is used, from any goroutine.
type FS struct {
	below vfs.FS

	// mu guards what follows. It is not held during calls below, except for Kick.
	mu      sync.Mutex
	calls   int
	cut     bool
	cutAt   map[int]bool
	fails   map[int]error
	named   []namedFault
	shorts  map[int]int
	gates   map[int]*Gate
	sites   map[string]bool
	lies    map[string]bool
	engines []*engine // to wake their Reap at a cut
	reads   func(name string, off int64, n int) error

	cold atomic.Bool
}

// Wrap returns a file system that passes everything on until it is told otherwise.
func Wrap(below vfs.FS) *FS {
	return &FS{
		below: below, cutAt: map[int]bool{}, fails: map[int]error{}, shorts: map[int]int{},
		gates: map[int]*Gate{}, sites: map[string]bool{}, lies: map[string]bool{},
	}
}

// SetCold makes all files say that nothing of them is cached, or what they really have.
func (f *FS) SetCold(cold bool) { f.cold.Store(cold) }

// SetReads has judge called before each read past the page cache, see vfs.OpenDirect: it may wait, and an error fails the read.
func (f *FS) SetReads(judge func(name string, off int64, n int) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads = judge
}

func (f *FS) judgeRead(name string, off int64, n int) error {
	f.mu.Lock()
	judge := f.reads
	f.mu.Unlock()
	if judge == nil {
		return nil
	}
	return judge(name, off, n)
}

// CutAt cuts the power at the k-th counted call: that one and every later call of any kind fails with
// ErrPower and does nothing; flushes in flight end with it. Closing still works.
func (f *FS) CutAt(k int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cutAt[k] = true
}

// IsCut reports whether the power is out.
func (f *FS) IsCut() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cut
}

// Calls is the number of counted calls so far.
func (f *FS) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// FailAt makes the k-th counted call do nothing and fail with err. A flush completes with it.
func (f *FS) FailAt(k int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails[k] = err
}

// FailIn makes the k-th to (k+n-1)-th counted call from now on whose name contains part do nothing and fail with err.
// Where others use the disk at times of their own, as a store's goroutines do, it hits what it means.
func (f *FS) FailIn(part string, k, n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.named = append(f.named, namedFault{part, k, k + n, err})
}

// namedFault is for the calls from first to before end about names that contain part.
type namedFault struct {
	part       string
	first, end int
	err        error
}

// namedLocked counts a call about name for the faults that are meant for it.
func (f *FS) namedLocked(name string) (err error) {
	for i := range f.named {
		n := &f.named[i]
		if !strings.Contains(name, n.part) {
			continue
		}
		if n.first <= 0 && n.end > 0 && err == nil {
			err = n.err
		}
		n.first--
		n.end--
	}
	return err
}

// ShortWriteAt makes the k-th counted call write only its first n bytes and fail with ENOSPC. If that call
// is no write it goes on as usual.
func (f *FS) ShortWriteAt(k, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shorts[k] = n
}

// HoldAt makes the k-th counted call wait at the gate before it does anything.
func (f *FS) HoldAt(k int) *Gate {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := &Gate{reached: make(chan struct{}), open: make(chan struct{})}
	f.gates[k] = g
	return g
}

// Gate holds one call.
type Gate struct{ reached, open chan struct{} }

// Reached is closed when the call has come.
func (g *Gate) Reached() <-chan struct{} { return g.reached }

// Open lets the call go on; once.
func (g *Gate) Open() { close(g.open) }

// Lie makes every sync of a site do nothing and return nil.
func (f *FS) Lie(site string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lies[site] = true
}

// Sites are the sites that have asked for a sync so far, sorted.
func (f *FS) Sites() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.sites))
}

// count is the beginning of a counted call about name. An error ends the call; short says how many bytes to write,
// -1 for all.
func (f *FS) count(name string) (short int, err error) {
	f.mu.Lock()
	named := f.namedLocked(name)
	k := f.calls
	f.calls++
	gate := f.gates[k]
	if f.cutAt[k] {
		f.cutLocked()
	}
	f.mu.Unlock()
	if gate != nil {
		close(gate.reached)
		<-gate.open
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cut {
		return 0, ErrPower
	}
	short, planned := f.shorts[k]
	if !planned {
		short = -1
	}
	return short, cmp.Or(f.fails[k], named)
}

func (f *FS) cutLocked() {
	f.cut = true
	for _, e := range f.engines {
		e.Kick()
	}
}

// alive is the beginning of a call that is not counted.
func (f *FS) alive() error {
	if f.IsCut() {
		return ErrPower
	}
	return nil
}

// lied notes that a sync was asked for at a site, and tells whether it shall be a lie.
func (f *FS) lied(site string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sites[site] = true
	return f.lies[site]
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}
