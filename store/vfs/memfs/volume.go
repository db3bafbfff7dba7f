package memfs

import (
	"errors"

	"ringmq/store/vfs"
)

// volume is the whole file system.
type volume struct {
	fs  *FS
	dir string
}

// Volume implements vfs.FS.
func (f *FS) Volume(dir string) (vfs.Volume, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.dirLocked(dir); err != nil {
		return nil, pathError("open", dir, err)
	}
	return &volume{fs: f, dir: dir}, nil
}

// Sync implements vfs.Volume. It counts as one sync: an error that FailSync planned loses what is dirty in
// any file.
func (v *volume) Sync() error {
	f := v.fs
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.crashed {
		return pathError("syncfs", v.dir, ErrCrashed)
	}
	f.seq++
	began := f.seq
	planned := f.countSyncLocked()
	if err := f.syncTreeLocked(f.root, planned); err != nil {
		return pathError("syncfs", v.dir, err)
	}
	f.sureLocked(began)
	return nil
}

func (v *volume) Close() error { return nil }

// syncTreeLocked syncs all files below dir, then the names in it.
func (f *FS) syncTreeLocked(dir *inode, planned error) error {
	var errs []error
	for _, node := range dir.entries {
		switch {
		case node.dir:
			errs = append(errs, f.syncTreeLocked(node, planned))
		case len(node.dirty) > 0 || node.size != node.durableSize || node.reserved != node.durableReserved:
			f.seq++
			f.finishLocked(node.snapshot(f.seq), planned)
			errs = append(errs, planned)
		}
	}
	for len(dir.pending) > 0 {
		dir.pending[0].commit()
	}
	return errors.Join(errs...)
}
