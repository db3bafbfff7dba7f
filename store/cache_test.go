package store

import (
	"errors"
	"path"
	"strings"
	"testing"

	"ringmq/store/vfs"
)

// cacheFS is a disk below a page cache that holds, for the log, bytes which a failed flush did not bring
// to the disk: everything from lost on. A sync says that all is well; reads come from the cache until it
// is dropped.
type cacheFS struct {
	vfs.FS
	lost int64
}

func (c *cacheFS) Open(name string) (vfs.File, error) {
	f, err := c.FS.Open(name)
	if err != nil || !strings.Contains(name, "/commitlog/") {
		return f, err
	}
	base := int64(0)
	for _, digit := range path.Base(name) {
		base = base*10 + int64(digit-'0')
	}
	return &cachedFile{File: f, disk: max(c.lost-base, 0)}, nil
}

type cachedFile struct {
	vfs.File
	disk    int64 // bytes that the disk has
	dropped bool
}

func (f *cachedFile) Sync() error { return nil }

func (f *cachedFile) DropCache() error {
	f.dropped = true
	return nil
}

func (f *cachedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if from := max(f.disk-off, 0); f.dropped && from < int64(n) {
		clear(p[from:n])
	}
	return n, err
}

// TestTheDiskIsRead: after a flush that failed, the page cache held what the disk did not, and the next
// process served it until the next power cut. Recovery reads the disk: what the cache alone has is gone, and
// below the mark it is damage.
func TestTheDiskIsRead(t *testing.T) {
	const marked = 6
	for _, has := range []int{marked, marked + 2, marked - 2, 10} {
		disk, o, sent := killed(t, marked)
		lost := int64(1) << 40
		if has < len(sent) {
			lost = sent[has].Offset
		}
		h := openTest(t, &cacheFS{FS: disk, lost: lost}, o)
		if got := h.Queue("T", 0).Max(); got != int64(has) {
			t.Errorf("the disk has %d messages, %d are shown", has, got)
		}
		if damaged := errors.Is(h.Err(), ErrDamaged); damaged != (has < marked) {
			t.Errorf("the disk has %d messages, %d were durable: %v", has, marked, h.Err())
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}
