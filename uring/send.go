package uring

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// vecMax is how many pieces one sendmsg takes here; the kernel's own limit is 1024.
const vecMax = 256

// Vec gathers pieces of memory for one sendmsg(2). It is reused for call after call and allocates
// nothing. One goroutine at a time. The zero Vec is empty; it must not be copied.
type Vec struct {
	n     int
	bytes int
	iov   [vecMax]unix.Iovec
	hdr   unix.Msghdr
}

// Add puts a piece at the end and reports false when there is no place left. The piece must stay
// alive and unchanged until Send returns.
func (v *Vec) Add(b []byte) bool {
	if v.n == vecMax {
		return false
	}
	if len(b) == 0 {
		return true
	}
	v.iov[v.n].Base = unsafe.SliceData(b)
	v.iov[v.n].SetLen(len(b))
	v.n++
	v.bytes += len(b)
	return true
}

// Bytes is the sum of the pieces.
func (v *Vec) Bytes() int { return v.bytes }

// Send hands the pieces to the non-blocking socket sock in one call, empties the Vec, and returns how
// many bytes the kernel took: fewer than Bytes was means that the socket is full now. more tells the
// kernel that further bytes follow at once, so that it may wait for them to fill a segment.
// unix.EAGAIN means that nothing was taken because the socket is full.
func (v *Vec) Send(sock int, more bool) (int, error) {
	flags := uintptr(unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL)
	if more {
		flags |= unix.MSG_MORE
	}
	v.hdr.Iov = &v.iov[0]
	v.hdr.SetIovlen(v.n)
	defer v.clear()
	for {
		n, _, errno := unix.Syscall(unix.SYS_SENDMSG, uintptr(sock), uintptr(unsafe.Pointer(&v.hdr)), flags)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
			continue
		}
		return 0, errno
	}
}

// clear also drops the pointers, so that a Vec at rest keeps no buffer alive.
func (v *Vec) clear() {
	clear(v.iov[:v.n])
	v.n, v.bytes = 0, 0
}
