// Package vfs is the only door to a disk. Everything that the store and the services of a node keep
// goes through an FS, so that a test can cut the power at any call, fail any write, and complete
// flushes in any order.
//
//	osfs     the machine's file system
//	memfs    a file system in memory that keeps what is synced and what is not apart, and can crash
//	faultfs  wraps another one: counts calls, fails them, cuts the power, makes syncs lie
//
// What survives a crash, on every implementation:
//
//   - bytes, size and allocation of a file: what File.Sync, or a flush by an Engine, covered;
//   - a name (after Create, Rename, Remove, MkdirAll): what SyncDir of its directory covered.
//     Syncing a file does not make its name durable.
//
// Names are slash-separated paths. Errors of all implementations are *fs.PathError (or *os.LinkError
// for Rename) with the operation, the path and the errno, and answer errors.Is for fs.ErrExist,
// fs.ErrNotExist, ErrLocked and ErrNoSpace.
package vfs

import (
	"errors"
	"io"
	"syscall"
	"time"
)

// FS is a file system. All methods may be called by any goroutine.
type FS interface {
	// Create makes a new, empty file, open for reading and writing. An existing name is fs.ErrExist.
	Create(name string) (File, error)
	// Open opens an existing file for reading and writing.
	Open(name string) (File, error)
	// OpenRead opens an existing file for reading only.
	OpenRead(name string) (File, error)
	// Remove removes a file or an empty directory. Open files stay usable until they are closed.
	Remove(name string) error
	// Rename moves from to to, replacing what is there. It is atomic: after a crash there is either
	// the old state or the new one. SyncDir of to's directory makes the new one durable.
	Rename(from, to string) error
	// MkdirAll makes dir and what is missing above it. Each new entry needs a SyncDir of its parent
	// to survive a crash; MakeDir does both.
	MkdirAll(dir string) error
	// List returns the base names in dir, sorted.
	List(dir string) ([]string, error)
	// Stat tells about a file or directory.
	Stat(name string) (Info, error)
	// SyncDir makes the entries of dir durable: when it returns, every earlier Create, Rename, Remove
	// and MkdirAll of a name in dir survives a crash.
	SyncDir(dir string) error
	// Volume opens the file system that holds dir, a directory, to make all of it durable at once.
	Volume(dir string) (Volume, error)
	// Lock creates name if it is missing and takes an exclusive lock on it, as a POSIX record lock
	// on its first byte: the form that a stock broker takes. It never waits. A lock that somebody
	// else holds, in this process or another, is ErrLocked; the text names the holder's pid if it is
	// known. The lock ends with Close, or with the process. Nobody may open name by other means
	// while the lock is held: closing any descriptor of a file drops a POSIX lock on it.
	Lock(name string) (io.Closer, error)
	// LockDir takes an exclusive lock on a directory itself and leaves nothing in it. Only those see it that take
	// the same. It never waits: a lock that somebody else holds, in this process or another, is ErrLocked. The lock
	// ends with Close, or with the process. Where the file system has no such lock it succeeds all the same.
	LockDir(dir string) (io.Closer, error)
	// Space returns the bytes of the file system that holds dir: those that this process may still use,
	// and these with what is used. What is kept for the superuser counts as neither, as in df.
	Space(dir string) (free, total int64, err error)
	// NewEngine returns the flusher of one writer.
	NewEngine() (Engine, error)
}

// File is an open file. Any goroutine may call any method, except that nothing may be called during
// or after Close.
type File interface {
	// ReadAt follows io.ReaderAt.
	io.ReaderAt
	// WriteAt follows io.WriterAt; it goes on after short writes and interruptions. When it returns
	// the bytes can be read; they are not durable.
	io.WriterAt
	io.Closer
	// WriteVec is WriteAt for bufs in a row, in as few system calls as there can be. It neither
	// changes nor keeps bufs; n is below their total only with an error.
	WriteVec(bufs [][]byte, off int64) (n int, err error)
	// Size is the length in bytes.
	Size() (int64, error)
	// Truncate makes the file n bytes long; new bytes are zeros without blocks.
	Truncate(n int64) error
	// Preallocate makes the file at least n bytes long, with zeros, and reserves its blocks, so that
	// a write below n cannot fail for want of space. Too little space is ErrNoSpace.
	Preallocate(n int64) error
	// Sync makes the bytes, the size and the allocation durable (fdatasync). An error is final: the
	// kernel forgets what it could not write, so that a second Sync that succeeds proves nothing.
	Sync() error
	// Slot returns a flush slot of this file: an open file description of its own. The kernel
	// reports a write-back error once per description, so each flush in flight needs its own slot,
	// opened before the bytes that it shall cover are written.
	Slot() (Slot, error)
	// Fd is the file descriptor, or -1 on a file system that has none.
	Fd() int
	// Name is the path that the file was opened by; a later Rename does not change it.
	Name() string
}

// Volume is a file system as a whole. One goroutine uses it at a time.
type Volume interface {
	io.Closer
	// Sync makes durable what was done before on the file system, by whomever: bytes and names (syncfs). It
	// is for hundreds of files at once. An error tells of a write-back that failed since the Volume was
	// opened or was synced last; it is final, as that of File.Sync.
	Sync() error
}

// Slot is what an Engine flushes by. It may be closed when no flush of it is in flight.
type Slot interface {
	io.Closer
	// WriteDurable is WriteVec and a flush of just these bytes, in one call (RWF_DSYNC): quicker than an
	// Engine for a writer that has nothing to do meanwhile. The bytes must lie below the file's size. No
	// flush of the slot may be in flight. An error is as final as that of a flush, except
	// errors.ErrUnsupported: then nothing was done, and the caller writes and flushes in two steps.
	WriteDurable(bufs [][]byte, off int64) (n int, err error)
}

// Engine flushes for one writer. Begin, Reap and Close belong to that writer's goroutine.
type Engine interface {
	// Begin starts an fdatasync that covers everything written to the slot's file so far. A slot has
	// at most one flush in flight. id comes back with the completion.
	Begin(s Slot, id uint64)
	// Reap appends the completions that are there to into, in any order, and returns it. With
	// wait 0 it only looks; with wait > 0 it waits that long for a first completion or a Kick; with
	// wait < 0 without a limit.
	Reap(into []Flushed, wait time.Duration) []Flushed
	// Kick ends a waiting Reap now, or the next one at once. It is never lost; kicks in a row count
	// as one. Any goroutine may call it.
	Kick()
	// Close waits for the flushes in flight and drops their completions.
	Close() error
	// Name is the engine's name in logs, such as "posix" or RingEngine.
	Name() string
}

// RingEngine is the name of the engine that flushes in io_uring.
const RingEngine = "io_uring"

// Flushed is a completed flush. Once Err is set for a slot, every later flush of that slot reports it
// again: what the kernel told once and forgot is kept here.
type Flushed struct {
	ID  uint64
	Err error
}

// Info is what Stat tells.
type Info struct {
	Size int64
	Mod  time.Time // last modification of the contents
	Dir  bool
}

// ErrLocked means that another store, in this process or another, holds the lock.
var ErrLocked = errors.New("locked")

// ErrNoSpace means that the disk is full. It is ENOSPC, so that errors.Is finds it in what the kernel
// says; ask IsNoSpace to count an exhausted quota too.
var ErrNoSpace error = syscall.ENOSPC

// IsNoSpace reports whether err means that there is no room for more bytes: a condition that passes
// when somebody removes something.
func IsNoSpace(err error) bool {
	return errors.Is(err, ErrNoSpace) || errors.Is(err, syscall.EDQUOT)
}
