package sidefile

import (
	"errors"

	"ringmq/store/vfs"
)

// ErrBroken means that neither the file nor its backup can be used, though at least one of them is there.
var ErrBroken = errors.New("sidefile: neither the file nor its backup is usable")

// Write replaces path by data, durable on return.
func Write(fsys vfs.FS, path string, data []byte) error { panic("later") }

// Read returns the contents of path, or of its backup.
func Read(fsys vfs.FS, path string, valid func([]byte) error) (data []byte, usedBackup bool, err error) {
	panic("later")
}
