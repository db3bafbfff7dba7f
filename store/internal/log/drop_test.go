package log

import (
	"errors"
	"runtime"
	"slices"
	"testing"

	"ringmq/store/internal/filename"
	"ringmq/store/vfs/memfs"
)

// fill appends until segments are full and durable, and the next one has begun.
func (r *rig) fill(segments int64) {
	r.t.Helper()
	const n = 9 << 10
	end := int64(0)
	for end <= segments*r.SegmentBytes() {
		r.await(func() bool { return r.Reserve(n) == nil })
		r.Release(n)
		end = r.append(n, 'x')
	}
	r.await(func() bool { return r.Durable() == end })
}

// names are the files in a directory of the disk.
func (r *rig) names(dir string) []string {
	r.t.Helper()
	names, err := r.disk.List(dir)
	if err != nil {
		r.t.Fatal(err)
	}
	return names
}

// TestDrop: a dropped segment is out of the log at once, and stays readable for who has a range of it;
// then its space is given back.
func TestDrop(t *testing.T) {
	disk := memfs.New(1)
	r := newRig(t, disk, disk, nil)
	defer r.shut()
	r.fill(2)
	held, err := r.Range(100, 10)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Drop(0, true, nil); err != nil { // nothing is used again where Config says so
		t.Fatal(err)
	}
	if got := r.Min(); got != 64<<10 {
		t.Errorf("the log begins at %d", got)
	}
	b := make([]byte, 10)
	if err := r.ReadAt(b, 100); !errors.Is(err, ErrOffset) {
		t.Errorf("read of what was dropped: %v", err)
	}
	if _, err := held.ReadAt(b, 0); err != nil || string(b) != "xxxxxxxxxx" {
		t.Errorf("the range that was held reads %q, %v", b, err)
	}
	if got := r.names("/log"); slices.Contains(got, filename.Of(0)) || !slices.Contains(got, filename.Of(64<<10)) {
		t.Errorf("files %v", got)
	}
	if got := r.names("/log/spare"); !slices.Contains(got, filename.Of(0)) {
		t.Errorf("removed while it was read: %v", got)
	}
	held.Release()
	for slices.Contains(r.names("/log/spare"), filename.Of(0)) {
		runtime.Gosched()
	}
}

// TestDropRefuses: only the oldest segment can be dropped, and never the last.
func TestDropRefuses(t *testing.T) {
	disk := memfs.New(1)
	r := newRig(t, disk, disk, nil)
	defer r.shut()
	r.fill(1)
	for _, base := range []int64{-1, 1, 64 << 10, 128 << 10} {
		if err := r.Drop(base, false, nil); !errors.Is(err, ErrOffset) {
			t.Errorf("drop of %d: %v", base, err)
		}
	}
	if err := r.Drop(0, false, nil); err != nil {
		t.Error(err)
	}
	if err := r.Drop(64<<10, false, nil); !errors.Is(err, ErrOffset) {
		t.Errorf("drop of the last one: %v", err)
	}
}

// TestCloseAfterDrop: a close leaves nothing of what was dropped, also while somebody still reads it.
func TestCloseAfterDrop(t *testing.T) {
	disk := memfs.New(1)
	r := newRig(t, disk, disk, nil)
	r.fill(2)
	held, err := r.Range(100, 10)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Drop(0, false, nil), r.Drop(64<<10, false, nil)); err != nil {
		t.Fatal(err)
	}
	r.shut()
	if got := r.names("/log"); !slices.Equal(got, []string{filename.Of(128 << 10)}) {
		t.Errorf("left over: %v", got)
	}
	held.Release()
}
