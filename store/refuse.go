package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"ringmq/store/internal/derive/queue"
	"ringmq/store/vfs"
)

// lockDir makes the directories and takes the locks, before anything else is touched.
func (s *Store) lockDir() error {
	if err := s.refuseOthersFiles(); err != nil {
		return err
	}
	if err := s.refuseMissingLogDirs(); err != nil {
		return err
	}
	for _, dir := range append([]string{s.o.Dir}, s.o.CommitLogDirs...) {
		if err := s.makeDir(dir); err != nil {
			return s.explain(err)
		}
	}
	lock, err := s.fs.Lock(path.Join(s.o.Dir, "lock"))
	if errors.Is(err, vfs.ErrLocked) {
		return fmt.Errorf("store: %s is in use: %w: stop that process, or use another directory", s.o.Dir, err)
	}
	if err != nil {
		return s.explain(err)
	}
	s.lock = locks{lock}
	if err := s.refuseOneDirTwice(); err != nil {
		return errors.Join(err, s.lock.Close())
	}
	return s.lockLogDirs()
}

// locks end together.
type locks []io.Closer

// Close drops them all.
func (l locks) Close() (err error) {
	for _, lock := range l {
		err = errors.Join(err, lock.Close())
	}
	return err
}

// lockLogDirs takes the locks of the log's directories: two stores with roots of their own may be told to use one.
func (s *Store) lockLogDirs() error {
	for _, dir := range s.o.logDirs() {
		lock, err := s.fs.LockDir(dir)
		if err == nil {
			s.lock = append(s.lock, lock)
			continue
		}
		if errors.Is(err, vfs.ErrLocked) {
			err = fmt.Errorf("store: the log's directory %s is in use by another store, with a root of its own: %w: stop that process, or give each store directories of its own (storePathCommitLog)", dir, err)
		} else {
			err = s.explain(err)
		}
		return errors.Join(err, s.lock.Close())
	}
	return nil
}

// makeDir makes dir durable with all that is above it, whether it is new or not: a process that was
// killed while it made them may have left names that a power cut takes away.
func (s *Store) makeDir(dir string) error {
	if err := s.fs.MkdirAll(dir); err != nil {
		return err
	}
	for at := path.Clean(dir); at != path.Dir(at); at = path.Dir(at) {
		err := s.fs.SyncDir(path.Dir(at))
		if errors.Is(err, fs.ErrPermission) { // not ours to look into, so not made by us either
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// explain adds path and remedy to what the operating system says about the directory.
func (s *Store) explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("store: %s is not writable: %w: give this user the right to write there, or use another directory", s.o.Dir, err)
	case vfs.IsNoSpace(err):
		return fmt.Errorf("store: the disk of %s is full: %w: make room, or use another directory", s.o.Dir, err)
	}
	return fmt.Errorf("store: cannot use %s: %w", s.o.Dir, err)
}

// ours are names at the top of a store directory; one of them must be there unless it is empty.
var ours = []string{"commitlog", "consumequeue", "checkpoint", "config", "lock", "abort", "index"}

// refuseOthersFiles refuses a directory that holds something, but nothing of a store.
func (s *Store) refuseOthersFiles() error {
	names, err := s.fs.List(s.o.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return s.explain(err)
	}
	for _, name := range names {
		for _, known := range ours {
			if name == known {
				return nil
			}
		}
	}
	if len(names) > 0 {
		return fmt.Errorf("%w: %s holds %q and other things, but no store: use an empty directory", ErrForeign, s.o.Dir, names[0])
	}
	return nil
}

// refuseForeignForms refuses the other forms that stock brokers keep a store in.
func (s *Store) refuseForeignForms() error {
	names, err := s.fs.List(s.o.Dir)
	if err != nil {
		return s.explain(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "dledger-") {
			return fmt.Errorf("%w: %s is of DLedger (enableDLegerCommitLog): send its messages here by a client", ErrForeign, path.Join(s.o.Dir, name))
		}
	}
	if _, err := s.fs.Stat(path.Join(s.queueRoot(), "CURRENT")); err == nil {
		return fmt.Errorf("%w: %s is of RocksDB (storeType=defaultRocksDB): with the stock broker stopped, move it away; the queues are rebuilt from the log", ErrForeign, s.queueRoot())
	}
	return nil
}

// batchTopics returns the topics with batch queues (queue.type=BatchCQ). They are left alone: their messages
// are put into no other queue. So they must be complete: those of a stock broker that was killed are
// refused.
func (s *Store) batchTopics(killed bool) (map[string]bool, error) {
	dir := path.Join(s.o.Dir, "batchconsumequeue")
	found, err := queue.List(s.fs, dir)
	if err != nil {
		return nil, err
	}
	if len(found) > 0 && killed {
		return nil, fmt.Errorf("%w: %s has topic %q (queue.type=BatchCQ), and the stock broker was killed: start and stop that once more, it completes such queues", ErrForeign, dir, found[0].Topic)
	}
	topics := map[string]bool{}
	for _, f := range found {
		if !topics[f.Topic] {
			s.o.Log.Warn("store: batch queues are not served; their files are left alone", "topic", f.Topic)
		}
		topics[f.Topic] = true
	}
	return topics, nil
}

// adoptQueueSize takes the size of the queue files that are there, and refuses another one. known is the
// size that our checkpoint tells, 0 if there is none; then it is that of the longest file.
func (s *Store) adoptQueueSize(found []queue.Found, known int64) error {
	have := known
	for _, f := range found {
		if known == 0 {
			have = max(have, f.Longest())
		}
	}
	want := s.o.QueueFileBytes
	if want != 0 && have != 0 && want != have {
		return fmt.Errorf("store: %s: its files have %d bytes but %d are configured: set the size to %d, or use another directory", s.queueRoot(), have, want, have)
	}
	size := cmp.Or(want, have, 6_000_000)
	if size%queue.EntryBytes != 0 {
		return fmt.Errorf("store: %s: files of %d bytes hold no whole entries: move the directory away, it is rebuilt", s.queueRoot(), size)
	}
	s.o.QueueFileBytes = size
	return nil
}
