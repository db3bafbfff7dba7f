package vfstest

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"testing"
)

func testReadWrite(t *testing.T, s suite) {
	f := s.create("f")
	s.write(f, "world", 6)
	s.reads(f, "\x00\x00\x00\x00\x00\x00world")
	s.write(f, "hello ", 0)
	s.reads(f, "hello world")
	s.write(f, "", 0)
	got := make([]byte, 8)
	if n, err := f.ReadAt(got, 6); n != 5 || err != io.EOF || string(got[:n]) != "world" {
		t.Errorf("read %q, %v", got[:n], err)
	}
	if n, err := f.ReadAt(got, 11); n != 0 || err != io.EOF {
		t.Errorf("read %d bytes at the end, %v", n, err)
	}
	big := strings.Repeat("0123456789abcdef", 4096/16*3) // over page boundaries
	s.write(f, big, 4090)
	got = make([]byte, len(big))
	if _, err := f.ReadAt(got, 4090); err != nil || string(got) != big {
		t.Errorf("read back something else, %v", err)
	}
	if n, err := f.WriteAt([]byte("x"), -1); n != 0 || err == nil {
		t.Errorf("wrote %d bytes before the start", n)
	}
	if n, err := f.ReadAt(got, -1); n != 0 || err == nil {
		t.Errorf("read %d bytes before the start", n)
	}
	s.ok(f.Sync())
	s.ok(f.Close())
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("wrote to a closed file")
	}
	if f.Sync() == nil {
		t.Error("synced a closed file")
	}
}

func testReadOnly(t *testing.T, s suite) {
	s.put("f", "text")
	f, err := s.fs.OpenRead(s.path("f"))
	s.ok(err)
	defer f.Close()
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("wrote")
	}
	if _, err := f.WriteVec([][]byte{{1}}, 0); err == nil {
		t.Error("wrote a vector")
	}
	if f.Truncate(0) == nil {
		t.Error("truncated")
	}
	s.reads(f, "text")
}

// testVectors writes more buffers than one system call takes, empty ones among them.
func testVectors(t *testing.T, s suite) {
	f := s.create("f")
	var bufs [][]byte
	var want bytes.Buffer
	for i := range 3000 {
		b := bytes.Repeat([]byte{byte(i)}, i%7)
		bufs = append(bufs, b)
		want.Write(b)
	}
	bufs = append(bufs, make([][]byte, 2000)...) // nothing but empty ones at the end
	bufs = append(bufs, []byte("end"))
	want.WriteString("end")
	copied := append([][]byte(nil), bufs...)
	n, err := f.WriteVec(bufs, 5)
	s.ok(err)
	if n != want.Len() {
		t.Fatalf("wrote %d bytes of %d", n, want.Len())
	}
	s.reads(f, "\x00\x00\x00\x00\x00"+want.String())
	for i := range bufs {
		if !bytes.Equal(bufs[i], copied[i]) {
			t.Fatalf("buffer %d was changed", i)
		}
	}
	for _, none := range [][][]byte{nil, {}, {nil, {}}} {
		if n, err := f.WriteVec(none, 0); n != 0 || err != nil {
			t.Errorf("writing nothing: %d bytes, %v", n, err)
		}
	}
}

func testTruncate(t *testing.T, s suite) {
	f := s.create("f")
	s.write(f, strings.Repeat("x", 10000), 0)
	s.ok(f.Truncate(5000))
	s.ok(f.Truncate(10000))
	s.reads(f, strings.Repeat("x", 5000)+strings.Repeat("\x00", 5000))
	s.ok(f.Truncate(0))
	s.reads(f, "")
	if f.Truncate(-1) == nil {
		t.Error("truncated to -1")
	}
}

func testPreallocate(t *testing.T, s suite) {
	f := s.create("f")
	s.write(f, "head", 0)
	s.ok(f.Preallocate(10000))
	s.reads(f, "head"+strings.Repeat("\x00", 9996))
	s.ok(f.Preallocate(5000)) // nothing to do
	s.write(f, "tail", 9998)
	s.reads(f, "head"+strings.Repeat("\x00", 9994)+"tail")
	s.ok(f.Sync())
}

func testManyWriters(t *testing.T, s suite) {
	f := s.create("f")
	const writers, each = 8, 50
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				at := int64(w*each+i) * 100
				if _, err := f.WriteVec([][]byte{{byte(w)}, bytes.Repeat([]byte{byte(i)}, 99)}, at); err != nil {
					t.Error(err)
				}
				if i%10 == 0 && f.Sync() != nil {
					t.Error("sync failed")
				}
			}
		})
	}
	all.Wait()
	got := make([]byte, 100)
	for w := range writers {
		for i := range each {
			_, err := f.ReadAt(got, int64(w*each+i)*100)
			s.ok(err)
			if got[0] != byte(w) || got[1] != byte(i) || got[99] != byte(i) {
				t.Fatalf("writer %d's record %d holds %v", w, i, got)
			}
		}
	}
}
