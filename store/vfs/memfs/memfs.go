// Package memfs is a file system in memory that knows what a power cut would leave of it.
//
// # What is kept of a file
//
// The contents are pages of 4096 bytes, each with a current block and a durable one. File.Sync, and a
// flush by an Engine, make durable what was written before it began: the dirty pages, the size and the
// preallocation. A crash starts from the durable state and keeps, by the dice, none, some or all of what
// is not: for each dirty page its current block, or one that a flush in flight is carrying, and the size
// at one of those moments. With TearSectors the choice is made for each 512-byte sector of a page.
//
// A flush that fails does to its pages what Linux does: they are clean from then on, the cache still shows
// the new bytes, and no later sync writes them unless they are written again. Every handle and slot that
// was open is told of the error once.
//
// # What is kept of a directory
//
// Create, Remove, Rename and MkdirAll are a list of pending operations in their directory; SyncDir makes
// the whole list durable. A crash keeps none, all, or by the dice a prefix of it, each directory by
// itself, as a file system with a journal does. A rename is one operation, also between two directories:
// it is kept in both or in neither, and what came before it in either directory is kept with it.
//
// # Determinism
//
// Nothing here runs by itself. Flushes complete inside Reap, in an order that the seed decides, or when
// the test releases them (HoldFlushes).
//
// Reading order: memfs.go (names), inode.go (what is kept), file.go, engine.go, crash.go.
package memfs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"ringmq/store/vfs"
)

// ErrCrashed is what every call on a file system and its handles returns after Crash.
var ErrCrashed = errors.New("memfs: the power was cut")

// unlimited is what Space tells when no limit is set.
const unlimited = 1 << 50

// FS is a file system in memory. It implements vfs.FS.
type FS struct {
	// mu guards everything below, and everything inside the inodes. Mailboxes are posted to under it.
	mu      sync.Mutex
	changed sync.Cond // a flush was held

	root    *inode
	locks   map[*inode]bool
	rng     *rand.Rand
	seq     uint64 // grows with every write and every sync that begins
	crashed bool
	tear    bool

	loseFresh bool
	doubtful  []*page // those with a doubt

	totalBytes int64 // 0: no limit
	usedPages  int64

	syncs     int           // begun or counted down so far
	failSyncs map[int]error // by number

	holding bool
	held    []*flush // oldest first
	flying  []*flush // all that have begun and not completed, the held ones included
}

// New returns an empty file system; seed decides the order in which its engines complete flushes.
func New(seed uint64) *FS {
	f := &FS{
		root:      newDir(),
		locks:     map[*inode]bool{},
		rng:       rand.New(rand.NewPCG(seed, 0)),
		failSyncs: map[int]error{},
	}
	f.changed.L = &f.mu
	return f
}

// SetSpace limits the bytes that all files together may occupy; 0 lifts the limit. What is there stays.
func (f *FS) SetSpace(totalBytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.totalBytes = totalBytes
}

// FailSync makes the n-th sync from now fail with err; 0 is the next one. Each File.Sync counts when it
// is called and each flush when it begins.
func (f *FS) FailSync(n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failSyncs[f.syncs+n] = err
}

// Create implements vfs.FS.
func (f *FS) Create(name string) (vfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, base, err := f.parentLocked(name)
	switch {
	case err != nil:
		return nil, pathError("open", name, err)
	case dir.entries[base] != nil:
		return nil, pathError("open", name, syscall.EEXIST)
	}
	node := newFile()
	f.changeLocked(change{dir, base, node})
	return f.openLocked(name, node, true), nil
}

// Open implements vfs.FS.
func (f *FS) Open(name string) (vfs.File, error) { return f.open(name, true) }

// OpenRead implements vfs.FS.
func (f *FS) OpenRead(name string) (vfs.File, error) { return f.open(name, false) }

