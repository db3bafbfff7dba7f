package floor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Direct is the bare loop of a reader that leaves the page cache alone, as "dd iflag=direct": it reads files in pieces with
// O_DIRECT, one after the other, and begins again at the end.
type Direct struct {
	Files      []string
	PieceBytes int // whole pages
}

// Read reads until ctx ends and returns how many bytes it has read.
func (d Direct) Read(ctx context.Context) (total int64, err error) {
	buf, err := unix.Mmap(-1, 0, d.PieceBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return 0, fmt.Errorf("floor: mmap: %w", err)
	}
	defer unix.Munmap(buf)
	for ctx.Err() == nil {
		before := total
		for _, name := range d.Files {
			n, err := readDirect(ctx, name, buf)
			total += n
			if err != nil {
				return total, err
			}
		}
		if total == before && ctx.Err() == nil {
			return total, errors.New("floor: nothing to read")
		}
	}
	return total, nil
}

func readDirect(ctx context.Context, name string, buf []byte) (total int64, err error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for ctx.Err() == nil {
		n, err := f.Read(buf)
		total += int64(n)
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// DropCache takes files out of the page cache, as far as nobody maps them and their pages are on the disk.
func DropCache(files []string) error {
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
		f.Close()
		if err != nil {
			return fmt.Errorf("floor: fadvise %s: %w", name, err)
		}
	}
	return nil
}
