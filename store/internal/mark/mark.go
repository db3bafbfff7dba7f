package mark

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path"
	"time"

	"ringmq/store/vfs"
)

// Read returns the mark of a store directory; 0 if there is no file, or none of its slots is intact.
func Read(fsys vfs.FS, dir string) (durable int64, err error) {
	f, err := fsys.OpenRead(path.Join(dir, Name))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("store: read the durable mark: %w", err)
	}
	defer f.Close()
	b, err := readAll(f)
	durable, _ = Judge(b)
	return durable, err
}

func readAll(f vfs.File) ([]byte, error) {
	b := make([]byte, fileBytes)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("store: read the durable mark: %w: remove %s, it is made anew", err, f.Name())
	}
	return b[:n], nil
}

// File is the open file. One goroutine at a time.
type File struct {
	file vfs.File
	slot slot // as in the file
	made bool // by Open; its name is not durable yet

	stop, done chan struct{} // of Keep
}

// Open opens the file, or makes it.
func Open(fsys vfs.FS, dir string) (*File, error) {
	name := path.Join(dir, Name)
	f, err := fsys.Open(name)
	made := errors.Is(err, fs.ErrNotExist)
	if made {
		f, err = fsys.Create(name)
	}
	if err != nil {
		return nil, fmt.Errorf("store: open the durable mark: %w", err)
	}
	m := &File{file: f, made: made, stop: make(chan struct{}), done: make(chan struct{})}
	if err := m.load(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return m, nil
}

// load reads the file. One of another length is filled up, so that later writes need no new blocks.
func (m *File) load() error {
	b, err := readAll(m.file)
	if err != nil {
		return err
	}
	m.slot, _ = newest(b)
	if len(b) == fileBytes {
		return nil
	}
	if _, err := m.file.WriteAt(make([]byte, fileBytes-len(b)), int64(len(b))); err != nil {
		return fmt.Errorf("store: make the durable mark: %w", err)
	}
	return nil
}

// Made reports whether Open made the file: then the directory is to be synced.
func (m *File) Made() bool { return m.made }

// Durable is the mark in the file.
func (m *File) Durable() int64 { return m.slot.durable }

// Set replaces the mark, durable on return. The log must be on the disk up to it. After an error the old
// mark or the new one stands.
func (m *File) Set(durable int64) error {
	next := slot{number: m.slot.number + 1, durable: durable}
	if _, err := m.file.WriteAt(next.append(nil), next.number%2*pageBytes); err != nil {
		return fmt.Errorf("store: write the durable mark: %w", err)
	}
	if err := m.file.Sync(); err != nil {
		return fmt.Errorf("store: write the durable mark: %w", err)
	}
	m.slot = next
	return nil
}

// Keep follows durable in a goroutine until Stop, looking as often as every says. A mark that cannot be
// written is logged once: only the next recovery knows less, and whatever keeps the disk from taking it
// will keep it from taking the log.
func (m *File) Keep(every time.Duration, durable func() int64, log *slog.Logger) {
	go func() {
		defer close(m.done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for failed := false; ; {
			select {
			case <-m.stop:
				return
			case <-tick.C:
			}
			to := durable()
			if to == m.slot.durable {
				continue
			}
			err := m.Set(to)
			if err != nil && !failed {
				log.Error("store: the durable mark cannot be written: until it can, damage to what is newer looks like a torn end", "err", err)
			}
			failed = err != nil
		}
	}()
}

// Stop ends Keep.
func (m *File) Stop() {
	close(m.stop)
	<-m.done
}

// Close closes the file.
func (m *File) Close() error { return m.file.Close() }
