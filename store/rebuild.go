package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"ringmq/store/internal/derive/checkpoint"
	"ringmq/store/internal/derive/queue"
	"ringmq/store/internal/log"
	"ringmq/store/vfs"
)

// Rebuild makes the queues, the index and the checkpoint of a directory anew, from the first record of its log on,
// and closes it. The log is recovered as Open does it, with what that cuts. Should it be interrupted,
// the next Open goes on: the mark of an unclean stop is there and no checkpoint, so that it too starts
// at the first record.
func Rebuild(fsys vfs.FS, o Options) (Recovered, error) {
	o.Fill()
	if err := o.Validate(); err != nil {
		return Recovered{}, err
	}
	s := &Store{fs: fsys, o: o, queues: map[queueKey]*Queue{}}
	if err := s.lockDir(); err != nil {
		return Recovered{}, err
	}
	err := s.dropDerived()
	if err == nil {
		err = s.open()
	}
	if err != nil {
		return s.found, errors.Join(err, s.abandon())
	}
	if why := s.Err(); errors.Is(why, ErrUncut) {
		return s.found, errors.Join(why, s.Close())
	}
	return s.found, s.Close()
}

// dropDerived removes what the log can give again, once nothing speaks against opening the log. The
// checkpoint goes first, durably: without it nothing else is believed. The mark of an unclean stop was
// in the same directory before, so that no power cut takes it away and not the checkpoint.
func (s *Store) dropDerived() error {
	if err := s.refuseForeignForms(); err != nil {
		return err
	}
	if err := s.refuseNoLog(); err != nil {
		return err
	}
	if err := s.keepQueueSize(); err != nil {
		return err
	}
	if err := s.holdAbort(); err != nil {
		return err
	}
	for _, name := range []string{"ringmq.checkpoint", "ringmq.checkpoint.bak", "checkpoint"} {
		if err := s.fs.Remove(path.Join(s.o.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return s.explain(err)
		}
	}
	if err := s.fs.SyncDir(s.o.Dir); err != nil {
		return s.explain(err)
	}
	for _, dir := range []string{s.queueRoot(), s.indexDir()} {
		if err := removeAll(s.fs, dir); err != nil {
			return s.explain(err)
		}
	}
	return nil
}

// keepQueueSize makes the new queue files as long as the old ones were, unless a size is asked for: as
// our checkpoint says, else as most of them are, for some may be why all are made anew.
func (s *Store) keepQueueSize() error {
	if s.o.QueueFileBytes > 0 {
		return nil
	}
	point, _, err := checkpoint.Read(s.fs, s.o.Dir)
	if err != nil {
		return err
	}
	if s.o.QueueFileBytes = point.QueueFileBytes; s.o.QueueFileBytes > 0 {
		return nil
	}
	count := map[int64]int{}
	usual := int64(0)
	err = eachFile(s.fs, s.queueRoot(), func(_ string, bytes int64) error {
		if count[bytes]++; bytes%queue.EntryBytes == 0 && count[bytes] > count[usual] {
			usual = bytes
		}
		return nil
	})
	if err != nil {
		return s.explain(err)
	}
	s.o.QueueFileBytes = usual
	return nil
}

// refuseNoLog refuses a log without a file, or one that cannot be opened: then its queues are all there
// is.
func (s *Store) refuseNoLog() error {
	l, err := log.Open(s.logConfig())
	if err != nil {
		return err
	}
	empty := l.End() == 0
	if err := l.Close(); err != nil {
		return err
	}
	if empty {
		return fmt.Errorf("store: %s has no files: nothing can be rebuilt from it; give the directory of the log if it lies elsewhere", s.o.logPlace())
	}
	return nil
}

// eachFile calls f for each file below dir, if that is there.
func eachFile(fsys vfs.FS, dir string, f func(name string, bytes int64) error) error {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		name = path.Join(dir, name)
		info, err := fsys.Stat(name)
		switch {
		case err != nil:
		case info.Dir:
			err = eachFile(fsys, name, f)
		default:
			err = f(name, info.Size)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeAll removes a directory with all in it, if it is there.
func removeAll(fsys vfs.FS, dir string) error {
	if err := eachFile(fsys, dir, func(name string, _ int64) error { return fsys.Remove(name) }); err != nil {
		return err
	}
	return removeDirs(fsys, dir)
}

// removeDirs removes a directory that holds nothing but directories, if it is there.
func removeDirs(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := removeDirs(fsys, path.Join(dir, name)); err != nil {
			return err
		}
	}
	return fsys.Remove(dir)
}
