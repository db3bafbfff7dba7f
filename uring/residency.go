package uring

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Residency is a way to learn whether bytes of a file are in the page cache, so that reading them does not wait for
// the disk.
type Residency uint8

const (
	// ByCachestat asks cachestat(2), Linux 6.5: it reads nothing and changes nothing.
	ByCachestat Residency = iota

	// ByNoWait reads with RWF_NOWAIT and drops what it reads. Where bytes are missing, Linux 5.9 and later begin to read
	// them into the cache although the caller gets EAGAIN, and the bytes are copied: the second choice.
	ByNoWait

	// NoResidency means that the kernel does not tell.
	NoResidency
)

// String returns the system call's name.
func (r Residency) String() string {
	return [...]string{"cachestat", "preadv2(RWF_NOWAIT)", "none"}[r]
}

// ProbeResidency finds the best way that works on the open file fd, whose first byte it reads. why says what was wrong with the
// better ones; nil with ByCachestat.
func ProbeResidency(fd int) (r Residency, why error) {
	var one [1]byte
	n, _ := unix.Pread(fd, one[:], 0)
	pages, err := cachestat(fd, 0, 1)
	if err == nil && (pages > 0 || n < 1) {
		return ByCachestat, nil
	}
	why = fmt.Errorf("uring: %w", os.NewSyscallError("cachestat", err))
	if err == nil { // ZFS has a cache of its own, and some network file systems have none
		why = errors.New("uring: cachestat does not see a byte that was just read")
	}
	switch _, err := readNoWait(fd, one[:], 0); err {
	case nil, unix.EAGAIN:
		return ByNoWait, why
	default:
		return NoResidency, fmt.Errorf("%w, %w", why, os.NewSyscallError("preadv2(RWF_NOWAIT)", err))
	}
}

// Cached reports whether all of n bytes from off of fd are in the page cache. It does not wait for the disk. What cannot be
// told is no: NoResidency says that always. Any goroutine may call it.
func (r Residency) Cached(fd int, off, n int64) bool {
	switch r {
	case ByCachestat:
		page := int64(os.Getpagesize())
		first, last := off/page, (off+n-1)/page
		cached, err := cachestat(fd, off, n)
		return err == nil && cached == last-first+1
	case ByNoWait:
		buf := scratch.Get().(*[scratchBytes]byte)
		defer scratch.Put(buf)
		for n > 0 {
			got, err := readNoWait(fd, buf[:min(n, scratchBytes)], off)
			if got <= 0 || err != nil {
				return false
			}
			off, n = off+int64(got), n-int64(got)
		}
		return true
	}
	return false
}

const scratchBytes = 64 << 10

var scratch = sync.Pool{New: func() any { return new([scratchBytes]byte) }}

// cachestat counts the pages of a range that the cache holds.
func cachestat(fd int, off, n int64) (pages int64, err error) {
	var got unix.Cachestat_t
	for {
		err = unix.Cachestat(uint(fd), &unix.CachestatRange{Off: uint64(off), Len: uint64(n)}, &got, 0)
		if err != unix.EINTR {
			return int64(got.Cache), err
		}
	}
}

func readNoWait(fd int, p []byte, off int64) (n int, err error) {
	for {
		n, err = unix.Preadv2(fd, [][]byte{p}, off, unix.RWF_NOWAIT)
		if err != unix.EINTR {
			return n, err
		}
	}
}
