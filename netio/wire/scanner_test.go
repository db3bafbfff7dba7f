package wire

import (
	"math/rand/v2"
	"testing"
	"unicode/utf8"
)

// TestEightAtATime holds the searches that look at eight bytes at a time to those that look at one.
func TestEightAtATime(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	odd := []byte{0, 1, 0x1f, ' ', '!', '"', '#', '&', '\'', '(', '[', '\\', ']', 0x7f, 0x80, 0xa2, 0xdc, 0xff}
	for range 20_000 {
		b := make([]byte, rnd.IntN(40))
		for i := range b {
			if b[i] = 'a'; rnd.IntN(8) == 0 {
				b[i] = odd[rnd.IntN(len(odd))]
			}
		}
		from := rnd.IntN(len(b) + 1)
		for _, quote := range []byte{'"', '\''} {
			want := from
			for want < len(b) && b[want] != quote && b[want] != '\\' {
				want++
			}
			if got := special(b, from, quote); got != want {
				t.Fatalf("special(%q, %d, %q) = %d, want %d", b, from, quote, got, want)
			}
		}
		want := from
		for want < len(b) && b[want] >= ' ' && b[want] < utf8.RuneSelf && b[want] != '"' && b[want] != '\\' {
			want++
		}
		if got := plainBytes(b, from); got != want {
			t.Fatalf("plainBytes(%q, %d) = %d, want %d", b, from, got, want)
		}
	}
	if got := special([]byte(`ab`), 3, '"'); got < 2 {
		t.Fatalf("behind the end: %d", got)
	}
}
