package faultfs

import (
	"errors"

	"ringmq/store/vfs"
)

// ErrPower is what every call returns after the cut.
var ErrPower = errors.New("faultfs: the power is out")

// FS wraps another file system.
type FS struct{ vfs.FS }

// Wrap returns a file system that passes everything on until it is told otherwise.
func Wrap(below vfs.FS) *FS { panic("later") }

// CutAt cuts the power at the k-th counted call (from 0).
func (f *FS) CutAt(k int) { panic("later") }

// IsCut reports whether the power is out.
func (f *FS) IsCut() bool { panic("later") }

// Calls is the number of counted calls so far.
func (f *FS) Calls() int { panic("later") }

// FailAt makes the k-th counted call fail with err.
func (f *FS) FailAt(k int, err error) { panic("later") }

// ShortWriteAt makes the k-th counted call, if it is a write, write n bytes and fail with ENOSPC.
func (f *FS) ShortWriteAt(k, n int) { panic("later") }

// Sites are the sync call sites seen so far, sorted.
func (f *FS) Sites() []string { panic("later") }

// Lie makes all syncs of a site do nothing and say that they did.
func (f *FS) Lie(site string) { panic("later") }

// HoldAt makes the k-th counted call wait.
func (f *FS) HoldAt(k int) *Gate { panic("later") }

// Gate holds one call.
type Gate struct{}

// Reached is closed when the call has come.
func (g *Gate) Reached() <-chan struct{} { panic("later") }

// Open lets the call go on.
func (g *Gate) Open() { panic("later") }
