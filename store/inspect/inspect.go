// Package inspect looks at a store directory, ours or a stock broker's, without changing a byte of it:
// it opens files for reading only and takes no lock, so it works on a read-only mount and beside a
// running node.
//
//	Verify   every file held to the log, and the log to itself: a Report with a Verdict for each
//	Scan     the records of the log by physical offset, over damage too
//	Queue    the records of one queue, by its entries
//
// The log is the truth and everything else is derived from it. walk.go reads one file of the log and
// resumes behind what is no record; log.go puts the files together and tells a torn end from damage;
// match.go holds queue entries to records and records to entries, in both directions.
//
// Start at verify.go.
package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"ringmq/store/vfs"
)

// FS is the part of a vfs.FS that reads: what this package cannot name it cannot do.
type FS interface {
	OpenRead(name string) (vfs.File, error)
	List(dir string) ([]string, error)
	Stat(name string) (vfs.Info, error)
}

// lockTeller is a file system that can tell who holds a lock, without taking it.
type lockTeller interface {
	// LockHolder describes who holds the lock of that name; "" when nobody does.
	LockHolder(name string) (string, error)
}

// ErrNoStore means that a directory holds nothing of a store.
var ErrNoStore = errors.New("inspect: not a store directory")

// Options says what to look at. A zero field means "choose for me".
type Options struct {
	Dir           string   // store root
	CommitLogDirs []string // where the log's files are; default Dir/commitlog
	Workers       int      // files of the log that are read at once; default GOMAXPROCS
	Progress      *Progress
}

// Progress counts bytes that were read of those that will be. Verify stores, anyone loads.
type Progress struct {
	Done, Total atomic.Int64
}

// Dir is a store directory that is looked at. Any goroutine may call its methods.
type Dir struct {
	// Set by Open, constant afterwards.
	fs       FS
	o        Options
	logs     []logFile // the files that can be walked, in the order of their bases
	size     int64     // of each file of the log, 0 if there is none
	oddFiles []Verdict // of files among the log's that cannot
}

// Open lists the directory. It fails only if that is impossible or nothing of a store is there; what
// is wrong with single files is for Verify to say.
func Open(fsys FS, o Options) (*Dir, error) {
	o.Workers = cmp.Or(o.Workers, runtime.GOMAXPROCS(0))
	o.Progress = cmp.Or(o.Progress, new(Progress))
	if len(o.CommitLogDirs) == 0 {
		o.CommitLogDirs = []string{path.Join(o.Dir, "commitlog")}
	}
	d := &Dir{fs: fsys, o: o}
	if err := d.mustBeStore(); err != nil {
		return nil, err
	}
	return d, d.listLog()
}

// tops are names at the top of a store directory; one of them at least is there.
var tops = []string{"commitlog", "consumequeue", "batchconsumequeue", "checkpoint", "config", "lock", "abort", "index"}

func (d *Dir) mustBeStore() error {
	names, err := d.fs.List(d.o.Dir)
	if err != nil {
		return fmt.Errorf("inspect: cannot list %s: %w: give the directory that storePathRootDir names, and the right to read it", d.o.Dir, err)
	}
	for _, name := range names {
		for _, top := range tops {
			if name == top {
				return nil
			}
		}
	}
	return fmt.Errorf("%w: %s holds none of %s: give the directory that storePathRootDir names", ErrNoStore, d.o.Dir, strings.Join(tops, ", "))
}

// rel is how a file is named to people: relative to the directory where it lies in it.
func (d *Dir) rel(name string) string {
	if rest, ok := strings.CutPrefix(name, strings.TrimSuffix(d.o.Dir, "/")+"/"); ok {
		return rest
	}
	return name
}

// names lists a directory that may be missing.
func (d *Dir) names(dir string) ([]string, error) {
	names, err := d.fs.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return names, err
}

// read returns a small file; nil without an error if it is missing.
func (d *Dir) read(name string) ([]byte, error) {
	f, err := d.fs.OpenRead(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > maxSmallBytes {
		return nil, fmt.Errorf("%d bytes, at most %d are expected", size, maxSmallBytes)
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if int64(n) == size {
		err = nil
	}
	return b, err
}

// maxSmallBytes is more than any side file has: the offsets of 10,000 groups on 1,000 topics.
const maxSmallBytes = 1 << 30

// parallel calls do for each number below n, from at most workers goroutines, until ctx ends; each
// goroutine has a state of its own.
func parallel[S any](ctx context.Context, workers, n int, state func() S, do func(s S, i int)) error {
	var next atomic.Int64
	var running sync.WaitGroup
	for range min(workers, n) {
		running.Go(func() {
			s := state()
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				do(s, i)
			}
		})
	}
	running.Wait()
	return ctx.Err()
}
