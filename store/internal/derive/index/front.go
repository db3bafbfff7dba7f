package index

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"syscall"
)

const pageBytes = 4096

// front is the begin of a file, its head and slots, as it stands or shall stand on the disk. The head
// in it is always the one on the disk, so that a page can be written before its new head may. The memory
// is not the garbage collector's, and pages that were never used take none.
type front struct {
	b     []byte
	dirty []uint64 // one bit per page that differs from the file
}

func newFront(g geometry) (*front, error) {
	n := int(g.frontBytes())
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("store: memory for %d slots of the index: %w", g.slots, err)
	}
	pages := (n + pageBytes - 1) / pageBytes
	return &front{b: b, dirty: make([]uint64, (pages+63)/64)}, nil
}

func (f *front) free() error {
	b := f.b
	f.b = nil
	return syscall.Munmap(b)
}

// reset makes it that of a new file.
func (f *front) reset() {
	clear(f.b)
	f.clean()
}

// clean takes notice that all pages are in the file.
func (f *front) clean() { clear(f.dirty) }

func parseSlot(b []byte) int32 { return int32(binary.BigEndian.Uint32(b)) }

func (f *front) slot(s int32) int32 {
	return parseSlot(f.b[headBytes+slotBytes*int(s):])
}

func (f *front) set(s, number int32) {
	at := headBytes + slotBytes*int(s)
	binary.BigEndian.PutUint32(f.b[at:], uint32(number))
	page := at / pageBytes
	f.dirty[page/64] |= 1 << (page % 64)
}

// dirtyRun returns the first bytes at or after page from that differ from the file, as far as they go
// without a gap; lo == hi if there are none.
func (f *front) dirtyRun(from int) (lo, hi int) {
	first := f.nextPage(from, true)
	last := f.nextPage(first, false)
	return min(first*pageBytes, len(f.b)), min(last*pageBytes, len(f.b))
}

// nextPage is the first page from from on that is dirty or not, as asked; the number of bits if there is
// none.
func (f *front) nextPage(from int, dirty bool) int {
	for page := from; page < len(f.dirty)*64; {
		word := f.dirty[page/64]
		if !dirty {
			word = ^word
		}
		if word >>= page % 64; word != 0 {
			return page + bits.TrailingZeros64(word)
		}
		page = (page/64 + 1) * 64
	}
	return len(f.dirty) * 64
}

// load reads the front of a file into new memory. Pages of zeros are not touched, so that they take no memory.
func (f *front) load(r io.ReaderAt) error {
	piece := make([]byte, min(len(f.b), 64*pageBytes))
	for at := 0; at < len(f.b); at += len(piece) {
		piece = piece[:min(len(piece), len(f.b)-at)]
		if _, err := r.ReadAt(piece, int64(at)); err != nil {
			return err
		}
		for i := 0; i < len(piece); i += pageBytes {
			page := piece[i:min(i+pageBytes, len(piece))]
			if !bytes.Equal(page, zeros[:len(page)]) {
				copy(f.b[at+i:], page)
			}
		}
	}
	return nil
}

var zeros [pageBytes]byte

// settle makes the slots lead to entries below count only, and returns how many are used. A crash can
// leave a slot that leads to a younger entry; that one is whole, and the chain leads on from it. read
// returns an entry.
func (f *front) settle(g geometry, count int32, read func(number int32) (entry, error)) (used int32, err error) {
	for s := range g.slots {
		number := f.slot(s)
		if number == 0 {
			continue
		}
		if number < 0 || number >= count {
			if number, err = olderThan(g, s, number, count, read); err != nil {
				return 0, err
			}
			f.set(s, number)
		}
		if number > 0 {
			used++
		}
	}
	return used, nil
}

// olderThan follows the chain of slot s from number down to an entry below count; 0 if it does not lead
// there.
func olderThan(g geometry, s, number, count int32, read func(int32) (entry, error)) (int32, error) {
	for number >= count {
		if number >= g.entries {
			return 0, nil
		}
		e, err := read(number)
		if err != nil {
			return 0, err
		}
		if e.before >= number || g.slotOf(e.hash) != s {
			return 0, nil
		}
		number = e.before
	}
	return max(number, 0), nil
}
