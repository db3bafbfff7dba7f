package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"path"
	"strings"
	"syscall"
	"testing"

	"ringmq/store/vfs"
	"ringmq/store/vfs/faultfs"
	"ringmq/store/vfs/memfs"
)

// TestRefuse: a directory that cannot be worked on is refused with its path, the reason and a remedy, and
// is left as it was.
func TestRefuse(t *testing.T) {
	golden := func(t *testing.T, fsys vfs.FS) { unpack(t, fsys, "plain") }
	for _, tc := range []struct {
		name    string
		prepare func(*testing.T, vfs.FS)
		change  func(*Options)
		is      error
		says    []string
	}{
		{"somebody's files", func(t *testing.T, f vfs.FS) { writeFile(t, f, "/holiday.jpg", []byte("x")) }, nil,
			ErrForeign, []string{"holiday.jpg", "empty directory"}},
		{"RocksDB queues", func(t *testing.T, f vfs.FS) { writeFile(t, f, "/consumequeue/CURRENT", []byte("x")) }, nil,
			ErrForeign, []string{"/consumequeue", "RocksDB"}},
		{"DLedger", func(t *testing.T, f vfs.FS) {
			golden(t, f)
			writeFile(t, f, "/dledger-n0/data/00000000000000000000", []byte("x"))
		}, nil, ErrForeign, []string{"/dledger-n0", "DLedger"}},
		{"other segment size", golden, func(o *Options) { o.SegmentBytes = 65536 }, nil, []string{"/commitlog", "131072", "65536"}},
		{"other queue file size", golden, func(o *Options) { o.QueueFileBytes = 400 }, nil, []string{"/consumequeue", "6000", "400"}},
		{"stray file in the log", func(t *testing.T, f vfs.FS) {
			golden(t, f)
			writeFile(t, f, "/commitlog/x.tmp", []byte("x"))
		}, nil, nil, []string{"x.tmp", "/commitlog", "move it away"}},
		{"a log of three bytes", func(t *testing.T, f vfs.FS) {
			writeFile(t, f, "/commitlog/00000000000000000000", []byte("abc"))
		}, nil, nil, []string{"/commitlog/00000000000000000000", "3 bytes", "cut short", "restore it from a copy", "move it away"}},
		{"the first of two files cut short", func(t *testing.T, f vfs.FS) {
			writeFile(t, f, "/commitlog/00000000000000000000", []byte("abc"))
			writeFile(t, f, "/commitlog/00000000000000131072", make([]byte, 131072))
		}, nil, nil, []string{"/commitlog/00000000000000000000", "3 bytes", "restore it from a copy"}},
		{"log gone", func(t *testing.T, f vfs.FS) {
			golden(t, f)
			if err := f.Remove("/commitlog/00000000000000000000"); err != nil {
				t.Fatal(err)
			}
		}, nil, nil, []string{"/commitlog", "/consumequeue", "restore"}},
		{"newer format", func(t *testing.T, f vfs.FS) {
			golden(t, f)
			writeFile(t, f, "/ringmq.checkpoint", binary.BigEndian.AppendUint32([]byte("ringmqck"), 4))
		}, nil, ErrNewer, []string{"/ringmq.checkpoint", "format 4"}},
		{"five mistakes", nil, func(o *Options) {
			o.SegmentBytes, o.QueueFileBytes, o.FlushDepth, o.StagingBytes, o.FlushLeastPages = 5, -20, 99, 100, -1
		}, nil, []string{"log files of 5", "queue files of -20", "99 flushes", "staging of 100", "-1 pages"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fsys := memfs.New(1)
			if tc.prepare != nil {
				tc.prepare(t, fsys)
			}
			o := Options{Dir: "/"}
			if tc.change != nil {
				tc.change(&o)
			}
			_, err := Open(fsys, o)
			if err == nil || tc.is != nil && !errors.Is(err, tc.is) {
				t.Fatalf("got %v, want %v", err, tc.is)
			}
			for _, word := range tc.says {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not say %q", err, word)
				}
			}
			if _, err := fsys.Stat("/abort"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the directory was touched: %v", err)
			}
		})
	}
}

// TestRefuseSecond: a directory that is open is not opened again.
func TestRefuseSecond(t *testing.T) {
	fsys := memfs.New(1)
	h := openTest(t, fsys, tinyOptions("/s"))
	if _, err := Open(fsys, tinyOptions("/s")); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "/s is in use") {
		t.Errorf("second open: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if err := openTest(t, fsys, tinyOptions("/s")).Close(); err != nil {
		t.Errorf("after a close: %v", err)
	}
}

// TestRefuseFullOrReadOnly names what the operator has to do.
func TestRefuseFullOrReadOnly(t *testing.T) {
	for _, tc := range []struct {
		err  error
		says string
	}{
		{syscall.ENOSPC, "is full"}, {syscall.EROFS, "is not writable"}, {syscall.EACCES, "is not writable"},
	} {
		for k := range 12 {
			power := faultfs.Wrap(memfs.New(1))
			power.FailAt(k, tc.err)
			s, err := Open(power, tinyOptions("/d/s"))
			if err == nil { // a failed sync of a directory that we may not look into is passed over
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				continue
			}
			if !strings.Contains(err.Error(), "/d/s") || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("call %d fails with %v: %v", k, tc.err, err)
			}
		}
	}
}

// TestIndexThatLies: an index file that points behind the recovered end goes, the others stay.
func TestIndexThatLies(t *testing.T) {
	fsys := memfs.New(1)
	unpack(t, fsys, "plain")
	names, err := fsys.List("/index")
	if err != nil || len(names) != 1 {
		t.Fatalf("%v %v", names, err)
	}
	lying := readFile(t, fsys, path.Join("/index", names[0]))
	binary.BigEndian.PutUint64(lying[24:], 12034) // the log's end
	writeFile(t, fsys, "/index/20990101000000000", lying)
	if err := openTest(t, fsys, goldenOptions).Close(); err != nil {
		t.Fatal(err)
	}
	if after, err := fsys.List("/index"); err != nil || len(after) != 1 || after[0] != names[0] {
		t.Errorf("index files: %v %v, want %v", after, err, names)
	}
}

// TestBatchQueuesOfAKilledBroker: they may lack messages, and nobody here can add them.
func TestBatchQueuesOfAKilledBroker(t *testing.T) {
	fsys := memfs.New(1)
	unpack(t, fsys, "bcq")
	writeFile(t, fsys, "/abort", []byte("1234"))
	before := allFiles(t, fsys, "/")
	o := goldenOptions
	o.Log = slog.New(slog.DiscardHandler)
	_, err := Open(fsys, o)
	if !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "/batchconsumequeue") || !strings.Contains(err.Error(), `"BcqT"`) {
		t.Errorf("got %v", err)
	}
	if after := allFiles(t, fsys, "/"); !maps.EqualFunc(before, after, bytes.Equal) {
		t.Error("files were touched")
	}
}
