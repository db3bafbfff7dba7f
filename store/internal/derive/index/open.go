package index

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"ringmq/store/vfs"
)

// Open opens the index in dir, which need not exist. Names that are no index file's are left alone, and
// logged. A file whose length or head is wrong is removed, and with it all that are newer: records are put in
// in the log's order only, so that what is missing can be added at the end alone. CompleteTo tells from where on.
//
// The files are taken by what their heads say. That holds for those that this package wrote, whatever
// happened, and for a stock broker's after a clean stop; after a stock broker's crash call DropAfter.
// Call Truncate with the log's end and DropBelow with its begin before the first Put.
func Open(fsys vfs.FS, dir string, o Options) (*Index, error) {
	o.Fill()
	if err := o.Check(); err != nil {
		return nil, err
	}
	x := &Index{
		fs: fsys, dir: dir, o: o, g: geometry{slots: int32(o.Slots), entries: int32(o.Entries)},
		tail: make([]byte, 0, tailEntries*entryBytes),
	}
	files, err := x.openFiles()
	if err == nil {
		err = x.install(files, headOf(files))
	}
	if err == nil {
		err = x.syncDir()
	}
	if err != nil {
		for _, f := range files {
			f.users.Release()
		}
		return nil, err
	}
	return x, nil
}

// openFiles opens all files up to the first bad one, and returns them also with an error.
func (x *Index) openFiles() (files []*file, err error) {
	names, err := x.list()
	if err != nil {
		return nil, fmt.Errorf("store: list the index: %w", err)
	}
	for i, name := range names {
		x.dirChanged = true // a killed process may have made it just now
		f, bad, err := x.openFile(name, files)
		if err != nil {
			return files, fmt.Errorf("store: open index %s: %w", name, err)
		}
		if bad != nil {
			return files, x.discard(names[i:], bad)
		}
		files = append(files, f)
	}
	return files, nil
}

// headOf is the head of the newest file; all zero if there is none.
func headOf(files []*file) head {
	if len(files) == 0 {
		return head{}
	}
	return files[len(files)-1].head
}

// list returns the names of the index files, oldest first.
func (x *Index) list() (files []string, err error) {
	names, err := x.fs.List(x.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		info, err := x.fs.Stat(path.Join(x.dir, name))
		if err != nil {
			return nil, err
		}
		if info.Dir || len(name) != nameDigits || strings.Trim(name, "0123456789") != "" {
			x.o.Log.Warn("store: no file of the index; it is left alone", "dir", x.dir, "name", name)
			continue
		}
		files = append(files, name)
	}
	return files, nil
}

// openFile opens a file that comes after others; bad says why it cannot be one of the index.
func (x *Index) openFile(name string, before []*file) (f *file, bad, err error) {
	v, err := x.fs.Open(path.Join(x.dir, name))
	if err != nil {
		return nil, nil, err
	}
	f = newFile(v, name)
	f.head, bad, err = x.readHead(f, before)
	if bad != nil || err != nil {
		f.users.Release()
		return nil, bad, err
	}
	return f, nil, nil
}

func (x *Index) readHead(f *file, before []*file) (h head, bad, err error) {
	size, err := f.Size()
	if err != nil {
		return h, nil, err
	}
	if want := x.g.fileBytes(); size != want {
		return h, fmt.Errorf("it has %d bytes, and %d slots and %d entries take %d", size, x.g.slots, x.g.entries, want), nil
	}
	var b [headBytes]byte
	if _, err := f.ReadAt(b[:], 0); err != nil {
		return h, nil, err
	}
	h = parseHead(b[:])
	if len(before) > 0 && headOf(before).count < x.g.entries {
		return h, errors.New("the file before it is not full"), nil
	}
	return h, h.check(x.g, headOf(before)), nil
}

// discard removes the files with these names, the newest first. Should a power cut bring one back, it is
// found and removed again.
func (x *Index) discard(names []string, why error) error {
	x.o.Log.Warn("store: index files are removed and built anew: the first of them is damaged, or of other settings",
		"dir", x.dir, "first", names[0], "files", len(names), "why", why)
	for i := len(names) - 1; i >= 0; i-- {
		if err := x.fs.Remove(path.Join(x.dir, names[i])); err != nil {
			return fmt.Errorf("store: remove index %s: %w", names[i], err)
		}
	}
	return nil
}

// install takes files for all there are, and the newest, with head h, for the one that entries go to. All
// of it is durable on return, also what a process that was killed left in the page cache.
func (x *Index) install(files []*file, h head) error {
	front, err := newFront(x.g)
	if err != nil {
		return err
	}
	if len(files) > 0 {
		if h, err = x.prepare(files, h, front); err != nil {
			return errors.Join(err, front.free())
		}
	}
	done, err := x.countDone(files, h)
	if err != nil {
		return errors.Join(err, front.free())
	}
	x.onDisk, x.done = h, done
	x.mu.Lock()
	defer x.mu.Unlock()
	old := x.front
	x.files, x.front = files, front
	x.tail, x.tailFrom = x.tail[:0], h.count
	x.complete = Position{Offset: h.endPhys, StoreMs: h.endMs}
	if len(files) > 0 {
		files[len(files)-1].head = h
	}
	if old != nil {
		return old.free()
	}
	return nil
}

// prepare reads the front of the newest file, settles it by the head h and returns that completed. Slots
// that were wrong are right on the disk before anything is appended, because what is appended takes the
// place of the entries that they led to. The head is written in any case: if the sync of it failed before,
// the page cache shows what the disk does not have.
func (x *Index) prepare(files []*file, h head, front *front) (head, error) {
	f := files[len(files)-1]
	if h.empty() {
		h = headOf(files[:len(files)-1]).next()
	}
	err := front.load(f)
	if err == nil {
		h.used, err = front.settle(x.g, h.count, newWindow(x.g, f).entry)
	}
	if err != nil {
		return h, fmt.Errorf("store: read index %s: %w", f.name, err)
	}
	h.append(front.b[:0])
	if err := x.writeSlots(f, front); err != nil {
		return h, err
	}
	if err := x.writeHead(f, h); err != nil {
		return h, err
	}
	if err := f.Sync(); err != nil {
		return h, x.fail(f.name, err)
	}
	front.clean()
	return h, nil
}

// countDone counts the entries that the newest record has: with the last keys of a stock broker that
// was killed, or at the end of a file, some may be missing.
func (x *Index) countDone(files []*file, h head) (done int, err error) {
	end := h.endPhys
	for i := len(files) - 1; i >= 0; i-- {
		f := files[i]
		if i < len(files)-1 {
			h = f.head
		}
		window := newWindow(x.g, f)
		for number := h.count - 1; number > 0; number-- {
			e, err := window.entry(number)
			if err != nil {
				return 0, fmt.Errorf("store: read index %s: %w", f.name, err)
			}
			if e.phys != end {
				return done, nil
			}
			done++
		}
	}
	return done, nil
}
