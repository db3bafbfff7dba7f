package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// The file "abort" is there while a store is open, and after it was not closed. Stock brokers look at
// its presence alone; so its text can also tell whose it is: one that a stock broker wrote means that
// our checkpoint may be older than the files.
const abortMark = "ringmq"

func (s *Store) abortName() string { return path.Join(s.o.Dir, "abort") }

// readAbort tells whether the file is there, and whether it is ours.
func (s *Store) readAbort() (there, ours bool, err error) {
	f, err := s.fs.OpenRead(s.abortName())
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	if err != nil {
		return false, false, s.explain(err)
	}
	defer f.Close()
	var buf [64]byte
	n, err := f.ReadAt(buf[:], 0)
	if n == 0 && err != nil {
		return true, false, nil // empty: as good as any other text
	}
	return true, strings.Contains(string(buf[:n]), abortMark), nil
}

// makeAbort makes the file, durable on return, before anything else is changed.
func (s *Store) makeAbort() error {
	f, err := s.fs.Create(s.abortName())
	if err == nil {
		defer f.Close()
		if _, err = f.WriteAt(fmt.Appendf(nil, "%d\n%s\n", os.Getpid(), abortMark), 0); err == nil {
			if err = f.Sync(); err == nil {
				err = s.fs.SyncDir(s.o.Dir)
			}
		}
	}
	if err != nil {
		return s.explain(err)
	}
	return nil
}

// removeAbort says that the store was closed. Should the removal get lost, the next start only works
// more than it had to: nothing is synced.
func (s *Store) removeAbort() error { return s.fs.Remove(s.abortName()) }

// takeAbortOver replaces a file that a stock broker left, once our checkpoint is in order again. In
// between there is no file for a moment; a power cut then leaves a directory that looks cleanly closed,
// with a checkpoint that knows better.
func (s *Store) takeAbortOver() error {
	if err := s.removeAbort(); err != nil {
		return s.explain(err)
	}
	return s.makeAbort()
}
