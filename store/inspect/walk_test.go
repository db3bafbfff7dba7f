package inspect

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"testing"

	"ringmq/store/record"
	"ringmq/store/vfs"
	"ringmq/store/vfs/osfs"
)

// bytesFile is a file of the log in memory; only reading works.
type bytesFile struct {
	vfs.File
	*bytes.Reader
}

func (f bytesFile) ReadAt(p []byte, off int64) (int, error) { return f.Reader.ReadAt(p, off) }
func (f bytesFile) Fd() int                                 { return -1 }
func (f bytesFile) Close() error                            { return nil }
func (f bytesFile) Size() (int64, error)                    { return f.Reader.Size(), nil }

func walkerOf(b []byte, base int64) *walker {
	return &walker{file: bytesFile{Reader: bytes.NewReader(b)}, base: base, size: int64(len(b)), must: record.CheckOff}
}

// FuzzWalk: whatever the bytes are, records and gaps follow each other without a hole from the file's
// start to its end or its filler, and each record verifies where it stands.
func FuzzWalk(f *testing.F) {
	for _, archive := range []string{theirs + "plain", theirs + "batch", theirs + "ipv6", theirs + "crc"} {
		b := readFile(f, unpack(f, archive+".tar.gz"), "/commitlog/00000000000000000000")[:4096]
		f.Add(b, int64(0))
		f.Add(flip(700)(bytes.Clone(b)), int64(0))
		f.Add(zero(300, 900)(bytes.Clone(b)), int64(0))
	}
	f.Add(record.AppendBlank(nil, 64), int64(64))
	f.Fuzz(func(t *testing.T, b []byte, base int64) {
		if base < 0 || base > 1<<40 {
			return
		}
		next := base
		full, err := walkerOf(b, base).walk(0, func(at int64, r *record.Record) error {
			var again record.Record
			if at != next || record.Verify(b[at-base:], at, &again) != nil || again.Size != r.Size {
				t.Fatalf("a record of %d bytes at %d, want one at %d", r.Size, at, next)
			}
			next = at + int64(r.Size)
			return nil
		}, func(g Gap) error {
			if g.At != next || g.Bytes <= 0 || g.Used < 0 || g.Used > g.Bytes || g.Err == nil {
				t.Fatalf("gap %+v, want one at %d", g, next)
			}
			gap := b[g.At-base : g.At-base+g.Bytes]
			if len(bytes.TrimRight(gap, "\x00")) != int(g.Used) {
				t.Fatalf("gap %+v: the last byte that is not zero is elsewhere", g)
			}
			next += g.Bytes
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if end := base + int64(len(b)); next != end && !full {
			t.Fatalf("the walk ended at %d of %d", next, end)
		}
	})
}

// TestWalkResumes: behind each bad place the next whole record is found, also right behind it, and a
// record whose size lies does not swallow the file.
func TestWalkResumes(t *testing.T) {
	fsys := unpack(t, theirs+"plain.tar.gz")
	whole := readFile(t, fsys, "/commitlog/00000000000000000000")
	var at []int64
	count := func(b []byte) (records []int64, gaps []Gap) {
		_, err := walkerOf(b, 0).walk(0, func(at int64, _ *record.Record) error {
			records = append(records, at)
			return nil
		}, func(g Gap) error {
			gaps = append(gaps, g)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return records, gaps
	}
	at, _ = count(whole)
	for i, off := range at[:len(at)-1] {
		for _, spoil := range []func([]byte) []byte{flip(int(off)), flip(int(off) + 4), flip(int(off) + 35), zero(int(off), int(at[i+1])), zero(int(off)+4, int(at[i+1]))} {
			records, gaps := count(spoil(bytes.Clone(whole)))
			if len(records) != len(at)-1 || len(gaps) != 2 || gaps[0].At != off || gaps[0].Bytes != at[i+1]-off {
				t.Fatalf("record %d at %d spoiled: %d records of %d, gaps %+v", i, off, len(records), len(at), gaps)
			}
		}
	}
}

// failing is a file of which a part cannot be read.
type failing struct {
	bytesFile
	from int64
}

var errDisk = errors.New("the disk says no")

func (f failing) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.from {
		return 0, errDisk
	}
	return f.bytesFile.ReadAt(p, off)
}

// TestReadErrorIsNoRecord: what the disk does not give is a gap up to the file's end that says so.
func TestReadErrorIsNoRecord(t *testing.T) {
	for _, cause := range []struct {
		w    *walker
		want error
	}{
		{&walker{file: failing{bytesFile{Reader: bytes.NewReader(make([]byte, 100))}, 50}, size: 100}, errDisk},
		{&walker{file: bytesFile{Reader: bytes.NewReader(make([]byte, 50))}, size: 100}, io.ErrUnexpectedEOF}, // cut meanwhile
	} {
		gaps := 0
		_, err := cause.w.walk(0, func(int64, *record.Record) error { return nil }, func(g Gap) error {
			gaps++
			if !errors.Is(g.Err, errNotRead) || !errors.Is(g.Err, cause.want) || g.Bytes != 100 {
				t.Errorf("gap %+v, want one of %v", g, cause.want)
			}
			return nil
		})
		if err != nil || gaps != 1 {
			t.Errorf("%d gaps, %v", gaps, err)
		}
	}
}

// TestHolesHideNothing: whatever was written to a file, holes around it or not, is found from any place
// before it.
func TestHolesHideNothing(t *testing.T) {
	fsys := osfs.New(osfs.Options{Log: slog.New(slog.DiscardHandler)})
	const size = 1 << 22
	for _, at := range []int64{0, 1, 4095, 100_000, size / 2, size - 1} {
		f, err := fsys.Create(filepath.Join(t.TempDir(), "f"))
		if err != nil {
			t.Fatal(err)
		}
		_, werr := f.WriteAt([]byte{1}, at)
		if err := errors.Join(f.Truncate(size), werr); err != nil {
			t.Fatal(err)
		}
		for _, from := range []int64{0, at / 2, at} {
			if got := dataFrom(f, from, size); got < from || got > at {
				t.Errorf("a byte at %d: from %d on data begins at %d", at, from, got)
			}
		}
		w := &walker{file: f, size: size, must: record.CheckOff}
		if next, used, err := w.search(0); next != size || used != at+1 || err != nil {
			t.Errorf("a byte at %d: search finds %d, %d, %v", at, next, used, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
