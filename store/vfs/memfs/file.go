package memfs

import (
	"io"
	"syscall"
	"time"

	"ringmq/store/vfs"
)

// file is an open file.
type file struct {
	fs    *FS
	node  *inode
	name  string
	write bool

	// Guarded by the FS's mutex.
	closed bool
	seen   int // failed flushes that this handle knows of
}

func (f *FS) openLocked(name string, node *inode, write bool) *file {
	node.opens++
	return &file{fs: f, node: node, name: name, write: write, seen: node.errs}
}

// freeLocked gives the space of a file back when its last name or handle has gone.
func (f *FS) freeLocked(node *inode) {
	if node.links == 0 && node.opens == 0 && !node.dir {
		f.usedPages -= node.blocks()
	}
}

// enter takes the mutex; the caller unlocks it. With an error the call must not go on.
func (h *file) enter(op string, write bool) error {
	h.fs.mu.Lock()
	switch {
	case h.fs.crashed:
		return pathError(op, h.name, ErrCrashed)
	case h.closed:
		return pathError(op, h.name, syscall.EBADF)
	case write && !h.write:
		return pathError(op, h.name, syscall.EBADF)
	}
	return nil
}

func (h *file) ReadAt(p []byte, off int64) (int, error) {
	err := h.enter("read", false)
	defer h.fs.mu.Unlock()
	if err == nil && off < 0 {
		err = pathError("read", h.name, syscall.EINVAL)
	}
	if err != nil {
		return 0, err
	}
	n := int(max(0, min(int64(len(p)), h.node.size-off)))
	for done := 0; done < n; {
		index, in := (off+int64(done))/pageBytes, int((off+int64(done))%pageBytes)
		part := p[done:min(n, done+pageBytes-in)]
		clear(part)
		if pg := h.node.pages[index]; pg != nil && pg.cur.data != nil {
			copy(part, pg.cur.data[in:])
		}
		done += len(part)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (h *file) WriteAt(p []byte, off int64) (int, error) {
	return h.WriteVec([][]byte{p}, off)
}

func (h *file) WriteVec(bufs [][]byte, off int64) (int, error) {
	err := h.enter("write", true)
	defer h.fs.mu.Unlock()
	if err == nil && off < 0 {
		err = pathError("write", h.name, syscall.EINVAL)
	}
	if err != nil {
		return 0, err
	}
	return h.fs.writeVecLocked(h.node, h.name, bufs, off)
}

func (f *FS) writeVecLocked(node *inode, name string, bufs [][]byte, off int64) (done int, err error) {
	for _, b := range bufs {
		n := f.writeLocked(node, b, off+int64(done))
		done += n
		if n < len(b) {
			return done, pathError("write", name, syscall.ENOSPC)
		}
	}
	return done, nil
}

// writeLocked writes page by page until the space is used up.
func (f *FS) writeLocked(node *inode, b []byte, off int64) int {
	done := 0
	for done < len(b) {
		at := off + int64(done)
		index, in := at/pageBytes, int(at%pageBytes)
		old := node.pages[index]
		if index >= node.reserved && (old == nil || old.cur.data == nil) && !f.takeLocked(1) {
			break
		}
		f.seq++
		next := block{seq: f.seq, data: new([pageBytes]byte)}
		if old != nil && old.cur.data != nil {
			*next.data = *old.cur.data
		}
		n := copy(next.data[in:], b[done:])
		node.set(index, next)
		done += n
		node.size = max(node.size, at+int64(n))
		node.mod = time.Now()
	}
	return done
}

// takeLocked occupies pages, or reports that there is no room for them.
func (f *FS) takeLocked(pages int64) bool {
	if f.totalBytes > 0 && (f.usedPages+pages)*pageBytes > f.totalBytes {
		return false
	}
	f.usedPages += pages
	return true
}

func (h *file) Truncate(n int64) error {
	err := h.enter("truncate", true)
	defer h.fs.mu.Unlock()
	if err == nil && n < 0 {
		err = pathError("truncate", h.name, syscall.EINVAL)
	}
	if err != nil {
		return err
	}
	node, before := h.node, h.node.blocks()
	whole := (n + pageBytes - 1) / pageBytes
	if n < node.size {
		h.fs.cutLocked(node, n, whole)
	}
	if node.reserved > whole {
		node.reserved = whole
	}
	node.size, node.mod = n, time.Now()
	h.fs.usedPages += node.blocks() - before
	return nil
}

// cutLocked drops what lies beyond n bytes: pages from whole on, and the end of the page before.
func (f *FS) cutLocked(node *inode, n, whole int64) {
	for index, p := range node.pages {
		switch {
		case index >= whole:
			f.seq++
			node.set(index, block{seq: f.seq})
		case index == whole-1 && n%pageBytes != 0 && p.cur.data != nil:
			f.seq++
			cut := block{seq: f.seq, data: new([pageBytes]byte)}
			copy(cut.data[:n%pageBytes], p.cur.data[:])
			node.set(index, cut)
		}
	}
}

func (h *file) Preallocate(n int64) error {
	err := h.enter("fallocate", true)
	defer h.fs.mu.Unlock()
	if err == nil && n <= 0 {
		err = pathError("fallocate", h.name, syscall.EINVAL)
	}
	if err != nil {
		return err
	}
	node := h.node
	whole := (n + pageBytes - 1) / pageBytes
	if whole > node.reserved {
		there := int64(0) // loose pages that the reservation takes over
		for index, p := range node.pages {
			if index >= node.reserved && index < whole && p.cur.data != nil {
				there++
			}
		}
		if !h.fs.takeLocked(whole - node.reserved - there) {
			return pathError("fallocate", h.name, syscall.ENOSPC)
		}
		node.reserved = whole
		node.loose -= there
	}
	node.size = max(node.size, n)
	return nil
}

func (h *file) Sync() error {
	err := h.enter("fdatasync", false)
	defer h.fs.mu.Unlock()
	if err != nil {
		return err
	}
	f := h.fs
	f.seq++
	im := h.node.snapshot(f.seq)
	f.finishLocked(im, f.countSyncLocked())
	if err := h.node.report(&h.seen); err != nil {
		return pathError("fdatasync", h.name, err)
	}
	return nil
}

// countSyncLocked numbers a sync and returns the error that FailSync planned for it.
func (f *FS) countSyncLocked() error {
	err := f.failSyncs[f.syncs]
	delete(f.failSyncs, f.syncs)
	f.syncs++
	return err
}

func (f *FS) finishLocked(im image, err error) {
	if err != nil {
		im.lose(err)
		return
	}
	im.land()
	f.noteLocked(im)
}

// report returns the newest write-back error if seen is behind, once.
func (n *inode) report(seen *int) error {
	if *seen == n.errs {
		return nil
	}
	*seen = n.errs
	return n.lastErr
}

func (h *file) Slot() (vfs.Slot, error) {
	err := h.enter("open flush slot", true)
	defer h.fs.mu.Unlock()
	if err != nil {
		return nil, err
	}
	h.node.opens++
	return &slot{fs: h.fs, node: h.node, name: h.name, seen: h.node.errs}, nil
}

func (h *file) Size() (int64, error) {
	err := h.enter("stat", false)
	defer h.fs.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return h.node.size, nil
}

func (h *file) Close() error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.closed {
		return pathError("close", h.name, syscall.EBADF)
	}
	h.closed = true
	h.node.opens--
	h.fs.freeLocked(h.node)
	return nil
}

func (h *file) Fd() int      { return -1 }
func (h *file) Name() string { return h.name }
