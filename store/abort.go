package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"ringmq/store/sidefile"
	"ringmq/store/vfs"
)

// The file "abort" is there while a store is open, and after it was not closed. Stock brokers look at
// its presence alone; so its text can also tell whose it is: one that a stock broker wrote means that
// our checkpoint may be older than the files.
const abortMark = "ringmq"

func (s *Store) abortName() string { return path.Join(s.o.Dir, "abort") }

// keptAbortName is where a clean stop leaves the file. A start on a full disk takes it back, for which no new
// block is wanted.
func (s *Store) keptAbortName() string { return path.Join(s.o.Dir, "ringmq.abort") }

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

// holdAbort makes sure that the file is there before anything else is changed. A missing one is made, as
// ours, durably. One that is there may be that of a process which was killed before it was durable; then
// nothing has changed since the close before, and the checkpoint that ends recovery makes it so.
func (s *Store) holdAbort() error {
	there, _, err := s.readAbort()
	if err != nil || there {
		return err
	}
	err = s.writeAbort()
	if vfs.IsNoSpace(err) && s.fs.Rename(s.keptAbortName(), s.abortName()) == nil {
		err = s.fs.SyncDir(s.o.Dir)
	}
	return err
}

// writeAbort makes the file ours. One that a stock broker left is taken over once our checkpoint is in
// order again.
func (s *Store) writeAbort() error {
	if err := sidefile.Write(s.fs, s.abortName(), abortText()); err != nil {
		return s.explain(err)
	}
	return nil
}

func abortText() []byte { return fmt.Appendf(nil, "%d\n%s\n", os.Getpid(), abortMark) }

// removeAbort says that the store was closed. Should the removal get lost, the next start only works
// more than it had to: nothing is synced.
func (s *Store) removeAbort() error { return s.fs.Rename(s.abortName(), s.keptAbortName()) }
