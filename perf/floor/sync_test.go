package floor

import (
	"os"
	"testing"
	"time"
)

// TestSync runs the loop for a moment: it wraps around in its file, counts something, and leaves nothing behind.
func TestSync(t *testing.T) {
	s := Sync{Dir: t.TempDir(), Batch: 4, Bytes: 1000, FileMax: 9000, For: 20 * time.Millisecond}
	rate, err := s.PerSecond()
	if err != nil || rate <= 0 {
		t.Fatalf("%v records per second, %v", rate, err)
	}
	if left, err := os.ReadDir(s.Dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	s.Batch = 10
	if _, err := s.PerSecond(); err == nil {
		t.Error("a batch larger than the file was taken")
	}
}
