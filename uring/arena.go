package uring

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Arena is off-heap memory that begins at a page, for reads by the kernel. It costs nothing until it is touched. Who may
// touch which bytes is for its users to agree on.
type Arena struct {
	mem []byte // nil after Close
}

// NewArena maps n bytes.
func NewArena(n int) (*Arena, error) {
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("uring: arena of %d bytes: mmap: %w", n, err)
	}
	return &Arena{mem}, nil
}

// Bytes returns n bytes from off.
func (a *Arena) Bytes(off, n int) []byte { return a.mem[off : off+n : off+n] }

// Forget gives the memory of n bytes from off back to the kernel until it is touched again; both are whole pages. What it
// held is gone.
func (a *Arena) Forget(off, n int) error {
	if err := unix.Madvise(a.mem[off:off+n], unix.MADV_DONTNEED); err != nil {
		return fmt.Errorf("uring: arena: madvise: %w", err)
	}
	return nil
}

// Close gives all of it back. Slices from Bytes are dead afterwards: touching one is a fault. A second Close does nothing.
func (a *Arena) Close() error {
	if a.mem == nil {
		return nil
	}
	mem := a.mem
	a.mem = nil
	if err := unix.Munmap(mem); err != nil {
		return fmt.Errorf("uring: arena: munmap: %w", err)
	}
	return nil
}

// MemRange is bytes of memory that somebody else owns, on their way to a socket. The holder must call Release once; until
// then the bytes stay as they are. Copies of the value share that one use.
type MemRange struct {
	Bytes []byte
	Owner interface{ Release() } // nil: nothing to release
}

// Release ends this use of the memory.
func (m MemRange) Release() {
	if m.Owner != nil {
		m.Owner.Release()
	}
}
