package log

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"ringmq/store/internal/filename"
	"ringmq/store/vfs"
)

// place is where a file of the log lies. The log may have several directories, on as many disks; its order
// is that of the files' names, wherever they are.
//
// A power cut must leave no gap between them, and no name twice. In one directory the file system keeps
// the order of names; between two nothing does, so there what was removed is made durable before the next
// name goes, or before the same name may come elsewhere. A start makes durable what a process before it
// removed (Sync).
type place struct {
	dir   string
	base  int64
	fixed bool // dir is one of Config.ReadOnly
	bytes int64
}

func (p place) name() string { return path.Join(p.dir, filename.Of(p.base)) }

// dirs are all directories of the log.
func (c *Config) dirs() []string { return append(slices.Clone(c.Dirs), c.ReadOnly...) }

// where names the directories in a message.
func (c *Config) where() string { return strings.Join(c.dirs(), ",") }

// turns are the directories in which the file that begins at base may be made, the best one first. It is
// the one where a stock broker 5.5.0 makes it: by the number of the file in turn, among those that are
// not full in the order of their names; if all are full, among all. Where it cannot be made there the
// others follow; a stock broker would give up.
func (l *Log) turns(base int64) []string {
	if l.spare.named != "" {
		return []string{l.spare.named}
	}
	var roomy, full []string
	for _, dir := range slices.Sorted(slices.Values(l.cfg.Dirs)) {
		if len(l.cfg.Dirs) > 1 && l.cfg.Full != nil && l.cfg.Full(dir) {
			full = append(full, dir)
		} else {
			roomy = append(roomy, dir)
		}
	}
	first := func(dirs []string) []string {
		if len(dirs) == 0 {
			return nil
		}
		i := base / l.cfg.SegmentBytes % int64(len(dirs))
		return append(slices.Clone(dirs[i:]), dirs[:i]...)
	}
	return append(first(roomy), first(full)...)
}

// listFiles returns the log's files in order, and their size, 0 if there is none.
func listFiles(cfg *Config) (files []place, size int64, err error) {
	for i, dir := range cfg.dirs() {
		if files, err = appendFiles(files, cfg.FS, dir, i >= len(cfg.Dirs)); err != nil {
			return nil, 0, err
		}
	}
	slices.SortFunc(files, func(a, b place) int { return cmp.Compare(a.base, b.base) })
	if files, err = dropEmptyLast(cfg.FS, files); err != nil {
		return nil, 0, err
	}
	for i, f := range files {
		if i > 0 && files[i-1].base == f.base {
			return nil, 0, fmt.Errorf("store: %s and %s are the same part of the log: if one directory is a copy or another name of the other, leave it out of the configuration; else move the file away that does not belong to the log", files[i-1].name(), f.name())
		}
		if f.bytes%pageBytes != 0 {
			return nil, 0, fmt.Errorf("store: %s: %d bytes, and files of a log have a multiple of %d: it was cut short, restore it from a copy; or move it away if it is of no log", f.name(), f.bytes, pageBytes)
		}
		size = cmp.Or(size, f.bytes)
		if f.bytes != size {
			return nil, 0, fmt.Errorf("store: %s: %d bytes, but the files before it have %d: restore it from a copy", f.name(), f.bytes, size)
		}
	}
	return files, size, checkAdjacent(cfg, files, size)
}

func appendFiles(files []place, fsys vfs.FS, dir string, fixed bool) ([]place, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, fmt.Errorf("store: list the log: %w", err)
	}
	for _, name := range names {
		info, err := fsys.Stat(path.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("store: list the log: %w", err)
		}
		if info.Dir { // as stock brokers do
			continue
		}
		base, err := filename.Base(name)
		if err != nil {
			return nil, fmt.Errorf("%w: %s is no directory of a log, or the file does not belong there: move it away", err, dir)
		}
		files = append(files, place{dir, base, fixed, info.Size})
	}
	return files, nil
}

// dropEmptyLast removes an empty last file: a stock broker was killed while it made it.
func dropEmptyLast(fsys vfs.FS, files []place) ([]place, error) {
	if len(files) == 0 || files[len(files)-1].bytes > 0 {
		return files, nil
	}
	last := files[len(files)-1]
	err := errors.New("its directory is read-only here: remove it")
	if !last.fixed {
		err = fsys.Remove(last.name())
	}
	if err != nil {
		return nil, fmt.Errorf("store: %s is empty and of no use: %w", last.name(), err)
	}
	return files[:len(files)-1], nil
}

func checkAdjacent(cfg *Config, files []place, size int64) error {
	for i, f := range files {
		if want := files[0].base + int64(i)*size; f.base != want || f.base%size != 0 {
			remedy := "restore it from a copy"
			if len(cfg.dirs()) > 1 {
				remedy += ", or mount the disk where it lies"
			}
			return fmt.Errorf("store: %s: file %s is missing before %s: %s", cfg.where(), filename.Of(want), filename.Of(f.base), remedy)
		}
	}
	return nil
}

// refuseFixed refuses a log that does not end behind all files of its read-only directories: it would be
// written there.
func (l *Log) refuseFixed(end int64) error {
	for _, g := range *l.segments.Load() {
		if g.fixed && g.end() > end {
			return fmt.Errorf("store: %s lies in a read-only directory, and the log goes on in it or before it: move the file to %s, or let that directory be written", g.name(), l.cfg.Dirs[0])
		}
	}
	return nil
}
