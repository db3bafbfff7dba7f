package faultfs

import (
	"errors"
	"io"
	"os"
	"syscall"

	"ringmq/store/vfs"
)

// Create implements vfs.FS; counted.
func (f *FS) Create(name string) (vfs.File, error) {
	if _, err := f.count(name); err != nil {
		return nil, pathError("open", name, err)
	}
	return f.wrap(f.below.Create(name))
}

// Open implements vfs.FS.
func (f *FS) Open(name string) (vfs.File, error) {
	if err := f.alive(); err != nil {
		return nil, pathError("open", name, err)
	}
	return f.wrap(f.below.Open(name))
}

// OpenRead implements vfs.FS.
func (f *FS) OpenRead(name string) (vfs.File, error) {
	if err := f.alive(); err != nil {
		return nil, pathError("open", name, err)
	}
	return f.wrap(f.below.OpenRead(name))
}

func (f *FS) wrap(below vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &file{File: below, fs: f}, nil
}

// Remove implements vfs.FS; counted.
func (f *FS) Remove(name string) error {
	if _, err := f.count(name); err != nil {
		return pathError("remove", name, err)
	}
	return f.below.Remove(name)
}

// Rename implements vfs.FS; counted.
func (f *FS) Rename(from, to string) error {
	if _, err := f.count(from); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return f.below.Rename(from, to)
}

// MkdirAll implements vfs.FS; counted.
func (f *FS) MkdirAll(dir string) error {
	if _, err := f.count(dir); err != nil {
		return pathError("mkdir", dir, err)
	}
	return f.below.MkdirAll(dir)
}

// List implements vfs.FS.
func (f *FS) List(dir string) ([]string, error) {
	if err := f.alive(); err != nil {
		return nil, pathError("open", dir, err)
	}
	return f.below.List(dir)
}

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (vfs.Info, error) {
	if err := f.alive(); err != nil {
		return vfs.Info{}, pathError("stat", name, err)
	}
	return f.below.Stat(name)
}

// SyncDir implements vfs.FS; counted.
func (f *FS) SyncDir(dir string) error {
	lie := f.lied(site("syncdir"))
	if _, err := f.count(dir); err != nil {
		return pathError("fsync", dir, err)
	}
	if lie {
		return nil
	}
	return f.below.SyncDir(dir)
}

// Volume implements vfs.FS.
func (f *FS) Volume(dir string) (vfs.Volume, error) {
	if err := f.alive(); err != nil {
		return nil, pathError("open", dir, err)
	}
	below, err := f.below.Volume(dir)
	if err != nil {
		return nil, err
	}
	return &volume{Volume: below, fs: f, dir: dir}, nil
}

type volume struct {
	vfs.Volume
	fs  *FS
	dir string
}

// Sync implements vfs.Volume; counted.
func (v *volume) Sync() error {
	lie := v.fs.lied(site("syncfs"))
	if _, err := v.fs.count(v.dir); err != nil {
		return pathError("syncfs", v.dir, err)
	}
	if lie {
		return nil
	}
	return v.Volume.Sync()
}

// Lock implements vfs.FS.
func (f *FS) Lock(name string) (io.Closer, error) {
	if err := f.alive(); err != nil {
		return nil, pathError("lock", name, err)
	}
	return f.below.Lock(name)
}

// LockDir implements vfs.FS.
func (f *FS) LockDir(dir string) (io.Closer, error) {
	if err := f.alive(); err != nil {
		return nil, pathError("lock", dir, err)
	}
	return f.below.LockDir(dir)
}

// Space implements vfs.FS.
func (f *FS) Space(dir string) (free, total int64, err error) {
	if err := f.alive(); err != nil {
		return 0, 0, pathError("statfs", dir, err)
	}
	return f.below.Space(dir)
}

// file is an open file; what it does not override goes to the one below: Close, Fd, Name.
type file struct {
	vfs.File
	fs *FS
}

func (h *file) ReadAt(p []byte, off int64) (int, error) {
	if err := h.fs.alive(); err != nil {
		return 0, pathError("read", h.Name(), err)
	}
	return h.File.ReadAt(p, off)
}

// Cached is what vfs.Cached asks.
func (h *file) Cached(off, n int64) (cached, known bool) {
	if h.fs.cold.Load() {
		return false, true
	}
	return vfs.Cached(h.File, off, n)
}

