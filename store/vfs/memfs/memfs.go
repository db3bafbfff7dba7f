package memfs

import (
	"math/rand/v2"

	"ringmq/store/vfs"
)

// FS is a file system in memory.
type FS struct{ vfs.FS }

// New returns an empty file system; seed decides in which order its engines complete flushes.
func New(seed uint64) *FS { panic("later") }

// Crash returns what a power cut leaves.
func (f *FS) Crash(rng *rand.Rand, keepPercent int) *FS { panic("later") }

// TearSectors makes crashes tear pages.
func (f *FS) TearSectors(on bool) { panic("later") }

// SetSpace limits the space.
func (f *FS) SetSpace(total int64) { panic("later") }

// HoldFlushes makes flushes wait for Release.
func (f *FS) HoldFlushes() { panic("later") }

// WaitHeld waits until n flushes are held.
func (f *FS) WaitHeld(n int) { panic("later") }

// Release completes the i-th oldest held flush.
func (f *FS) Release(i int, err error) { panic("later") }

// ReleaseAll completes all held flushes and ends HoldFlushes.
func (f *FS) ReleaseAll() { panic("later") }
