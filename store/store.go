// Package store keeps messages in the stock broker's files: the log, its queues, the checkpoint.
package store

import "ringmq/store/vfs"

// Store is an open store directory.
type Store struct{}

// Open takes the directory's lock, recovers what is there, and starts the writer.
func Open(fsys vfs.FS, o Options) (*Store, error) { panic("building") }

// Close flushes, writes all queue entries and the checkpoint, and removes abort.
func (s *Store) Close() error { panic("building") }

// Err returns why nothing can be stored any more, or nil.
func (s *Store) Err() error { panic("building") }
