package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// fillLogDirs sets the default, and leaves in CommitLogDirs those that new files go to.
func (o *Options) fillLogDirs() {
	if len(o.CommitLogDirs) == 0 {
		o.CommitLogDirs = []string{path.Join(o.Dir, "commitlog")}
	}
	o.CommitLogDirs, o.ReadOnlyLogDirs = cleaned(o.CommitLogDirs), cleaned(o.ReadOnlyLogDirs)
	o.CommitLogDirs = slices.DeleteFunc(o.CommitLogDirs, func(dir string) bool { return slices.Contains(o.ReadOnlyLogDirs, dir) })
}

// cleaned returns a copy with each path in its shortest form.
func cleaned(dirs []string) []string {
	var all []string
	for _, dir := range dirs {
		if dir != "" {
			dir = path.Clean(dir)
		}
		all = append(all, dir)
	}
	return all
}

// logDirs are all directories of the log.
func (o *Options) logDirs() []string {
	return append(slices.Clone(o.CommitLogDirs), o.ReadOnlyLogDirs...)
}

// logPlace names them in a message.
func (o *Options) logPlace() string { return strings.Join(o.logDirs(), ",") }

func (o *Options) logDirComplaints(complain func(wrong bool, format string, args ...any)) {
	dirs := slices.Sorted(slices.Values(o.logDirs()))
	complain(slices.Contains(dirs, ""), "log directories %q: one has no name", dirs)
	complain(len(o.CommitLogDirs) == 0, "log directories %q: all are read-only: give one more, for new messages", dirs)
	for i := 1; i < len(dirs); i++ {
		complain(dirs[i] != "" && dirs[i] == dirs[i-1], "log directory %q is given twice: give it once", dirs[i])
	}
}

// refuseMissingLogDirs refuses a directory that is not there though it may hold a part of the log: its disk
// may not be mounted. Only with a new log, or if it is the only one, it is made. (Stock brokers make it,
// and go on without the files.)
func (s *Store) refuseMissingLogDirs() error {
	used := len(s.o.ReadOnlyLogDirs) > 0
	var missing []string
	for _, dir := range s.o.logDirs() {
		names, err := s.fs.List(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, dir)
		case err != nil:
			return fmt.Errorf("store: cannot list the log's directory %s: %w: give this user the right to read it, or mend its disk", dir, err)
		}
		used = used || slices.ContainsFunc(names, isLogName)
	}
	if len(missing) > 0 && used && len(s.o.logDirs()) > 1 {
		return fmt.Errorf("store: %s is not there, and the log has files in other directories: mount its disk; make the directory if it is to be a new one, or leave it out of the configuration", missing[0])
	}
	return nil
}

// isLogName reports whether a name is that of a file of a log.
func isLogName(name string) bool { return len(name) == 20 && strings.Trim(name, "0123456789") == "" }

// sameTeller is a file system on which one directory can have several names.
type sameTeller interface {
	// Same reports whether two names lead to one file or directory.
	Same(a, b string) (bool, error)
}

// refuseOneDirTwice refuses two names of one directory: its files would be there twice.
func (s *Store) refuseOneDirTwice() error {
	t, ok := s.fs.(sameTeller)
	if !ok {
		return nil
	}
	dirs := s.o.logDirs()
	for i, a := range dirs {
		for _, b := range dirs[:i] {
			same, err := t.Same(a, b)
			if err != nil {
				return s.explain(err)
			}
			if same {
				return fmt.Errorf("store: the log's directories %s and %s are one: give one of the two names", b, a)
			}
		}
	}
	return nil
}