func (f *FS) open(name string, write bool) (vfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	node, err := f.nodeLocked(name)
	if err == nil && node.dir {
		err = syscall.EISDIR
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return f.openLocked(name, node, write), nil
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	node, err := f.nodeLocked(name)
	if err == nil && len(node.entries) > 0 {
		err = syscall.ENOTEMPTY
	}
	if err == nil && node == f.root {
		err = syscall.EBUSY
	}
	if err != nil {
		return pathError("remove", name, err)
	}
	dir, base, _ := f.parentLocked(name)
	f.changeLocked(change{dir, base, nil})
	return nil
}

// Rename implements vfs.FS.
func (f *FS) Rename(from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.renameLocked(from, to); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

func (f *FS) renameLocked(from, to string) error {
	node, err := f.nodeLocked(from)
	if err != nil {
		return err
	}
	fromDir, fromBase, err := f.parentLocked(from)
	if err != nil {
		return err
	}
	toDir, toBase, err := f.parentLocked(to)
	if err != nil {
		return err
	}
	switch old := toDir.entries[toBase]; {
	case old == node:
		return nil
	case node.dir && strings.HasPrefix(clean(to)+"/", clean(from)+"/"):
		return syscall.EINVAL
	case old == nil:
	case old.dir && !node.dir:
		return syscall.EISDIR
	case node.dir && !old.dir:
		return syscall.ENOTDIR
	case len(old.entries) > 0:
		return syscall.ENOTEMPTY
	}
	f.changeLocked(change{fromDir, fromBase, nil}, change{toDir, toBase, node})
	return nil
}

// MkdirAll implements vfs.FS.
func (f *FS) MkdirAll(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.crashed {
		return pathError("mkdir", dir, ErrCrashed)
	}
	at := f.root
	for _, base := range elements(dir) {
		next := at.entries[base]
		if next == nil {
			next = newDir()
			f.changeLocked(change{at, base, next})
		}
		if !next.dir {
			return pathError("mkdir", dir, syscall.ENOTDIR)
		}
		at = next
	}
	return nil
}

// List implements vfs.FS.
func (f *FS) List(dir string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	node, err := f.dirLocked(dir)
	if err != nil {
		return nil, pathError("open", dir, err)
	}
	return slices.Sorted(maps.Keys(node.entries)), nil
}

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (vfs.Info, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	node, err := f.nodeLocked(name)
	if err != nil {
		return vfs.Info{}, pathError("stat", name, err)
	}
	return vfs.Info{Size: node.size, Mod: node.mod, Dir: node.dir}, nil
}

// SyncDir implements vfs.FS.
func (f *FS) SyncDir(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	node, err := f.dirLocked(dir)
	if err != nil {
		return pathError("open", dir, err)
	}
	for len(node.pending) > 0 {
		node.pending[0].commit()
	}
	f.seq++
	f.sureLocked(f.seq)
	return nil
}

// Space implements vfs.FS.
func (f *FS) Space(dir string) (free, total int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.nodeLocked(dir); err != nil {
		return 0, 0, pathError("statfs", dir, err)
	}
	total = cmp.Or(f.totalBytes, unlimited)
	return max(0, total-f.usedPages*pageBytes), total, nil
}

// Lock implements vfs.FS. The lock ends with Close or Crash.
func (f *FS) Lock(name string) (io.Closer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, base, err := f.parentLocked(name)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	node := dir.entries[base]
	if node == nil {
		node = newFile()
		f.changeLocked(change{dir, base, node})
	}
	if node.dir {
		return nil, pathError("open", name, syscall.EISDIR)
	}
	return f.lockLocked(name, node)
}

// LockDir implements vfs.FS.
func (f *FS) LockDir(dir string) (io.Closer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	node, err := f.dirLocked(dir)
	if err != nil {
		return nil, pathError("open", dir, err)
	}
	return f.lockLocked(dir, node)
}

func (f *FS) lockLocked(name string, node *inode) (io.Closer, error) {
	if f.locks[node] {
		return nil, fmt.Errorf("lock %s: %w by this process (pid %d)", name, vfs.ErrLocked, os.Getpid())
	}
	f.locks[node] = true
	return &lock{fs: f, node: node}, nil
}

type lock struct {
	fs   *FS
	node *inode
}

func (l *lock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	delete(l.fs.locks, l.node)
	return nil
}

// changeLocked does one operation on directories: now in what everybody sees, and pending in what is
// durable.
func (f *FS) changeLocked(changes ...change) {
	op := &dirOp{changes: changes}
	for _, c := range changes {
		if c.node != nil {
			c.node.links++ // first, so that a file that moves keeps one
		}
	}
	for _, c := range changes {
		if old := c.dir.entries[c.base]; old != nil {
			old.links--
			f.freeLocked(old)
		}
		c.apply(c.dir.entries)
		c.dir.mod = time.Now()
		if n := len(c.dir.pending); n == 0 || c.dir.pending[n-1] != op {
			c.dir.pending = append(c.dir.pending, op)
		}
	}
}

// parentLocked finds the directory that holds name, which need not exist.
func (f *FS) parentLocked(name string) (dir *inode, base string, err error) {
	if clean(name) == "/" {
		return nil, "", syscall.EISDIR
	}
	dir, err = f.dirLocked(path.Dir(clean(name)))
	return dir, path.Base(clean(name)), err
}

func (f *FS) dirLocked(name string) (*inode, error) {
	node, err := f.nodeLocked(name)
	if err == nil && !node.dir {
		err = syscall.ENOTDIR
	}
	return node, err
}

func (f *FS) nodeLocked(name string) (*inode, error) {
	if f.crashed {
		return nil, ErrCrashed
	}
	at := f.root
	for _, base := range elements(name) {
		if !at.dir {
			return nil, syscall.ENOTDIR
		}
		if at = at.entries[base]; at == nil {
			return nil, syscall.ENOENT
		}
	}
	return at, nil
}

// clean makes name absolute: here every path begins at the root.
func clean(name string) string { return path.Clean("/" + name) }

func elements(name string) []string {
	return strings.FieldsFunc(clean(name), func(r rune) bool { return r == '/' })
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}
