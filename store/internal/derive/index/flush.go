package index

import (
	"fmt"
	"path"
)

// Flush makes durable what was put, and CompleteTo tells so. The order of its steps is the whole of the
// crash safety; see the package's description. With the default sizes it writes up to 20 MB of slots, so
// it is for every few hundred MB of the log, for the time before a clean stop, and Put does it when a
// file is full.
func (x *Index) Flush() error {
	if x.failed != nil {
		return x.failed
	}
	f := x.newest()
	if f != nil && f.head != x.onDisk {
		if err := x.flushEntries(f); err != nil {
			return err
		}
		if err := x.flushSlots(f); err != nil {
			return err
		}
		if err := x.flushHead(f); err != nil {
			return err
		}
	}
	if err := x.syncDir(); err != nil {
		return err
	}
	x.publish()
	return nil
}

// publish moves CompleteTo to the newest record: all of it is durable.
func (x *Index) publish() {
	x.mu.Lock()
	defer x.mu.Unlock()
	h := x.newestHead()
	x.complete = Position{Offset: h.endPhys, StoreMs: h.endMs}
}

// fail ends the writing: after a failed sync the kernel may have forgotten what it could not write, and
// the next sync would say that all is well.
func (x *Index) fail(f string, err error) error {
	x.failed = fmt.Errorf("store: sync index %s: %w", f, err)
	return x.failed
}

// writeTail moves the entries in memory into the file.
func (x *Index) writeTail(f *file) error {
	if len(x.tail) == 0 {
		return nil
	}
	if _, err := f.WriteAt(x.tail, x.g.entryAt(x.tailFrom)); err != nil {
		return fmt.Errorf("store: write index %s: %w", f.name, err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tail, x.tailFrom = x.tail[:0], f.head.count
	return nil
}

func (x *Index) flushEntries(f *file) error {
	if err := x.writeTail(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return x.fail(f.name, err)
	}
	return nil
}

func (x *Index) flushSlots(f *file) error {
	if err := x.writeSlots(f, x.front); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return x.fail(f.name, err)
	}
	x.front.clean()
	return nil
}

// writeSlots writes the pages that differ from the file.
func (x *Index) writeSlots(f *file, front *front) error {
	for page := 0; ; {
		lo, hi := front.dirtyRun(page)
		if lo == hi {
			return nil
		}
		if _, err := f.WriteAt(front.b[lo:hi], int64(lo)); err != nil {
			return fmt.Errorf("store: write index %s: %w", f.name, err)
		}
		page = (hi + pageBytes - 1) / pageBytes
	}
}

func (x *Index) flushHead(f *file) error {
	if err := x.writeHead(f, f.head); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return x.fail(f.name, err)
	}
	x.onDisk = f.head
	f.head.append(x.front.b[:0])
	return nil
}

func (x *Index) writeHead(f *file, h head) error {
	if _, err := f.WriteAt(h.append(make([]byte, 0, headBytes)), 0); err != nil {
		return fmt.Errorf("store: write index %s: %w", f.name, err)
	}
	return nil
}

func (x *Index) syncDir() error {
	if !x.dirChanged {
		return nil
	}
	if err := x.fs.SyncDir(x.dir); err != nil {
		return x.fail(path.Base(x.dir), err)
	}
	x.dirChanged = false
	return nil
}
