package store

import "errors"

var (
	// ErrBusy means that there is no room right now: staging is full, or the next segment is being
	// prepared. The same call succeeds later.
	ErrBusy = errors.New("store: busy")

	// ErrNoSpace means that the next segment cannot be prepared because the disk is full. Appends
	// succeed again by themselves once space returns.
	ErrNoSpace = errors.New("store: no space for the next segment")

	// ErrFailed means that a write or a flush of the log failed. Nothing is stored any more until
	// the process starts again; reads of what is visible go on.
	ErrFailed = errors.New("store: the log has failed")

	// ErrClosed means that Close was called.
	ErrClosed = errors.New("store: closed")

	// ErrOffset means that a physical offset is not inside the visible log.
	ErrOffset = errors.New("store: offset outside of the log")
)
