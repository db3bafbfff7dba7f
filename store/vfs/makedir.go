package vfs

import (
	"errors"
	"io/fs"
	"path"
	"syscall"
)

// MakeDir makes dir and what is missing above it, durable on return.
//
// It goes from the top down and syncs each parent before the next level, so a process that is killed on the
// way leaves at most one directory that is there but not durable: the deepest. The parent of the deepest
// one that exists is therefore synced too.
func MakeDir(fsys FS, dir string) error {
	dir = path.Clean(dir)
	parent := path.Dir(dir)
	info, err := fsys.Stat(dir)
	switch {
	case err == nil && !info.Dir:
		return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
	case err == nil && parent == dir:
		return nil
	case err == nil:
		err := fsys.SyncDir(parent)
		if errors.Is(err, fs.ErrPermission) { // not a directory that we make entries in
			return nil
		}
		return err
	case !errors.Is(err, fs.ErrNotExist) || parent == dir:
		return err
	}
	if err := MakeDir(fsys, parent); err != nil {
		return err
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	return fsys.SyncDir(parent)
}
