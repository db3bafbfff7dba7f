package store

import (
	"errors"

	"ringmq/store/internal/derive"
	"ringmq/store/internal/derive/checkpoint"
	"ringmq/store/internal/log"
	"ringmq/store/vfs"
)

// What Reserve and Append refuse by. Compare with errors.Is.
var (
	// ErrBusy means that there is no room right now: staging is full, the next segment is being
	// prepared, or queue entries wait to be written. The same call succeeds later.
	ErrBusy = log.ErrBusy

	// ErrNoSpace means that the next segment cannot be prepared, or queue entries cannot be written,
	// mostly because the disk is full. Appends succeed again by themselves once they can.
	ErrNoSpace = log.ErrNoSpace

	// ErrFailed means that a write or a flush of the log failed. Nothing is stored any more until the
	// process starts again; reads of what is visible go on.
	ErrFailed = log.ErrFailed

	// ErrDamaged means that the log is damaged: see StopOnDamage.
	ErrDamaged = errors.New("store: the log is damaged")

	// ErrUncut means that recovery found no room on the disk for the copy of a torn end. The next Open tries again.
	ErrUncut = errors.New("store: a torn end is not cut yet")

	// ErrClosed means that Close was called.
	ErrClosed = log.ErrClosed

	// ErrTooLarge means that a message, or the messages that were joined, exceed what a segment or
	// staging can hold: the same call can never succeed.
	ErrTooLarge = log.ErrTooLarge
)

// ErrCold means that bytes are not in memory and NoWait was asked for.
var ErrCold = errors.New("store: not in memory")

// ErrOffset means that a physical offset is not inside the visible log.
var ErrOffset = log.ErrOffset

// ErrNoIndex means that messages cannot be looked up by key: the index is switched off (Options.NoIndex), or the log
// is damaged and held.
var ErrNoIndex = derive.ErrNoIndex

// What Open refuses by; the text has path, reason and remedy.
var (
	// ErrLocked means that another process, or another Store of this one, has the directory open.
	ErrLocked = vfs.ErrLocked

	// ErrNewer means that a newer version wrote the directory.
	ErrNewer = checkpoint.ErrNewer

	// ErrForeign means that the directory holds something that this store cannot work on.
	ErrForeign = errors.New("store: not a directory for this store")
)
