package log

import (
	"bytes"
	"errors"
	"path"
	"testing"

	"golang.org/x/sys/unix"

	"ringmq/store/vfs/osfs"
	"ringmq/uring"
)

// TestReadersKeepTheirBytes: a consumer is slow, its messages are removed, and the log goes on and on in used files. It
// gets what it was to get: from a socket that holds pages of the file though nobody holds the file any more, and from a
// range that still waits to be sent, mapped or not.
func TestReadersKeepTheirBytes(t *testing.T) {
	const n = 20 << 10
	for name, read := range map[string]func(t *testing.T, l *Log, pair [2]int) (rest func()){
		"pages in a socket": func(t *testing.T, l *Log, pair [2]int) func() {
			rng, err := l.Range(0, n)
			if err != nil {
				t.Fatal(err)
			}
			defer rng.Release()
			for rng.Len > 0 {
				if _, err := rng.SendTo(pair[1], rng.Len); err != nil {
					t.Fatal(err)
				}
			}
			return func() {}
		},
		"a queued range": func(t *testing.T, l *Log, pair [2]int) func() {
			rng, err := l.Range(0, n)
			if err != nil {
				t.Fatal(err)
			}
			return func() {
				for rng.Len > 0 {
					if _, err := rng.SendTo(pair[1], rng.Len); err != nil {
						t.Fatal(err)
					}
				}
				rng.Release()
			}
		},
		"a mapped range": func(t *testing.T, l *Log, pair [2]int) func() {
			rng, err := l.Range(0, n)
			if err != nil {
				t.Fatal(err)
			}
			b, mapping, err := rng.Map()
			if err != nil {
				t.Fatal(err)
			}
			return func() {
				var v uring.Vec
				v.Add(b)
				if sent, err := v.Send(pair[1], false); sent != n || err != nil {
					t.Fatalf("sent %d bytes, %v", sent, err)
				}
				mapping.Release()
				rng.Release()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, osfs.New(osfs.Options{}), nil, func(c *Config) {
				c.Dirs, c.SegmentBytes, c.StagingBytes, c.Recycle = []string{path.Join(t.TempDir(), "log")}, 64<<10, 64<<10, true
			})
			defer func() {
				if err := errors.Join(r.drain(), r.Close()); err != nil {
					t.Error(err)
				}
			}()
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(pair[0])
			defer unix.Close(pair[1])
			var rest func()
			for i := range 100 {
				r.await(func() bool { return r.Reserve(n) == nil })
				r.Release(n)
				end := r.append(n, byte('a'+i%26))
				r.await(func() bool { return r.Durable() == end })
				if i == 0 {
					rest = read(t, r.Log, pair)
				}
				if all := *r.segments.Load(); len(all) > 2 {
					if err := r.Drop(all[0].base, true, nil); err != nil {
						t.Fatal(err)
					}
				}
			}
			used := r.Stats().Recycled
			rest()
			got := make([]byte, n)
			for at := 0; at < n; {
				k, err := unix.Read(pair[0], got[at:])
				if err != nil || k == 0 {
					t.Fatalf("after %d bytes: %d, %v", at, k, err)
				}
				at += k
			}
			if same := bytes.Count(got, []byte{'a'}); same != n {
				t.Errorf("%d of %d bytes are others now", n-same, n)
			}
			if used == 0 {
				t.Skip("no file was used again: this kernel or file system cannot tell who reads one")
			}
		})
	}
}
