package uring

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// ErrNoDescriptor is returned by SendTo for a file without a descriptor (file systems in memory) or
// with one that the kernel cannot send from: the caller copies the bytes with ReadAt instead.
var ErrNoDescriptor = errors.New("uring: no descriptor to send from")

// FileRange is Len bytes of File from offset Off: the hand-over of stored bytes to whoever sends
// them. It holds one use of the file, taken by the one who made the range; the holder must call
// Release once. Copies of the value share that one use.
type FileRange struct {
	File *File
	Off  int64
	Len  int

	// Shares says that the next range in a list is of the same file and holds the use for both: who sends the list in
	// order is done with this one by then.
	Shares bool
}

// Release ends this use of the file. A zero FileRange has nothing to release.
func (r FileRange) Release() {
	if r.File != nil && !r.Shares {
		r.File.Release()
	}
}

// ReadAt copies bytes of the range, from offset at within it, into p. It follows io.ReaderAt: n <
// len(p) comes with an error, io.EOF at the range's end. A file that ends before the range does is
// io.ErrUnexpectedEOF.
func (r FileRange) ReadAt(p []byte, at int64) (int, error) {
	if at < 0 || at > int64(r.Len) {
		return 0, fmt.Errorf("uring: read at %d of a range of %d bytes: outside", at, r.Len)
	}
	want := min(len(p), r.Len-int(at))
	n, err := r.File.r.ReadAt(p[:want], r.Off+at)
	if err == io.EOF {
		err = nil // the file may end where the range does
	}
	switch {
	case n < want && err == nil:
		return n, fmt.Errorf("uring: read %d+%d: file ends after %d bytes: %w", r.Off+at, want, n, io.ErrUnexpectedEOF)
	case n == want && want < len(p):
		return n, io.EOF
	case n == want:
		return n, nil
	}
	return n, err
}

// SendTo hands up to max bytes from the range's front to the non-blocking socket sock by
// sendfile(2), without a copy through user space, and takes what the kernel accepted off the range.
// It makes one successful call at most: 0 < n < max without an error is usual. unix.EAGAIN means
// that the socket is full, ErrNoDescriptor that the caller must copy, io.ErrUnexpectedEOF that the
// file ends before the range does.
func (r *FileRange) SendTo(sock int, max int) (int, error) {
	if r.File.fd < 0 {
		return 0, ErrNoDescriptor
	}
	want := min(max, r.Len)
	if want <= 0 {
		return 0, nil
	}
	for {
		off := r.Off // the file's own position is not used: others send from the same descriptor
		n, err := unix.Sendfile(sock, r.File.fd, &off, want)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EINVAL || err == unix.ENOSYS || err == unix.EOPNOTSUPP:
			return 0, ErrNoDescriptor
		case err != nil:
			return 0, err
		case n == 0:
			return 0, fmt.Errorf("uring: sendfile at %d: file ends %d bytes before the range: %w", r.Off, r.Len, io.ErrUnexpectedEOF)
		}
		r.Off += int64(n)
		r.Len -= n
		return n, nil
	}
}
