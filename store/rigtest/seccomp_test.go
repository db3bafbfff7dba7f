package rigtest

import (
	"golang.org/x/sys/unix"

	"ringmq/store/vfs/vfstest"
)

// denyRing makes the kernel refuse io_uring to this whole process: io_uring_setup, _enter and _register are
// system calls 425 to 427 everywhere.
func denyRing() error {
	return vfstest.Deny(unix.EPERM, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_REGISTER)
}
