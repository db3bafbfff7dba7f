package uring

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// sparse returns a file of size bytes, with content at off, that maps can map.
func sparse(t *testing.T, maps *Maps, size, off int64, content []byte) (*File, *os.File) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(content, off); err != nil {
		t.Fatal(err)
	}
	return maps.NewFile(int(f.Fd()), size, f, func() { f.Close() }), f
}

// TestMapped: ranges in both windows of a file, and one across their border, arrive as they are in the file.
func TestMapped(t *testing.T) {
	maps, content := NewMaps(4), pattern(300_000)
	const at = windowBytes - 150_000
	f, _ := sparse(t, maps, windowBytes+200_000, at, content)
	out, in := socketPair(t)
	got := make([]byte, 10_000)
	for _, from := range []int{0, 100_000, 149_999, 150_000, 299_000} {
		b, m, err := FileRange{File: f, Off: at + int64(from), Len: 1000}.Map()
		if err != nil {
			t.Fatal(err)
		}
		var v Vec
		v.Add(b)
		if n, err := v.Send(out, false); n != 1000 || err != nil {
			t.Fatalf("Send = %d, %v", n, err)
		}
		if n, err := unix.Read(in, got); err != nil || !bytes.Equal(got[:n], content[from:from+1000]) {
			t.Fatalf("from %d: other bytes, %v", from, err)
		}
		m.Release()
	}
	if n := maps.Bytes(); n != windowBytes+200_000+200_000 {
		t.Errorf("%d bytes are mapped", n)
	}
	for _, r := range []FileRange{{Off: -1, Len: 10}, {Len: -1}, {Off: windowBytes + 199_000, Len: 1001}, {Len: MappedRangeMax + 1}} {
		r.File = f
		if _, _, err := r.Map(); err == nil || err == ErrNoDescriptor {
			t.Errorf("%+v: %v", r, err)
		}
	}
	f.Release()
	if n := maps.Bytes(); n != 0 {
		t.Errorf("%d bytes are mapped of a file that is gone", n)
	}
	mem := maps.NewFile(-1, 3, strings.NewReader("abc"), func() {})
	if _, _, err := (FileRange{File: mem, Len: 3}).Map(); err != ErrNoDescriptor {
		t.Errorf("without a descriptor: %v", err)
	}
}

// TestMappingsAreGoneBeforeTheFile: who takes a file over from its last reader may write to it anew.
func TestMappingsAreGoneBeforeTheFile(t *testing.T) {
	maps := NewMaps(4)
	file, err := os.Create(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(2 * windowBytes); err != nil {
		t.Fatal(err)
	}
	mapped := int64(-1)
	f := maps.NewFile(int(file.Fd()), 2*windowBytes, file, func() { mapped = maps.Bytes() })
	for _, off := range []int64{0, windowBytes} {
		_, m, err := FileRange{File: f, Off: off, Len: 10}.Map()
		if err != nil {
			t.Fatal(err)
		}
		m.Release()
	}
	f.Release()
	if mapped != 0 {
		t.Errorf("%d bytes were mapped when the last user was gone", mapped)
	}
}

// TestMapsAreBounded: the window mapped first makes room, but not before those who use it are done.
func TestMapsAreBounded(t *testing.T) {
	maps := NewMaps(2)
	f, _ := sparse(t, maps, 4*windowBytes, 0, []byte("x"))
	at := func(window int64) *Mapping {
		t.Helper()
		_, m, err := FileRange{File: f, Off: window * windowBytes, Len: 1}.Map()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	const one = windowBytes + MappedRangeMax
	used := at(0)
	for i := int64(1); i < 3; i++ {
		at(i).Release()
	}
	if n := maps.Bytes(); n != 3*one {
		t.Errorf("%d bytes are mapped, want two windows and the one in use", n)
	}
	used.Release()
	if n := maps.Bytes(); n != 2*one {
		t.Errorf("%d bytes are mapped, want two windows", n)
	}
	again := at(0)
	if again == used {
		t.Error("a mapping that is gone was handed out")
	}
	again.Release()
	f.Release()
	if n := maps.Bytes(); n != 0 {
		t.Errorf("%d bytes are mapped at the end", n)
	}
}

// TestMapsConcurrently: windows come and go while many use them.
func TestMapsConcurrently(t *testing.T) {
	maps := NewMaps(1)
	f, _ := sparse(t, maps, 3*windowBytes, 0, []byte("x"))
	var wg sync.WaitGroup
	for id := range 4 {
		wg.Go(func() {
			for i := range 300 {
				if !f.Acquire() {
					t.Error("the file is gone")
					return
				}
				r := FileRange{File: f, Off: int64((id + i) % 3 * windowBytes), Len: 1}
				if _, m, err := r.Map(); err != nil {
					t.Error(err)
				} else {
					m.Release()
				}
				r.Release()
			}
		})
	}
	wg.Wait()
	f.Release()
	if n := maps.Bytes(); n != 0 {
		t.Errorf("%d bytes are mapped at the end", n)
	}
}

// TestMappedPageThatCannotBeRead: the kernel says so instead of ending the process.
func TestMappedPageThatCannotBeRead(t *testing.T) {
	maps := NewMaps(1)
	f, file := sparse(t, maps, 1<<20, 0, []byte("x"))
	defer f.Release()
	b, m, err := FileRange{File: f, Off: 500_000, Len: 1000}.Map()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Release()
	if err := file.Truncate(4096); err != nil {
		t.Fatal(err)
	}
	out, _ := socketPair(t)
	var v Vec
	v.Add(b)
	if n, err := v.Send(out, false); n != 0 || err != unix.EFAULT {
		t.Errorf("Send = %d, %v; want EFAULT", n, err)
	}
}
