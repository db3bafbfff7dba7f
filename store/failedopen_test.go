package store

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"syscall"
	"testing"

	"ringmq/store/vfs/faultfs"
	"ringmq/store/vfs/osfs"
)

// TestFailedOpenTellsOneThing: a first start on a full disk complained about a file that was closed already, beside
// the disk. Whichever call fails, what was opened before it is closed once, and the error is about the call.
func TestFailedOpenTellsOneThing(t *testing.T) {
	for k := 0; ; k++ {
		dir := filepath.Join(t.TempDir(), "data")
		disk := faultfs.Wrap(osfs.New(osfs.Options{}))
		disk.FailAt(k, syscall.EDQUOT)
		o := Options{Dir: dir, SegmentBytes: 64 << 10, StagingBytes: 64 << 10, MaxMessageBytes: 4 << 10, FlushSync: true,
			Log: slog.New(slog.DiscardHandler)}
		s, err := Open(disk, o)
		if err == nil {
			_ = s.Close() // with an error where the call is one of its own
			if disk.Calls() > k {
				continue // what failed is done without
			}
			if k < 10 {
				t.Errorf("an open is only %d calls", k)
			}
			return
		}
		if !errors.Is(err, syscall.EDQUOT) || errors.Is(err, fs.ErrClosed) {
			t.Errorf("k=%d: %v", k, err)
		}
	}
}
