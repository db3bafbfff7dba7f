package osfs

import (
	"sync"
	"time"

	"ringmq/store/vfs"
)

// posix is the engine that needs nothing of the kernel but fdatasync: one goroutine per flush in
// flight, each on its slot's own descriptor. An error is reported by the flush that met it and, since
// the kernel forgets it then, by every later flush of the slot.
type posix struct {
	box    *vfs.Mailbox
	flying sync.WaitGroup
}

func newPosix() *posix { return &posix{box: vfs.NewMailbox()} }

func (e *posix) Begin(s vfs.Slot, id uint64) {
	e.flying.Add(1)
	go e.flush(s.(*slot), id)
}

func (e *posix) flush(s *slot, id uint64) {
	defer e.flying.Done()
	e.box.Post(vfs.Flushed{ID: id, Err: s.flush()})
}

func (e *posix) Reap(into []vfs.Flushed, wait time.Duration) []vfs.Flushed {
	return e.box.Reap(into, wait)
}

func (e *posix) Kick() { e.box.Kick() }

func (e *posix) Close() error {
	e.flying.Wait()
	return nil
}

func (e *posix) Name() string { return "posix" }
