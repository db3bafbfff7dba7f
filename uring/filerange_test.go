package uring

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// openTemp returns a File of the given bytes and whether it was closed.
func openTemp(t *testing.T, content []byte) (*File, *bool) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	closed := new(bool)
	return NewFile(int(f.Fd()), f, func() { *closed = true; f.Close() }), closed
}

// socketPair returns two connected non-blocking stream sockets with small buffers.
func socketPair(t *testing.T) (a, b int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fds[0]); unix.Close(fds[1]) })
	if err := unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 4096); err != nil {
		t.Fatal(err)
	}
	return fds[0], fds[1]
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

func TestSendToArrivesWhole(t *testing.T) {
	content := pattern(300_000)
	f, _ := openTemp(t, content)
	defer f.Release()
	out, in := socketPair(t)
	r := FileRange{File: f, Off: 1000, Len: 250_000}
	var got []byte
	buf := make([]byte, 10_000)
	for r.Len > 0 {
		before := r
		n, err := r.SendTo(out, 50_000)
		if err != nil && err != unix.EAGAIN {
			t.Fatal(err)
		}
		if n > 50_000 || r.Off != before.Off+int64(n) || r.Len != before.Len-n {
			t.Fatalf("SendTo = %d moved the range from %+v to %+v", n, before, r)
		}
		for { // the reader takes what is there
			n, err := unix.Read(in, buf)
			if err == unix.EAGAIN {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, buf[:n]...)
		}
		if err == unix.EAGAIN && n != 0 {
			t.Fatalf("EAGAIN with %d bytes", n)
		}
	}
	if !bytes.Equal(got, content[1000:251_000]) {
		t.Fatal("the bytes that arrived are not those of the range")
	}
	if n, err := r.SendTo(out, 10); n != 0 || err != nil {
		t.Fatalf("SendTo of an empty range = %d, %v", n, err)
	}
}

func TestSendToFullSocket(t *testing.T) {
	f, _ := openTemp(t, pattern(1<<20))
	defer f.Release()
	out, _ := socketPair(t)
	r := FileRange{File: f, Len: 1 << 20}
	for range 1 << 20 {
		if _, err := r.SendTo(out, 1<<20); err == unix.EAGAIN {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("a socket that nobody reads took everything")
}

func TestSendToErrors(t *testing.T) {
	f, _ := openTemp(t, pattern(100))
	defer f.Release()
	out, _ := socketPair(t)
	short := FileRange{File: f, Off: 50, Len: 100}
	if n, err := short.SendTo(out, 100); n != 50 || err != nil {
		t.Fatalf("the part that exists: %d, %v", n, err)
	}
	if _, err := short.SendTo(out, 100); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("beyond the file's end: %v", err)
	}
	mem := NewFile(-1, strings.NewReader("abc"), func() {})
	r := FileRange{File: mem, Len: 3}
	if _, err := r.SendTo(out, 3); err != ErrNoDescriptor {
		t.Fatalf("without a descriptor: %v", err)
	}
}

func TestRangeReadAt(t *testing.T) {
	mem := NewFile(-1, strings.NewReader("0123456789"), func() {})
	r := FileRange{File: mem, Off: 2, Len: 6} // "234567"
	for _, c := range []struct {
		at   int64
		n    int
		want string
		err  error
	}{
		{0, 6, "234567", nil}, {0, 3, "234", nil}, {4, 2, "67", nil},
		{4, 5, "67", io.EOF}, {6, 1, "", io.EOF}, {6, 0, "", nil},
	} {
		p := make([]byte, c.n)
		n, err := r.ReadAt(p, c.at)
		if string(p[:n]) != c.want || err != c.err {
			t.Errorf("ReadAt(%d bytes, %d) = %q, %v; want %q, %v", c.n, c.at, p[:n], err, c.want, c.err)
		}
	}
	for _, at := range []int64{-1, 7} {
		if _, err := r.ReadAt(make([]byte, 1), at); err == nil {
			t.Errorf("ReadAt(%d): no error", at)
		}
	}
	beyond := FileRange{File: mem, Off: 8, Len: 6}
	if n, err := beyond.ReadAt(make([]byte, 6), 0); n != 2 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("beyond the file: %d, %v", n, err)
	}
	exact := FileRange{File: mem, Off: 8, Len: 2}
	if n, err := exact.ReadAt(make([]byte, 2), 0); n != 2 || err != nil {
		t.Errorf("up to the file's last byte: %d, %v", n, err)
	}
}

func TestFileClosesWithItsLastUser(t *testing.T) {
	f, closed := openTemp(t, nil)
	if !f.Acquire() {
		t.Fatal("Acquire of an open file")
	}
	f.Release()
	if *closed {
		t.Fatal("closed with a user left")
	}
	FileRange{File: f}.Release()
	if !*closed {
		t.Fatal("not closed by the last Release")
	}
	if f.Acquire() {
		t.Fatal("Acquire of a closed file")
	}
	FileRange{}.Release() // nothing to release
	defer func() {
		if recover() == nil {
			t.Error("one Release too many did not panic")
		}
	}()
	f.Release()
}

// TestFileAcquireRace: readers come and go while the owner leaves; the file closes exactly once and
// no reader holds it afterwards.
func TestFileAcquireRace(t *testing.T) {
	var closed int
	f := NewFile(-1, strings.NewReader(""), func() { closed++ })
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for f.Acquire() {
				f.Release()
			}
		})
	}
	f.Release()
	wg.Wait()
	if closed != 1 {
		t.Fatalf("closed %d times", closed)
	}
}
