// Package floor measures what this host can do at most, with bare loops that do nothing but the system calls. A figure of
// the node is worth reading only beside the floor of the same run.
package floor

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Sync is the bare loop of a durable log: one pwrite of a batch of records, one fdatasync, and again, in a file whose
// blocks were written before, as a log with prepared segments has it. It is the best that one writer at depth one
// can do with that batch.
type Sync struct {
	Dir     string // where the file is made, and removed
	Batch   int    // records in one write
	Bytes   int    // of one record as stored
	FileMax int64  // the loop starts over at 0 when the next batch would go beyond
	For     time.Duration
}

// PerSecond runs the loop and returns durable records per second.
func (s Sync) PerSecond() (float64, error) {
	batch := s.Batch * s.Bytes
	if batch <= 0 || int64(batch) > s.FileMax {
		return 0, fmt.Errorf("floor: batch=%d of %d bytes does not fit file_max=%d", s.Batch, s.Bytes, s.FileMax)
	}
	name := filepath.Join(s.Dir, "floor.tmp")
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	defer os.Remove(name)
	defer f.Close()
	fd := int(f.Fd())
	buf := make([]byte, batch)
	if err := s.prepare(fd, buf); err != nil {
		return 0, err
	}
	for i := range buf {
		buf[i] = byte(i)
	}
	var records, off int64
	start := time.Now()
	for time.Since(start) < s.For {
		if off+int64(batch) > s.FileMax {
			off = 0
		}
		if err := writeAll(fd, buf, off); err != nil {
			return 0, err
		}
		if err := unix.Fdatasync(fd); err != nil {
			return 0, err
		}
		off += int64(batch)
		records += int64(s.Batch)
	}
	return float64(records) / time.Since(start).Seconds(), nil
}

// prepare writes zeros over the whole file, so that the measured loop changes no metadata.
func (s Sync) prepare(fd int, zeros []byte) error {
	for off := int64(0); off < s.FileMax; off += int64(len(zeros)) {
		if err := writeAll(fd, zeros[:min(int64(len(zeros)), s.FileMax-off)], off); err != nil {
			return err
		}
	}
	return unix.Fsync(fd)
}

// writeAll is pwrite until all is written: the kernel may take less at a time.
func writeAll(fd int, p []byte, off int64) error {
	for len(p) > 0 {
		n, err := unix.Pwrite(fd, p, off)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("floor: pwrite at %d: %w", off, err)
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}
