package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"ringmq/store/vfs"
	"ringmq/store/vfs/memfs"
)

// spoiled is a store that was closed, or killed, after messages for five queues: three are old, so that
// nothing behind the checkpoint leads to them; two are in use. Each has several files.
func spoiled(t *testing.T, closed bool) (disk *memfs.FS, o Options, sent []Put) {
	t.Helper()
	disk = memfs.New(1)
	o = tinyOptions("/s")
	h := openTest(t, disk, o)
	send := func(id int32, n int) {
		for i := range n {
			puts := []Put{h.put("T", id, fmt.Appendf(nil, "%d.%d.%d", id, i, len(sent)))}
			if !h.send(puts...) {
				t.Fatal(h.Err())
			}
			sent = append(sent, puts...)
		}
	}
	for id := range int32(5) {
		send(id, 50) // two files and a half
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h = openTest(t, disk, o)
	send(3, 5)
	send(4, 5)
	if closed {
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		return disk, o, sent
	}
	killed := disk.Crash(rand.New(rand.NewPCG(1, 1)), 100) // with all that it had written
	_ = h.Close()
	return killed, o, sent
}

// derivedFiles lists all that can be made from the log.
func derivedFiles(t *testing.T, fsys vfs.FS) (names []string) {
	t.Helper()
	for _, dir := range []string{"/s/consumequeue", "/s/index"} {
		if err := eachFile(fsys, dir, func(name string, _ int64) error {
			names = append(names, name)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"checkpoint", "ringmq.checkpoint", "ringmq.checkpoint.bak", "ringmq.durable"} {
		if _, err := fsys.Stat(path.Join("/s", name)); err == nil {
			names = append(names, path.Join("/s", name))
		}
	}
	return names
}

// TestSpoiledDerivedFiles spoils one derived file at a time in each way that a crash, a bad disk or an
// operator can: the next start has every message at its place, takes new ones, and leaves files that a
// stock broker takes.
func TestSpoiledDerivedFiles(t *testing.T) {
	spoilings := []struct {
		name  string
		spoil func(b []byte) []byte // nil removes the file
	}{
		{"missing", nil},
		{"empty", func([]byte) []byte { return []byte{} }},
		{"short", func(b []byte) []byte { return b[:len(b)/2/20*20] }},
		{"cut in an entry", func(b []byte) []byte { return b[:min(len(b), 30)] }},
		{"long", func(b []byte) []byte { return append(b, make([]byte, 40)...) }},
		{"zeros", func(b []byte) []byte { return make([]byte, len(b)) }},
		{"torn", func(b []byte) []byte { clear(b[len(b)/4:]); return b }},
		{"longer than the log", func(b []byte) []byte {
			for at := 0; at+20 <= len(b); at += 20 {
				if bytes.Equal(b[at:at+20], make([]byte, 20)) {
					copy(b[at:], "\x00\x00\x00\x7F\x00\x00\x00\x00\x00\x00\x01\x00")
				}
			}
			return b
		}},
	}
	for _, closed := range []bool{true, false} {
		whole, o, sent := spoiled(t, closed)
		for _, file := range derivedFiles(t, whole) {
			for _, s := range spoilings {
				t.Run(fmt.Sprintf("closed=%v/%s/%s", closed, strings.TrimPrefix(file, "/s/"), s.name), func(t *testing.T) {
					disk := whole.Crash(rand.New(rand.NewPCG(2, 1)), 100)
					old := readFile(t, disk, file)
					if err := disk.Remove(file); err != nil {
						t.Fatal(err)
					}
					if s.spoil != nil {
						writeFile(t, disk, file, s.spoil(old))
					}
					wantAll(t, disk, o, sent)
				})
			}
		}
	}
}

// wantAll opens the store, looks for every message, sends more, closes and looks again.
func wantAll(t *testing.T, disk *memfs.FS, o Options, sent []Put) {
	t.Helper()
	for round := range 2 {
		h := openTest(t, disk, o)
		if err := h.Err(); err != nil {
			t.Fatal(err)
		}
		for _, p := range sent {
			if got := h.body("T", p.Queue.ID(), p.QueueOffset); !bytes.Equal(got, p.Body) {
				t.Fatalf("round %d: T/%d@%d is %q, want %q", round, p.Queue.ID(), p.QueueOffset, got, p.Body)
			}
		}
		for id := range int32(5) {
			puts := []Put{h.put("T", id, []byte("new"))}
			if !h.send(puts...) {
				t.Fatal(h.Err())
			}
			if got := h.body("T", id, puts[0].QueueOffset); string(got) != "new" {
				t.Fatalf("round %d: a new message of T/%d is %q", round, id, got)
			}
			sent = append(sent, puts...)
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		checkStockView(t, disk, "/s")
	}
}
