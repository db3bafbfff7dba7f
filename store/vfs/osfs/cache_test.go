package osfs

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDropCache: a store that started again after the write-back of a page had failed read that page from the cache,
// showed its messages, and lost them in the next power cut.
func TestDropCache(t *testing.T) {
	f := mustCreate(t)
	if _, err := f.WriteAt(make([]byte, 1<<20), 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if cachedPages(t, f.Fd()) == 0 {
		t.Skip("the temporary directory is on a file system without a page cache")
	}
	if err := f.DropCache(); err != nil {
		t.Fatal(err)
	}
	if n := cachedPages(t, f.Fd()); n != 0 {
		var st unix.Statfs_t
		if err := unix.Fstatfs(f.Fd(), &st); err == nil && st.Type == unix.TMPFS_MAGIC {
			t.Skip("the temporary directory is on a tmpfs, which has no other place than the cache")
		}
		t.Fatalf("%d pages are still in the cache", n)
	}
}

func cachedPages(t *testing.T, fd int) uint64 {
	t.Helper()
	var stat unix.Cachestat_t
	err := unix.Cachestat(uint(fd), &unix.CachestatRange{}, &stat, 0)
	if errors.Is(err, unix.ENOSYS) {
		t.Skip("no cachestat(2) on this kernel")
	}
	if err != nil {
		t.Fatal(err)
	}
	return stat.Cache
}

// TestPinned: a file is free to be written anew once nobody maps it and none of its pages waits in a
// socket, where the receiver would get the new bytes.
func TestPinned(t *testing.T) {
	f := mustCreate(t)
	if _, err := f.WriteAt(make([]byte, 1<<20), 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if held, err := f.Pinned(); err != nil {
		t.Fatal(err)
	} else if held {
		t.Skip("pages of a file cannot be dropped here")
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	var off int64
	if n, err := unix.Sendfile(pair[1], f.Fd(), &off, 4096); n == 0 || err != nil {
		t.Fatalf("sent %d bytes, %v", n, err)
	}
	if held, err := f.Pinned(); err != nil || !held {
		t.Errorf("with a page in a socket: pinned %v, %v", held, err)
	}
	if err := unix.Close(pair[1]); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Read(pair[0], make([]byte, 8192)); n == 0 || err != nil {
		t.Fatalf("received %d bytes, %v", n, err)
	}
	if held, err := f.Pinned(); err != nil || held {
		t.Errorf("with all received: pinned %v, %v", held, err)
	}
}
