package uring

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// BenchmarkWays compares the ways from the page cache into a TCP connection on loopback. An answer is a header and 32 runs
// of a file, with seven times as much between two of them, as a pull from one queue of eight has it. Reported is the CPU
// time of the thread that sends, for a KiB: what is received beside it costs the same in all ways.
//
//	writev    header and all runs in one sendmsg, from a mapping
//	sendfile  the header, and one sendfile for each run
//	splice    the header, and the runs through a pipe, as many as fit, in one splice into the socket
func BenchmarkWays(b *testing.B) {
	for _, kib := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256} {
		for _, way := range []string{"writev", "sendfile", "splice"} {
			b.Run(fmt.Sprintf("run=%dKiB/way=%s", kib, way), func(b *testing.B) { benchWay(b, way, kib<<10+150) })
		}
	}
}

const (
	benchRuns      = 32
	benchFileBytes = 256 << 20
)

func benchWay(b *testing.B, way string, run int) {
	f, sock := benchFile(b), benchSocket(b)
	defer f.Release()
	w := ways{sock: sock, head: make([]byte, 200)}
	if way == "splice" {
		w.openPipe(b)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b.SetBytes(int64(benchRuns * run))
	at := 0
	runs := make([]FileRange, benchRuns)
	send := map[string]func([]FileRange) error{"writev": w.writev, "sendfile": w.sendfile, "splice": w.splice}[way]
	before := threadTime(b)
	for b.Loop() {
		if at+(benchRuns*8+1)*run > benchFileBytes {
			at = 0
		}
		for i := range runs {
			runs[i] = FileRange{File: f, Off: int64(at), Len: run}
			at += 8 * run
		}
		if err := send(runs); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(threadTime(b)-before)/float64(b.N)/float64(benchRuns*run)*1024, "cpu-ns/KiB")
}

// benchFile is in the page cache.
func benchFile(b *testing.B) *File {
	f, err := os.Create(filepath.Join(b.TempDir(), "segment"))
	if err != nil {
		b.Fatal(err)
	}
	for off := int64(0); off < benchFileBytes; off += 1 << 20 {
		if _, err := f.WriteAt(make([]byte, 1<<20), off); err != nil {
			b.Fatal(err)
		}
	}
	return NewMaps(8).NewFile(int(f.Fd()), benchFileBytes, f, func() { f.Close() })
}

// benchSocket is a blocking TCP connection whose other end is read as quickly as may be.
func benchSocket(b *testing.B) (fd int) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	at := l.Addr().(*net.TCPAddr).AddrPort()
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}); err != nil {
		b.Fatal(err)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		b.Fatal(err)
	}
	c, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	var reader sync.WaitGroup
	reader.Go(func() {
		defer c.Close()
		buf := make([]byte, 256<<10)
		for err == nil {
			_, err = c.Read(buf)
		}
		if err != io.EOF {
			b.Error(err)
		}
	})
	b.Cleanup(func() {
		unix.Close(fd)
		reader.Wait()
	})
	return fd
}

func threadTime(b *testing.B) int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// ways sends answers on a blocking socket.
type ways struct {
	sock int
	head []byte
	pipe [2]int
	room int
}

func (w *ways) writev(runs []FileRange) error {
	var v Vec
	v.Add(w.head)
	for i := 0; i < len(runs); {
		for ; i < len(runs); i++ {
			piece, m, err := runs[i].Map()
			if err != nil {
				return err
			}
			m.Release() // the file holds it
			if !v.Add(piece) {
				break
			}
		}
		want := v.Bytes()
		n, err := v.sendBlocking(w.sock)
		if err != nil || n != want {
			return fmt.Errorf("sent %d of %d bytes: %w", n, want, err)
		}
	}
	return nil
}

// sendBlocking is Send on a blocking socket.
func (v *Vec) sendBlocking(sock int) (int, error) {
	defer v.clear()
	v.hdr.Iov = &v.iov[0]
	v.hdr.SetIovlen(v.n)
	n, _, errno := unix.Syscall(unix.SYS_SENDMSG, uintptr(sock), uintptr(unsafe.Pointer(&v.hdr)), unix.MSG_NOSIGNAL)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

func (w *ways) sendfile(runs []FileRange) error {
	if _, err := unix.SendmsgN(w.sock, w.head, nil, nil, unix.MSG_MORE|unix.MSG_NOSIGNAL); err != nil {
		return err
	}
	for _, r := range runs {
		for r.Len > 0 {
			if _, err := r.SendTo(w.sock, r.Len); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *ways) openPipe(b *testing.B) {
	if err := unix.Pipe2(w.pipe[:], unix.O_CLOEXEC); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { unix.Close(w.pipe[0]); unix.Close(w.pipe[1]) })
	n, err := unix.FcntlInt(uintptr(w.pipe[1]), unix.F_SETPIPE_SZ, 1<<20)
	if err != nil {
		b.Fatal(err)
	}
	w.room = n / 4096
}

func (w *ways) splice(runs []FileRange) error {
	if _, err := unix.SendmsgN(w.sock, w.head, nil, nil, unix.MSG_MORE|unix.MSG_NOSIGNAL); err != nil {
		return err
	}
	filled, pages := 0, 0
	for i := 0; i < len(runs); {
		r := &runs[i]
		need := int((r.Off+int64(r.Len)-1)/4096-r.Off/4096) + 1
		part := r.Len
		if need > w.room-pages {
			if pages > 0 {
				if err := w.drain(filled, true); err != nil {
					return err
				}
				filled, pages = 0, 0
				continue
			}
			part = (w.room - 1) * 4096
		}
		off := r.Off
		n, err := unix.Splice(r.File.fd, &off, w.pipe[1], nil, part, 0)
		if err != nil {
			return err
		}
		filled += int(n)
		pages += int((r.Off+n-1)/4096-r.Off/4096) + 1
		if r.Off, r.Len = off, r.Len-int(n); r.Len == 0 {
			i++
		}
	}
	return w.drain(filled, false)
}

// drain moves what is in the pipe to the socket.
func (w *ways) drain(bytes int, more bool) error {
	flags := 0
	if more {
		flags = unix.SPLICE_F_MORE
	}
	for bytes > 0 {
		n, err := unix.Splice(w.pipe[0], nil, w.sock, nil, bytes, flags)
		if err != nil {
			return err
		}
		bytes -= int(n)
	}
	return nil
}
