package index

import (
	"fmt"
	"path"
)

// Truncate forgets the records at or beyond end, durably: the log was cut there, and others will stand
// in their places. So it comes after the cut is durable and before the next message; after a crash in
// between it comes again, with the same end. What was not flushed is flushed first.
func (x *Index) Truncate(end int64) error {
	if x.failed != nil {
		return x.failed
	}
	if len(x.files) == 0 || x.newestHead().endPhys < end {
		return nil
	}
	if err := x.Flush(); err != nil { // from here on the files are all there is
		return err
	}
	for keep := len(x.files); keep > 0; keep-- {
		f := x.files[keep-1]
		if f.head.endPhys < end {
			return x.keepOnly(keep, f.head)
		}
		h, err := x.headBefore(f, end)
		if err != nil {
			return err
		}
		if !h.empty() {
			return x.keepOnly(keep, h)
		}
	}
	return x.keepOnly(0, head{})
}

// headBefore is the head of f without the entries of records at or beyond end; an empty one if none is
// left.
func (x *Index) headBefore(f *file, end int64) (head, error) {
	window := newWindow(x.g, f)
	for number := f.head.count - 1; number > 0; number-- {
		e, err := window.entry(number)
		if err != nil {
			return head{}, fmt.Errorf("store: read index %s: %w", f.name, err)
		}
		if e.phys >= f.head.beginPhys && e.phys < end {
			return f.head.upTo(number, e), nil
		}
	}
	return head{}, nil
}

// DropAfter removes the files that have records stored later than ms, durably. That is the stock broker's
// rule (5.5.0) after it was killed, with indexMsgTimestamp of its checkpoint for ms: it does not write
// its files in an order that would make their heads the truth.
func (x *Index) DropAfter(ms int64) error {
	if x.failed != nil {
		return x.failed
	}
	for i, f := range x.files {
		if f.head.endMs > ms {
			return x.keepOnly(i, headOf(x.files[:i]))
		}
	}
	return nil
}

// keepOnly removes all but the first n files, and gives the last of these the head h.
func (x *Index) keepOnly(n int, h head) error {
	kept, gone := x.files[:n:n], x.files[n:]
	err := x.removeNewest(gone)
	if err == nil {
		err = x.install(kept, h)
	}
	if err != nil {
		x.failed = err // some of it may be done on the disk
		return err
	}
	for _, f := range gone {
		f.users.Release()
	}
	return nil
}

// removeNewest removes files, the newest first, durably: one that came back would be taken for good.
func (x *Index) removeNewest(files []*file) error {
	for i := len(files) - 1; i >= 0; i-- {
		x.dirChanged = true
		if err := x.remove(files[i]); err != nil {
			return err
		}
	}
	return x.syncDir()
}

func (x *Index) remove(f *file) error {
	if err := x.fs.Remove(path.Join(x.dir, f.name)); err != nil {
		return fmt.Errorf("store: remove index %s: %w", f.name, err)
	}
	return nil
}

// DropBelow removes the files that have only records before min, where the log begins now; never the
// newest. It is not durable on return: a file that comes back is removed by the next call.
func (x *Index) DropBelow(min int64) error {
	n, err := 0, error(nil)
	for n < len(x.files)-1 && x.files[n].head.endPhys < min {
		if err = x.remove(x.files[n]); err != nil {
			break
		}
		n++
	}
	gone := x.files[:n]
	x.mu.Lock()
	x.files = x.files[n:]
	x.mu.Unlock()
	for _, f := range gone {
		f.users.Release()
	}
	return err
}