// Direct is what vfs.OpenDirect asks for: reads that SetReads judges first.
func (h *file) Direct() (vfs.Direct, error) {
	below, err := vfs.OpenDirect(h.File)
	return &direct{below, h}, err
}

type direct struct {
	vfs.Direct
	file *file
}

func (d *direct) Fd() int { return -1 } // no read may pass by ReadAt

func (d *direct) ReadAt(p []byte, off int64) (int, error) {
	err := d.file.fs.alive()
	if err == nil {
		err = d.file.fs.judgeRead(d.file.Name(), off, len(p))
	}
	if err != nil {
		return 0, pathError("read", d.file.Name(), err)
	}
	return d.Direct.ReadAt(p, off)
}

func (h *file) Size() (int64, error) {
	if err := h.fs.alive(); err != nil {
		return 0, pathError("stat", h.Name(), err)
	}
	return h.File.Size()
}

func (h *file) WriteAt(p []byte, off int64) (int, error) {
	short, err := h.fs.count(h.Name())
	if err != nil {
		return 0, pathError("write", h.Name(), err)
	}
	if short < 0 || short >= len(p) {
		return h.File.WriteAt(p, off)
	}
	n, err := h.File.WriteAt(p[:short], off)
	if err == nil {
		err = pathError("write", h.Name(), syscall.ENOSPC)
	}
	return n, err
}

func (h *file) WriteVec(bufs [][]byte, off int64) (int, error) {
	short, err := h.fs.count(h.Name())
	if err != nil {
		return 0, pathError("write", h.Name(), err)
	}
	head, cut := firstBytes(bufs, short)
	if !cut {
		return h.File.WriteVec(bufs, off)
	}
	n, err := h.File.WriteVec(head, off)
	if err == nil {
		err = pathError("write", h.Name(), syscall.ENOSPC)
	}
	return n, err
}

// firstBytes returns the first n bytes of bufs, and whether that is less than all.
func firstBytes(bufs [][]byte, n int) (head [][]byte, cut bool) {
	if n < 0 {
		return nil, false
	}
	for _, b := range bufs {
		if len(b) > n {
			return append(head, b[:n]), true
		}
		head, n = append(head, b), n-len(b)
	}
	return nil, false
}

func (h *file) Truncate(n int64) error {
	if _, err := h.fs.count(h.Name()); err != nil {
		return pathError("truncate", h.Name(), err)
	}
	return h.File.Truncate(n)
}

func (h *file) Preallocate(n int64) error {
	if _, err := h.fs.count(h.Name()); err != nil {
		return pathError("fallocate", h.Name(), err)
	}
	return h.File.Preallocate(n)
}

func (h *file) Sync() error {
	lie := h.fs.lied(site("sync"))
	if _, err := h.fs.count(h.Name()); err != nil {
		return pathError("fdatasync", h.Name(), err)
	}
	if lie {
		return nil
	}
	return h.File.Sync()
}

func (h *file) Slot() (vfs.Slot, error) {
	if err := h.fs.alive(); err != nil {
		return nil, pathError("open flush slot", h.Name(), err)
	}
	below, err := h.File.Slot()
	if err != nil {
		return nil, err
	}
	return &slot{Slot: below, file: h}, nil
}

// slot is a flush slot; Close goes to the one below.
type slot struct {
	vfs.Slot
	file *file
}

// WriteDurable is two counted calls, a write and a sync: a fault at the second finds the bytes written.
func (s *slot) WriteDurable(bufs [][]byte, off int64) (int, error) {
	fs, name := s.file.fs, s.file.Name()
	lie := fs.lied(site("flush"))
	short, err := fs.count(name)
	if err != nil {
		return 0, pathError("write", name, err)
	}
	if head, cut := firstBytes(bufs, short); cut {
		n, err := s.file.File.WriteVec(head, off)
		return n, errors.Join(err, pathError("write", name, syscall.ENOSPC))
	}
	if _, err := fs.count(name); err != nil || lie {
		n, below := s.file.File.WriteVec(bufs, off)
		if err != nil {
			below = errors.Join(below, pathError("write", name, err))
		}
		return n, below
	}
	return s.Slot.WriteDurable(bufs, off)
}
