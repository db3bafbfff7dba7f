// Package sidefile keeps small files that are replaced as a whole: topics, groups, offsets, checkpoints.
//
// A file X has a backup X.bak, the version before it, as stock brokers keep one. Write goes through
// X.tmp:
//
//  1. write X.tmp, fdatasync       its bytes are safe before a name can lead to them
//  2. rename X to X.bak
//  3. rename X.tmp to X
//  4. sync the directory           both renames, in this order, are safe: Write returns
//
// Whatever a crash leaves of this, Read finds the old version or the new one: after 2 alone X is missing
// and X.bak is the old one. After 4 it finds the new one.
package sidefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"ringmq/store/vfs"
)

// ErrBroken means that there is a file or a backup, but neither can be used. Starting as if there had
// never been one would lose what they held; that is for an operator to decide.
var ErrBroken = errors.New("neither the file nor its backup is usable")

const (
	backupSuffix = ".bak"
	tempSuffix   = ".tmp"
	badSuffix    = ".bad"
)

// Write replaces the contents of name by data. It is atomic, and durable when it returns nil; the version
// before is name.bak then. The directory must exist and be durable itself. After an error the old version
// or the new one is there. Two writes of one name must not overlap.
func Write(fsys vfs.FS, name string, data []byte) error {
	if err := writeTemp(fsys, name+tempSuffix, data); err != nil {
		return fmt.Errorf("sidefile: write %s: %w", name, err)
	}
	if err := replace(fsys, name); err != nil {
		return fmt.Errorf("sidefile: replace %s: %w", name, err)
	}
	return nil
}

// WriteJSON is Write for the tables that people and stock brokers read as well: indented by tabs, one member a
// line, no character escaped that JSON allows.
func WriteJSON(fsys vfs.FS, name string, table any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "\t")
	if err := e.Encode(table); err != nil {
		return fmt.Errorf("sidefile: encode %s: %w", name, err)
	}
	return Write(fsys, name, b.Bytes())
}

func writeTemp(fsys vfs.FS, temp string, data []byte) error {
	f, err := fsys.Create(temp)
	if errors.Is(err, fs.ErrExist) { // of a write that a crash ended
		if err := fsys.Remove(temp); err != nil {
			return err
		}
		f, err = fsys.Create(temp)
	}
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

func replace(fsys vfs.FS, name string) error {
	// Without a file there is nothing to back up, and the backup that is there may be all that is left.
	if err := fsys.Rename(name, name+backupSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := fsys.Rename(name+tempSuffix, name); err != nil {
		return err
	}
	return fsys.SyncDir(path.Dir(name))
}

// Read returns the contents of name, or of its backup if name is missing, empty or refused by valid;
// usedBackup tells. A refused file is set aside as name.bad, so that the next Write does not make it the
// backup. If neither exists the error is fs.ErrNotExist: a fresh start. If one exists and none is usable
// it is ErrBroken, and both are left as they are. A file that cannot be read at all is the error of the
// file system: that says nothing about its contents.
func Read(fsys vfs.FS, name string, valid func([]byte) error) (data []byte, usedBackup bool, err error) {
	data, bad, err := load(fsys, name, valid)
	if err != nil || data != nil {
		return data, false, err
	}
	backup, badBackup, err := load(fsys, name+backupSuffix, valid)
	switch {
	case err != nil:
		return nil, false, err
	case backup == nil && bad == nil && badBackup == nil:
		return nil, false, fmt.Errorf("sidefile: read %s: %w", name, fs.ErrNotExist)
	case backup == nil:
		return nil, false, fmt.Errorf("sidefile: read %s: %w (file: %s; backup: %s)", name, ErrBroken, why(bad), why(badBackup))
	case bad != nil:
		if err := fsys.Rename(name, name+badSuffix); err != nil {
			return nil, false, fmt.Errorf("sidefile: set %s aside: %w", name, err)
		}
	}
	return backup, true, nil
}

// Remedy adds to an ErrBroken of Read what an operator can do about it; then is what follows if neither file is
// there, the end of a sentence such as " to start without topics". Other errors are returned as they are.
func Remedy(err error, then string) error {
	if !errors.Is(err, ErrBroken) {
		return err
	}
	return fmt.Errorf("%w; repair one of them, or move both away%s", err, then)
}

// load returns usable contents, or in bad why they are not; neither means that there is no such file.
func load(fsys vfs.FS, name string, valid func([]byte) error) (data []byte, bad, err error) {
	f, err := fsys.OpenRead(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("sidefile: read: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, nil, fmt.Errorf("sidefile: read: %w", err)
	}
	if size == 0 {
		return nil, errors.New("empty"), nil
	}
	data = make([]byte, size)
	if _, err := f.ReadAt(data, 0); err != nil && err != io.EOF {
		return nil, nil, fmt.Errorf("sidefile: read: %w", err)
	}
	if bad := valid(data); bad != nil {
		return nil, bad, nil
	}
	return data, nil, nil
}

func why(bad error) string {
	if bad == nil {
		return "missing"
	}
	return bad.Error()
}
