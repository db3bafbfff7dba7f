package uring

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	sys "github.com/iceber/iouring-go/syscall"
	"golang.org/x/sys/unix"
)

// Ring is one io_uring instance. It belongs to one goroutine at a time, which need not be locked to its thread; nothing
// here is safe for concurrent use, and nothing allocates per operation.
//
//	submission:  fill an entry, advance the tail (Fsync, Read, Poll) ... one enter(2) hands all of them over (Submit, Wait)
//	completion:  the kernel advances the tail of the other ring; Reap reads from the head and gives the entries back
//
// At most Entries operations are in flight; the completion ring has twice the room, so that it never overflows.
// An error of Submit or Wait is final: nobody can tell what the kernel has taken. Reap and Close still work.
// Memory that an operation names must stay where it is, off the Go heap, until its completion was reaped.
type Ring struct {
	// Set by NewRing, constant afterwards.
	fd      int
	entries uint32
	rings   []byte // submission and completion ring in one mapping
	sqeMem  []byte
	sqes    []sys.SubmissionQueueEntry64
	cqes    []sys.CompletionQueueEvent16
	sqHead  *uint32 // moved by the kernel
	sqTail  *uint32 // moved by us
	cqHead  *uint32 // moved by us
	cqTail  *uint32 // moved by the kernel
	sqMask  uint32
	cqMask  uint32

	// Owner goroutine only.
	inFlight uint32 // filled and not yet reaped
	unsent   uint32 // filled and not yet taken by the kernel
	wait     getEvents
	spec     unix.Timespec
}

// Completion is the outcome of one operation: Res is its result, or a negative errno.
type Completion struct {
	ID  uint64
	Res int32
}

// Err is the completion's error, or nil.
func (c Completion) Err() error {
	if c.Res < 0 {
		return syscall.Errno(-c.Res)
	}
	return nil
}

// getEvents is struct io_uring_getevents_arg of the kernel's io_uring.h.
type getEvents struct {
	sigmask   uint64
	sigmaskSz uint32
	pad       uint32
	ts        uint64
}

const (
	featExtArg     = 1 << 8 // IORING_FEAT_EXT_ARG: enter(2) takes a time-out; Linux 5.11
	enterExtArg    = 1 << 3 // IORING_ENTER_EXT_ARG
	wantedFeatures = sys.IORING_FEAT_SINGLE_MMAP | sys.IORING_FEAT_NODROP | featExtArg
)

