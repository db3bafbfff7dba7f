package memfs

import (
	"testing"

	"ringmq/store/vfs"
	"ringmq/store/vfs/vfstest"
)

var _ vfs.FS = (*FS)(nil)

func TestSuite(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) (vfs.FS, string) {
		f := New(1)
		if err := f.MkdirAll("/data"); err != nil {
			t.Fatal(err)
		}
		return f, "/data"
	})
}
