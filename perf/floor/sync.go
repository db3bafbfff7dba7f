// Package floor measures what this host can do at most, with bare loops that do nothing but the system calls. A figure of
// the node is worth reading only beside the floor of the same run.
package floor

import (
	"fmt"
	"os"
	"slices"
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
	records, spent, err := s.run(func(time.Duration) {})
	return float64(records) / spent.Seconds(), err
}

// P50 runs the loop and returns how long half of its turns, each a write and an fdatasync, took at most.
func (s Sync) P50() (time.Duration, error) {
	var all []time.Duration
	if _, _, err := s.run(func(took time.Duration) { all = append(all, took) }); err != nil {
		return 0, err
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}

// run counts at least one turn.
func (s Sync) run(turn func(took time.Duration)) (records int64, spent time.Duration, err error) {
	log, err := newPrepared(s.Dir, s.FileMax)
	if err != nil {
		return 0, 1, err
	}
	defer log.close()
	buf := make([]byte, s.Batch*s.Bytes)
	for i := range buf {
		buf[i] = byte(i)
	}
	start := time.Now()
	for began := start; ; {
		if err := log.append(buf); err != nil {
			return 0, 1, err
		}
		records += int64(s.Batch)
		now := time.Now()
		turn(now.Sub(began))
		if began = now; now.Sub(start) >= s.For {
			return records, now.Sub(start), nil
		}
	}
}

// prepared is a file whose blocks were all written before, so that appends to it change no metadata. It goes round.
type prepared struct {
	f     *os.File
	bytes int64
	off   int64
}

func newPrepared(dir string, bytes int64) (*prepared, error) {
	f, err := os.CreateTemp(dir, "floor-*.tmp")
	if err != nil {
		return nil, err
	}
	p := &prepared{f: f, bytes: bytes}
	zeros := make([]byte, 1<<20)
	for off := int64(0); off < bytes; off += int64(len(zeros)) {
		if err := writeAll(int(f.Fd()), zeros[:min(int64(len(zeros)), bytes-off)], off); err != nil {
			p.close()
			return nil, err
		}
	}
	if err := unix.Fsync(int(f.Fd())); err != nil {
		p.close()
		return nil, fmt.Errorf("floor: fsync: %w", err)
	}
	return p, nil
}

// append writes buf behind what was written last and makes it durable.
func (p *prepared) append(buf []byte) error {
	if int64(len(buf)) > p.bytes || len(buf) == 0 {
		return fmt.Errorf("floor: a write of %d bytes does not fit a file of %d", len(buf), p.bytes)
	}
	if p.off+int64(len(buf)) > p.bytes {
		p.off = 0
	}
	if err := writeAll(int(p.f.Fd()), buf, p.off); err != nil {
		return err
	}
	p.off += int64(len(buf))
	if err := unix.Fdatasync(int(p.f.Fd())); err != nil {
		return fmt.Errorf("floor: fdatasync: %w", err)
	}
	return nil
}

func (p *prepared) close() {
	_ = p.f.Close()
	_ = os.Remove(p.f.Name())
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
