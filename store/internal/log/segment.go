// Package log holds the files of the CommitLog: their bytes, the one writer, and how they are opened
// again after a crash. It knows no topic and no queue.
//
//	base                            durable         written   page end
//	+--------+--------+---- ... ----+------- ... ---+---------+------- ... -------+
//	| record | record |             | not yet safe  | zeros   | zeros to the end  |
//	+--------+--------+---- ... ----+------- ... ---+---------+------- ... -------+
//	                                                ^ the next write starts here
//
// Bytes go from the appender's lock into staging (staging.go), from there by the writer goroutine
// into the current segment (writer.go), and by a flush slot to the disk (flush.go). Segments are made
// ready before they are needed (spare.go) in one of the log's directories (dirs.go), get zeros in front of the
// writer (zero.go), are dropped when they are not needed any more (drop.go), and their files used again
// (recycle.go). What follows the last record of a segment is zeros, eight bytes of them at least, and
// all but in a recycled one: recovery (recover.go) makes it so, and every write keeps it so.
//
// Start at log.go; recover.go is the subtle part.
package log

import (
	"fmt"
	"path"
	"sync"
	"sync/atomic"

	"ringmq/store/internal/filename"
	"ringmq/store/vfs"
	"ringmq/uring"
)

const (
	pageBytes = 4096

	// blankBytes is the head of the filler record that ends a full segment: its size and its magic.
	// A record fits a segment only if a blank fits behind it (stock broker 5.5.0).
	blankBytes = 8

	// mappedWindows of 64 MiB are mapped for reading at most, and what is in use: 4 GiB of address space, and up to 8 MiB
	// of page tables.
	mappedWindows = 64
)

// segment is one file of the log. Its bytes below the log's written mark never change.
type segment struct {
	// Set when opened, constant afterwards; any goroutine.
	base   int64 // physical offset of its first byte
	size   int64
	dir    string
	fixed  bool // the directory is one of Config.ReadOnly: the file is open for reading only, without slots
	file   vfs.File
	shared *uring.File // counts readers; closes file and slots when the last is gone
	slots  []vfs.Slot  // one per flush in flight

	// Set before the log lets go of shared: takes over what the segment holds when the last reader is gone.
	dropped func(*segment)
	reuse   bool // with dropped: the file may become another segment

	recycled bool // bytes of an older segment follow what is written; constant

	safe atomic.Int64 // bytes below it have blocks that were written: zeros by zeroAhead, which stores it, or what the writer wrote

	direct struct {
		sync.Mutex            // leaf; the file is opened under it
		file       vfs.Direct // for reads past the page cache; nil before the first
	}

	// Writer goroutine only.
	zeroed int64 // bytes below it have blocks that were written at least once
	fresh  bool  // some of those were written by the writer for the first time since a flush was begun
	wanted int64 // zeros were asked for up to here
}

func (g *segment) end() int64 { return g.base + g.size }

// name is the file's path; where it was dropped, the one it had.
func (g *segment) name() string { return path.Join(g.dir, filename.Of(g.base)) }

// openSegment opens an existing file of the log, and its flush slots if it may be written.
func (l *Log) openSegment(p place) (*segment, error) {
	open, slots := l.cfg.FS.Open, l.cfg.FlushDepth
	if p.fixed {
		open, slots = l.cfg.FS.OpenRead, 0
	}
	file, err := open(p.name())
	if err != nil {
		return nil, fmt.Errorf("store: open segment: %w", err)
	}
	g := &segment{base: p.base, size: l.cfg.SegmentBytes, dir: p.dir, fixed: p.fixed, file: file}
	for range slots {
		slot, err := file.Slot()
		if err != nil {
			g.closeFiles()
			return nil, fmt.Errorf("store: flush slot of %s: %w", file.Name(), err)
		}
		g.slots = append(g.slots, slot)
	}
	g.shared = l.maps.NewFile(file.Fd(), g.size, file, g.unused)
	return g, nil
}

// Direct returns the file to read from past the page cache, which the first call opens. The segment must be held.
func (g *segment) Direct() (vfs.Direct, error) {
	g.direct.Lock()
	defer g.direct.Unlock()
	if g.direct.file == nil {
		file, err := vfs.OpenDirect(g.file)
		if err != nil {
			return nil, err
		}
		g.direct.file = file
	}
	return g.direct.file, nil
}

// Release ends a hold of the segment.
func (g *segment) Release() { g.shared.Release() }

// unused runs when the last reader is gone.
func (g *segment) unused() {
	if g.dropped != nil {
		g.dropped(g)
		return
	}
	g.closeFiles()
}

// closeFiles closes what the segment holds. What was written is flushed long before, or lost with a
// failed log: an error of close says nothing more.
func (g *segment) closeFiles() {
	if g.direct.file != nil {
		_ = g.direct.file.Close()
	}
	for _, s := range g.slots {
		_ = s.Close()
	}
	_ = g.file.Close()
}
