package uring

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMirrorIsOneStream(t *testing.T) {
	n := 2 * unix.Getpagesize()
	m, err := NewMirror(n)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if m.Len() != n {
		t.Fatalf("Len() = %d, want %d", m.Len(), n)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var written []byte // the whole stream, to compare with
	for range 500 {
		k := rng.IntN(n + 1)
		piece := m.At(int64(len(written)), k)
		if len(piece) != k || cap(piece) != k {
			t.Fatalf("At(%d, %d): len %d, cap %d", len(written), k, len(piece), cap(piece))
		}
		for i := range piece {
			piece[i] = byte(rng.Uint32())
		}
		written = append(written, piece...)
		back := min(len(written), n)
		if !bytes.Equal(m.At(int64(len(written)-back), back), written[len(written)-back:]) {
			t.Fatalf("the latest %d bytes at %d differ from what was written", back, len(written))
		}
	}
}

func TestMirrorRefuses(t *testing.T) {
	for _, n := range []int{0, -4096, 1, unix.Getpagesize() + 1} {
		if m, err := NewMirror(n); err == nil {
			m.Close()
			t.Errorf("NewMirror(%d): no error", n)
		}
	}
	m, err := NewMirror(unix.Getpagesize())
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []struct {
		pos int64
		n   int
	}{{-1, 1}, {0, -1}, {0, m.Len() + 1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("At(%d, %d) did not panic", bad.pos, bad.n)
				}
			}()
			m.At(bad.pos, bad.n)
		}()
	}
	for range 2 { // closing again does nothing
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
