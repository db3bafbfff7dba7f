package inspect

import (
	"errors"
	"syscall"

	"ringmq/store/vfs"
)

// seekData asks the kernel for the next place of a file that is not in a hole (Linux, lseek(2)).
const seekData = 3

// dataFrom returns the first place from off on at which a file may hold something other than zeros, at
// most end. Files of the log and of queues are made in full length and are mostly holes, which would take
// as long to read as data. Where the file system does not tell, it is off.
func dataFrom(f vfs.File, off, end int64) int64 {
	if f.Fd() < 0 {
		return off
	}
	at, err := syscall.Seek(f.Fd(), off, seekData)
	switch {
	case errors.Is(err, syscall.ENXIO): // none any more
		return end
	case err != nil:
		return off
	}
	return min(at, end)
}