var (
	_ = [1]struct{}{}[unsafe.Sizeof(sys.SubmissionQueueEntry64{})-64]
	_ = [1]struct{}{}[unsafe.Sizeof(sys.CompletionQueueEvent16{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(getEvents{})-24]
)

// NewRing makes a ring for entries operations in flight, a power of two. Where the kernel or its policy refuses, the
// error says why and what would permit it; the caller goes on without a ring.
func NewRing(entries uint32) (*Ring, error) {
	var p sys.IOURingParams
	fd, err := sys.IOURingSetup(uint(entries), &p)
	if err != nil {
		return nil, refusal(err)
	}
	unix.CloseOnExec(fd)
	r := &Ring{fd: fd, entries: p.SQEntries}
	if missing := wantedFeatures &^ p.Features; missing != 0 {
		return nil, errors.Join(fmt.Errorf("uring: the kernel's io_uring lacks features %#x: want Linux 5.11 or later", missing), r.Close())
	}
	if err := r.mapQueues(&p); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// refusal says in words why io_uring_setup(2) failed.
func refusal(err error) error {
	switch {
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("uring: this kernel has no io_uring (want Linux 5.11 or later): %w", err)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("uring: io_uring is forbidden, by sysctl kernel.io_uring_disabled or by the container's seccomp profile: %w", err)
	case errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("uring: no memory for the ring, see ulimit -l (memlock): %w", err)
	}
	return fmt.Errorf("uring: io_uring_setup: %w", err)
}

// mapQueues maps both rings and the submission entries, and fills the index array once: entry i is always in place i.
func (r *Ring) mapQueues(p *sys.IOURingParams) (err error) {
	size := max(p.SQOffset.Array+p.SQEntries*4, p.CQOffset.Cqes+p.CQEntries*uint32(unsafe.Sizeof(sys.CompletionQueueEvent16{})))
	const prot, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_POPULATE
	if r.rings, err = unix.Mmap(r.fd, int64(sys.IORING_OFF_SQ_RING), int(size), prot, flags); err != nil {
		return fmt.Errorf("uring: map the rings: %w", err)
	}
	entry := int(unsafe.Sizeof(sys.SubmissionQueueEntry64{}))
	if r.sqeMem, err = unix.Mmap(r.fd, int64(sys.IORING_OFF_SQES), int(p.SQEntries)*entry, prot, flags); err != nil {
		return fmt.Errorf("uring: map the submission entries: %w", err)
	}
	word := func(off uint32) *uint32 { return (*uint32)(unsafe.Pointer(&r.rings[off])) }
	r.sqHead, r.sqTail, r.sqMask = word(p.SQOffset.Head), word(p.SQOffset.Tail), *word(p.SQOffset.RingMask)
	r.cqHead, r.cqTail, r.cqMask = word(p.CQOffset.Head), word(p.CQOffset.Tail), *word(p.CQOffset.RingMask)
	r.sqes = unsafe.Slice((*sys.SubmissionQueueEntry64)(unsafe.Pointer(&r.sqeMem[0])), p.SQEntries)
	r.cqes = unsafe.Slice((*sys.CompletionQueueEvent16)(unsafe.Pointer(&r.rings[p.CQOffset.Cqes])), p.CQEntries)
	for i := range p.SQEntries {
		*word(p.SQOffset.Array + 4*i) = i
	}
	return nil
}

// Entries is how many operations may be in flight.
func (r *Ring) Entries() int { return int(r.entries) }

// InFlight is how many operations were filled and not yet reaped.
func (r *Ring) InFlight() int { return int(r.inFlight) }

// Fsync fills an fdatasync of fd. It covers what was written to the file before the Submit or Wait that hands it over.
func (r *Ring) Fsync(fd int, id uint64) {
	r.next(sys.IORING_OP_FSYNC, fd, id).SetOpFlags(sys.IORING_FSYNC_DATASYNC)
}

// Read fills a read of len(p) bytes of fd from off into p, which is off the Go heap, with an I/O priority such as
// IdlePriority; 0 is the thread's own. The result is the number of bytes, which may be short.
func (r *Ring) Read(fd int, p []byte, off int64, priority uint16, id uint64) {
	e := r.next(sys.IORING_OP_READ, fd, id)
	e.PrepOperation(sys.IORING_OP_READ, int32(fd), uint64(uintptr(unsafe.Pointer(unsafe.SliceData(p)))), uint32(len(p)), uint64(off))
	e.SetIoprio(priority)
}

// SetEvent has the kernel write to an eventfd with every completion, so that nobody needs to wait in the kernel.
func (r *Ring) SetEvent(eventFd int) error {
	fd := int32(eventFd)
	if err := sys.IOURingRegister(r.fd, sys.IORING_REGISTER_EVENTFD, unsafe.Pointer(&fd), 1); err != nil {
		return fmt.Errorf("uring: %w", err)
	}
	return nil
}

// Poll fills a one-shot wait until fd can be read.
func (r *Ring) Poll(fd int, id uint64) {
	r.next(sys.IORING_OP_POLL_ADD, fd, id).SetOpFlags(unix.POLLIN)
}

// Nop fills an operation that does nothing: it measures the way to the kernel and back.
func (r *Ring) Nop(id uint64) {
	r.next(sys.IORING_OP_NOP, -1, id)
}

// next takes the next free entry. More than Entries in flight is a bug of the caller.
func (r *Ring) next(op uint8, fd int, id uint64) *sys.SubmissionQueueEntry64 {
	if r.inFlight == r.entries {
		panic(fmt.Sprintf("uring: operation %d: %d are in flight already", id, r.inFlight))
	}
	e := &r.sqes[(*r.sqTail+r.unsent)&r.sqMask]
	e.Reset()
	e.PrepOperation(op, int32(fd), 0, 0, 0)
	e.SetUserData(id)
	r.inFlight++
	r.unsent++
	return e
}

// Submit hands over what was filled and does not wait.
func (r *Ring) Submit() error { return r.enter(0, 0) }

// Wait hands over what was filled and waits until at least one completion is there, for as long as limit says; a limit
// below zero is none. That the time is over is no error: Reap then finds nothing.
func (r *Ring) Wait(limit time.Duration) error {
	if limit == 0 {
		return r.Submit()
	}
	return r.enter(1, limit)
}

// enter calls io_uring_enter(2) until the kernel took every filled entry and, with min 1, a completion is there or the
// limit is over. The kernel may take fewer entries than offered, be interrupted by the Go runtime's preemption signal
// (EINTR), and return without the completion that was asked for.
func (r *Ring) enter(min uint32, limit time.Duration) error {
	tail := *r.sqTail + r.unsent
	atomic.StoreUint32(r.sqTail, tail)
	var end time.Time
	if limit > 0 {
		end = time.Now().Add(limit)
	}
	for r.unsent > 0 || min > 0 && !r.ready() {
		var flags uint32
		var arg unsafe.Pointer
		if min > 0 {
			flags = sys.IORING_ENTER_FLAGS_GETEVENTS
			if limit > 0 {
				left := time.Until(end)
				if left <= 0 && r.unsent == 0 {
					return nil
				}
				flags |= enterExtArg
				arg = r.timeout(max(left, 0))
			}
		}
		_, _, errno := unix.Syscall6(sys.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(r.unsent), uintptr(min), uintptr(flags), uintptr(arg), unsafe.Sizeof(r.wait))
		r.unsent = tail - atomic.LoadUint32(r.sqHead)
		switch errno {
		case 0, unix.EINTR, unix.ETIME, unix.EAGAIN:
		default:
			return os.NewSyscallError("io_uring_enter", errno)
		}
	}
	return nil
}

// timeout fills the argument that carries a time limit. Both structures are fields of r, which is on the heap and so
// stays in place during the call.
func (r *Ring) timeout(d time.Duration) unsafe.Pointer {
	r.spec = unix.NsecToTimespec(int64(d))
	r.wait = getEvents{ts: uint64(uintptr(unsafe.Pointer(&r.spec)))}
	return unsafe.Pointer(&r.wait)
}

// ready tells that Reap would find a completion.
func (r *Ring) ready() bool { return *r.cqHead != atomic.LoadUint32(r.cqTail) }

// Reap appends the completions that are there to into, in the order in which the kernel finished them, and returns it.
func (r *Ring) Reap(into []Completion) []Completion {
	head, tail := *r.cqHead, atomic.LoadUint32(r.cqTail)
	for ; head != tail; head++ {
		e := &r.cqes[head&r.cqMask]
		into = append(into, Completion{ID: e.UserData(), Res: e.Result()})
		r.inFlight--
	}
	atomic.StoreUint32(r.cqHead, head)
	return into
}

// Close gives the ring back to the kernel, which finishes what is in flight on its own. Wait for it before where memory
// or descriptors in use would go away. A second Close does nothing.
func (r *Ring) Close() error {
	if r.fd < 0 {
		return nil
	}
	var errs []error
	for _, mem := range [][]byte{r.rings, r.sqeMem} {
		if mem != nil {
			errs = append(errs, unix.Munmap(mem))
		}
	}
	errs = append(errs, unix.Close(r.fd))
	r.fd, r.rings, r.sqeMem = -1, nil, nil
	return errors.Join(errs...)
}
