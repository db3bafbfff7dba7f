package uring

import (
	"os"

	"golang.org/x/sys/unix"
)

// IdlePriority is the I/O priority of reads that are served when nobody else wants the disk (ioprio_set(2): class idle). I/O
// schedulers that know priorities heed it: bfq, mq-deadline.
const IdlePriority = 3 << 13

// LowerThread gives the calling thread IdlePriority. The caller has locked its goroutine to the thread.
func LowerThread() error {
	const whoProcess = 1 // with 0: the calling thread
	if _, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, whoProcess, 0, IdlePriority); errno != 0 {
		return os.NewSyscallError("ioprio_set", errno)
	}
	return nil
}
