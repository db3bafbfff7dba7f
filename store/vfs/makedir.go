package vfs

import (
	"errors"
	"io/fs"
	"path"
)

// MakeDir makes dir and what is missing above it, durable on return: each directory that got a new
// entry is synced, from the top down.
func MakeDir(fsys FS, dir string) error {
	dir = path.Clean(dir)
	var parents []string // of what is missing, the deepest first
	for at := dir; ; at = path.Dir(at) {
		_, err := fsys.Stat(at)
		if err == nil || at == path.Dir(at) {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		parents = append(parents, path.Dir(at))
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	for i := len(parents) - 1; i >= 0; i-- {
		if err := fsys.SyncDir(parents[i]); err != nil {
			return err
		}
	}
	return nil
}
