package vfstest

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"os"
	"path"
	"testing"

	"ringmq/store/vfs"
)

// EachArchived gives each the regular files of a gzipped tar archive on the machine's own disk, in their order.
func EachArchived(t testing.TB, archive string, each func(name string, data []byte)) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		head, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if head.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		each(head.Name, data)
	}
}

// Unpack puts an archived directory at the root of fsys, durably.
func Unpack(t testing.TB, fsys vfs.FS, archive string) {
	t.Helper()
	EachArchived(t, archive, func(name string, data []byte) { WriteFile(t, fsys, path.Join("/", name), data) })
}

// WriteFile makes a file, or replaces it, durably.
func WriteFile(t testing.TB, fsys vfs.FS, name string, data []byte) {
	t.Helper()
	if err := vfs.MakeDir(fsys, path.Dir(name)); err != nil {
		t.Fatal(err)
	}
	_ = fsys.Remove(name) // mostly it is not there
	f, err := fsys.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := fsys.SyncDir(path.Dir(name)); err != nil {
		t.Fatal(err)
	}
}

// ReadFile returns the contents of a file of any file system that can open it.
func ReadFile(t testing.TB, fsys interface {
	OpenRead(name string) (vfs.File, error)
}, name string) []byte {
	t.Helper()
	f, err := fsys.OpenRead(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, n)
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return b
}
