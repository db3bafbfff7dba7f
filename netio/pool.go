package netio

import "math/bits"

// poolClasses are the sizes of buffers that a loop keeps for reuse, and how many of each: about 2 MiB
// per loop after a burst. Larger buffers go to the garbage collector. Of the smallest each connection that
// gets answers in a turn takes one.
var poolClasses = [...]struct{ bytes, keep int }{{4 << 10, 128}, {16 << 10, 16}, {64 << 10, 16}, {256 << 10, 2}}

// bufPool holds the idle buffers of one loop. Loop only.
type bufPool struct {
	free [len(poolClasses)][][]byte
}

// classBytes is a good capacity for n bytes that may grow.
func classBytes(n int) int {
	for _, c := range poolClasses {
		if n <= c.bytes {
			return c.bytes
		}
	}
	return 1 << bits.Len(uint(n-1))
}

// get returns an empty buffer of n bytes, or of the next larger class.
func (p *bufPool) get(n int) []byte {
	for i, c := range poolClasses {
		if n > c.bytes {
			continue
		}
		if last := len(p.free[i]) - 1; last >= 0 {
			b := p.free[i][last]
			p.free[i] = p.free[i][:last]
			return b
		}
		return make([]byte, 0, c.bytes)
	}
	return make([]byte, 0, n)
}

// put takes a buffer back; its bytes must not be used any more.
func (p *bufPool) put(b []byte) {
	for i, c := range poolClasses {
		if cap(b) == c.bytes && len(p.free[i]) < c.keep {
			p.free[i] = append(p.free[i], b[:0])
			return
		}
	}
}
