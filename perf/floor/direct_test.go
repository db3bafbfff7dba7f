package floor

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestDirect(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for _, name := range []string{"a", "b"} {
		files = append(files, filepath.Join(dir, name))
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, 3<<20), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := DropCache(files); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	n, err := Direct{Files: files, PieceBytes: 256 << 10}.Read(ctx)
	if err != nil || n == 0 {
		t.Errorf("read %d bytes, %v", n, err)
	}
	if _, err := (Direct{PieceBytes: 4096}).Read(t.Context()); err == nil {
		t.Error("nothing was read for ever")
	}
	if _, err := (Direct{Files: []string{dir + "/none"}, PieceBytes: 4096}).Read(t.Context()); err == nil {
		t.Error("a file that does not exist was read")
	}
}
