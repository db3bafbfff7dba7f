// Package store keeps messages in the stock broker's files: the log of all messages, a queue of
// pointers into it for each queue of each topic, and a checkpoint. A directory that a stock broker
// 5.5.0 wrote opens here, and one that was closed here opens there.
//
//	Reserve ─► Append ─► staging ─► log writer: write, flush ─► marks move ─► queues ─► OnMarks
//	 any goroutine                  one goroutine, which also puts the queue entries into memory
//
// An append is stored when a mark has reached its End: Marks.Durable tells what a power cut cannot take
// away, Marks.Visible what readers see. Readers find messages by queue (Get) and take their bytes by
// physical offset (Range, ReadAt). Recovery (recover.go) makes the files agree again after any stop.
//
// Start at append.go and marks.go for the way in, read.go for the way out.
package store

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"ringmq/store/internal/cold"
	"ringmq/store/internal/derive"
	"ringmq/store/internal/derive/queue"
	"ringmq/store/internal/log"
	"ringmq/store/internal/mark"
	"ringmq/store/vfs"
)

// Store is an open store directory.
type Store struct {
	// Set by Open, constant afterwards.
	fs     vfs.FS
	o      Options
	lock   locks
	log    *log.Log
	cold   *cold.Reader
	keeper *derive.Keeper
	index  *derive.Indexer
	files  *queue.Files
	mark   *mark.File
	found  Recovered
	held   bool            // open for reading alone
	batch  map[string]bool // topics whose queues are left alone

	retention retention // see retain.go

	// Guarded by the log's append lock.
	lastMs  int64   // newest store time given
	pending []entry // appended, not yet taken by the writer goroutine

	// Writer goroutine only.
	taken   []entry // in log order, not yet visible
	arrived []*Queue

	// Published by the writer goroutine, read by any.
	readable atomic.Int64 // reads may go up to here: visible, before the queues show it
	visible  atomic.Int64
	position struct {
		sync.Mutex // leaf
		derive.Position
	}
	counters counters

	// queuesMu guards queues. Leaf.
	queuesMu sync.RWMutex
	queues   map[queueKey]*Queue

	drainOnce, closeOnce sync.Once
	drainErr, closeErr   error
}

// Drain refuses appends from now on and returns when everything that was appended is durable, or the log has
// failed: then it returns why. Close begins with it.
func (s *Store) Drain() error {
	s.drainOnce.Do(func() {
		if s.drainErr = s.log.Err(); !s.held {
			s.drainErr = s.log.Drain()
		}
	})
	return s.drainErr
}

// Close refuses appends, makes everything that was appended durable, writes all queue entries, the index
// and the checkpoint, and removes the mark of an unclean stop. A log that failed leaves the mark. Ranges that
// readers hold stay usable; no other method may run during Close.
func (s *Store) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *Store) close() error {
	if s.held {
		return s.closeHeld()
	}
	failed := s.Drain()
	s.keeper.Stop()
	s.mark.Stop()
	s.index.Stop(failed == nil)
	err := failed
	if err == nil {
		err = s.keeper.Checkpoint(true)
	}
	err = errors.Join(err, s.cold.Close(), s.index.Close(), s.keeper.Close(), s.log.Close(), s.files.Close(), s.mark.Close())
	if err == nil {
		err = s.removeAbort()
	}
	err = errors.Join(err, s.lock.Close())
	if err != nil {
		return fmt.Errorf("store: close %s: %w", s.o.Dir, err)
	}
	return nil
}

// Err says why nothing can be stored any more; nil while all is well, also when appends are refused
// for a while. After Close it is ErrClosed.
func (s *Store) Err() error { return s.log.Err() }
