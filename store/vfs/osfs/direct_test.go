package osfs

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ringmq/store/vfs"
)

// TestDirectRefused: a file system without O_DIRECT, such as that of /proc, is read through the page cache, and the log says it
// once.
func TestDirectRefused(t *testing.T) {
	var logs bytes.Buffer
	fsys := New(Options{Log: slog.New(slog.NewTextHandler(&logs, nil))})
	for range 2 {
		f, err := fsys.OpenRead("/proc/version")
		if err != nil {
			t.Skip(err)
		}
		d, err := vfs.OpenDirect(f)
		if err != nil {
			t.Fatal(err)
		}
		if d.Past() {
			t.Skip("O_DIRECT works even on /proc")
		}
		want, got := make([]byte, 20), make([]byte, 20)
		if _, err := f.ReadAt(want, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := d.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
			t.Errorf("read %q, want %q: %v", got, want, err)
		}
		d.Forget(0, 4096)
		if err := errors.Join(d.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(logs.String(), "no O_DIRECT"); n != 1 {
		t.Errorf("told %d times:\n%s", n, &logs)
	}
}

// TestDirectAgain: a device may want another alignment than pages, which the first read finds out. It and those that were under
// way with it are done again without O_DIRECT.
func TestDirectAgain(t *testing.T) {
	f := mustCreate(t)
	if _, err := f.WriteAt(make([]byte, 1<<20), 0); err != nil {
		t.Fatal(err)
	}
	d, err := f.Direct()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	odd := make([]byte, 8192)[1:101]
	_, err = d.ReadAt(odd, 3)
	if !d.Past() || err == nil {
		t.Skip("any alignment will do here")
	}
	if d.Again(unix.EIO) {
		t.Error("EIO is not about alignment")
	}
	for range 2 {
		if !d.Again(err) || d.Past() {
			t.Errorf("%v is not tried again", err)
		}
	}
	if n, err := d.ReadAt(odd, 3); n != 100 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
