package queue

import (
	"container/list"
	"errors"
	"fmt"
	"sync"

	"ringmq/store/vfs"
)

// Files opens the files of all queues and keeps those open that were used last, so that ten thousand
// queues do not need ten thousand descriptors.
type Files struct {
	FS        vfs.FS
	FileBytes int64 // size of each file, a multiple of EntryBytes; set before the first queue is opened

	limit int // files that stay open while nobody uses them

	// mu guards what follows. No lock is taken and no file opened under it.
	mu     sync.Mutex
	byName map[string]*list.Element // of *openFile
	recent *list.List               // front: used last
}

// openFile is an open file; users and gone are guarded by Files.mu.
type openFile struct {
	vfs.File
	name  string
	users int
	gone  bool // closed when the last user lets go
}

// NewFiles returns a cache of limit open files.
func NewFiles(fsys vfs.FS, fileBytes int64, limit int) *Files {
	return &Files{FS: fsys, FileBytes: fileBytes, limit: limit, byName: map[string]*list.Element{}, recent: list.New()}
}

// acquire returns the open file; release must follow.
func (c *Files) acquire(name string) (*openFile, error) {
	if f := c.lookup(name); f != nil {
		return f, nil
	}
	file, err := c.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return c.add(name, file)
}

func (c *Files) lookup(name string) *openFile {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byName[name]
	if e == nil {
		return nil
	}
	c.recent.MoveToFront(e)
	f := e.Value.(*openFile)
	f.users++
	return f
}

// add takes file over; when somebody else opened the same one meanwhile, that one is used.
func (c *Files) add(name string, file vfs.File) (*openFile, error) {
	c.mu.Lock()
	if e := c.byName[name]; e != nil {
		f := e.Value.(*openFile)
		f.users++
		c.mu.Unlock()
		return f, file.Close()
	}
	f := &openFile{File: file, name: name, users: 1}
	c.byName[name] = c.recent.PushFront(f)
	old := c.evictLocked()
	c.mu.Unlock()
	return f, closeAll(old)
}

// evictLocked takes unused files out until the limit is kept, and returns them.
func (c *Files) evictLocked() (old []*openFile) {
	for e := c.recent.Back(); e != nil && c.recent.Len() > c.limit; {
		before := e.Prev()
		if f := e.Value.(*openFile); f.users == 0 {
			c.recent.Remove(e)
			delete(c.byName, f.name)
			old = append(old, f)
		}
		e = before
	}
	return old
}

func (c *Files) release(f *openFile) {
	c.mu.Lock()
	f.users--
	last := f.gone && f.users == 0
	c.mu.Unlock()
	if last {
		_ = f.Close() // removed: nothing of it is wanted
	}
}

// forget drops a file that is about to be removed or to change its length.
func (c *Files) forget(name string) {
	c.mu.Lock()
	e := c.byName[name]
	if e == nil {
		c.mu.Unlock()
		return
	}
	f := e.Value.(*openFile)
	c.recent.Remove(e)
	delete(c.byName, name)
	f.gone = true
	last := f.users == 0
	c.mu.Unlock()
	if last {
		_ = f.Close()
	}
}

// Close closes all files. Nobody may use them any more.
func (c *Files) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*openFile
	for e := c.recent.Front(); e != nil; e = e.Next() {
		all = append(all, e.Value.(*openFile))
	}
	c.recent.Init()
	clear(c.byName)
	return closeAll(all)
}

func closeAll(files []*openFile) error {
	var errs []error
	for _, f := range files {
		if err := f.Close(); err != nil {
			errs = append(errs, fmt.Errorf("store: close queue file: %w", err))
		}
	}
	return errors.Join(errs...)
}
