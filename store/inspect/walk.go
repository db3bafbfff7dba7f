package inspect

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"ringmq/store/record"
	"ringmq/store/vfs"
)

// Gap is a part of the log's files that holds no record.
type Gap struct {
	At    int64 // physical offset
	Bytes int64 // up to the next whole record in its own place, or to the file's end
	Used  int64 // of these, up to the last byte that is not zero; 0 = nothing was written here
	Err   error // what stands at At instead of a record
}

// errNotRead marks a gap that the disk did not give.
var errNotRead = errors.New("inspect: cannot be read")

const (
	readBytes   = 1 << 20   // read at a time
	searchBytes = 256 << 10 // looked through at a time for the next record
	headBytes   = 36        // of a record, up to and with its own offset
	ownOffsetAt = 28        // where that stands in it
)

// walker reads the records of one file of the log. One goroutine.
type walker struct {
	file vfs.File
	base int64 // physical offset of the file's start
	size int64

	// Records from mustFrom on lack nothing only if they carry the check must.
	must     record.Check
	mustFrom int64

	buf  []byte
	from int64 // place in the file of buf[0]
	read func(n int64)
}

// walk calls visit for each whole record in its own place from off (a place in the file) on, and gap
// for each part in between. The filler that ends a full file is none; full tells of it. Both callbacks
// end the walk by returning an error, which walk returns. The record is valid during the call only.
func (w *walker) walk(off int64, visit func(at int64, r *record.Record) error, gap func(g Gap) error) (full bool, err error) {
	var r record.Record
	for off < w.size {
		err := w.recordAt(off, &r)
		if err == nil {
			if err := visit(w.base+off, &r); err != nil {
				return false, err
			}
			off += int64(r.Size)
			continue
		}
		if errors.Is(err, record.ErrBlank) && int64(r.Size) == w.size-off {
			return true, nil
		}
		next, used, failed := w.search(off)
		if failed != nil {
			next, used, err = w.size, w.size, failed
		}
		g := Gap{At: w.base + off, Bytes: next - off, Used: max(used-off, 0), Err: err}
		if err := gap(g); err != nil {
			return false, err
		}
		off = next
	}
	return false, nil
}

// recordAt reads and judges what stands at a place in the file.
func (w *walker) recordAt(off int64, r *record.Record) error {
	*r = record.Record{}
	b, err := w.have(off, headBytes)
	if err != nil {
		return err
	}
	if n := recordBytes(b); n >= headBytes && isRecord(b) {
		if says := int64(binary.BigEndian.Uint64(b[ownOffsetAt:])); says != w.base+off { // before its size is believed
			return fmt.Errorf("%w: it stands at %d and says %d", record.ErrCorrupt, w.base+off, says)
		}
		if b, err = w.have(off, n); err != nil {
			return err
		}
	}
	if err := record.Verify(b, w.base+off, r); err != nil {
		return err
	}
	if w.base+off >= w.mustFrom && r.Lacks(w.must) {
		return fmt.Errorf("%w: its end, with the %v check in it, is missing", record.ErrCorrupt, w.must)
	}
	return nil
}

// search looks behind a bad place for the next whole record. It returns where that begins, the file's
// length if nowhere, and where the last byte before it that is not zero ends.
func (w *walker) search(bad int64) (next, used int64, err error) {
	used = bad
	var r record.Record
	for off := bad; off < w.size; {
		b, err := w.have(off, searchBytes)
		if err != nil {
			return 0, 0, err
		}
		b = b[:min(len(b), searchBytes)]
		i := indexRecord(b)
		looked := b
		if i >= 0 {
			looked = b[:i]
		}
		if n := lastNonZero(looked); n > 0 {
			used = off + int64(n)
		}
		if i < 0 {
			zeros := used <= off
			if off += int64(len(b)); zeros && off < w.size {
				off = w.skipHole(off)
			}
			if off < w.size {
				off -= record.MinBlankBytes - 1 // a head may begin there
			}
			continue
		}
		off += int64(i)
		if off > bad {
			if err := w.recordAt(off, &r); err == nil {
				return off, used, nil
			} else if errors.Is(err, errNotRead) {
				return 0, 0, err
			}
		}
		off++
		used = off // at least the head's magic is not zero
	}
	return w.size, used, nil
}

// skipHole returns the next place that may hold something.
func (w *walker) skipHole(off int64) int64 {
	next := dataFrom(w.file, off, w.size)
	if w.read != nil {
		w.read(next - off) // as good as read
	}
	return next
}

// have returns at least n bytes from a place in the file, fewer only if the file ends before.
func (w *walker) have(off, n int64) ([]byte, error) {
	n = min(n, w.size-off)
	if at := off - w.from; at >= 0 && at+n <= int64(len(w.buf)) {
		return w.buf[at:], nil
	}
	size := min(max(n, readBytes), w.size-off)
	if int64(cap(w.buf)) < size {
		w.buf = make([]byte, size)
	}
	w.buf, w.from = w.buf[:size], off
	if got, err := w.file.ReadAt(w.buf, off); int64(got) < size {
		w.buf = w.buf[:0]
		if err == io.EOF {
			err = io.ErrUnexpectedEOF // it was longer when it was listed
		}
		return nil, fmt.Errorf("%w at %d: %w", errNotRead, w.base+off, err)
	}
	if w.read != nil {
		w.read(size)
	}
	return w.buf, nil
}

// recordBytes is the size that a record says it has; below 0 there is none.
func recordBytes(b []byte) int64 {
	if len(b) < 4 {
		return -1
	}
	return int64(int32(binary.BigEndian.Uint32(b)))
}

// isRecord reports whether b begins with the head of a record that is no filler.
func isRecord(b []byte) bool {
	if len(b) < headBytes {
		return false
	}
	magic := binary.BigEndian.Uint32(b[4:])
	return magic == record.MagicV1 || magic == record.MagicV2
}

// magicStart is what the magics of both kinds of records begin with.
var magicStart = []byte{byte(record.MagicV1 >> 24), byte(record.MagicV1 >> 16 & 0xFF), byte(record.MagicV1 >> 8 & 0xFF)}

// indexRecord finds the first place in b that looks like the head of a record, -1 if there is none.
func indexRecord(b []byte) int {
	if len(b) < record.MinBlankBytes {
		return -1
	}
	return bytes.Index(b[4:], magicStart)
}

// lastNonZero returns the length of b without the zeros at its end.
func lastNonZero(b []byte) int {
	if len(b) <= len(zeros) && bytes.Equal(b, zeros[:len(b)]) { // the usual case, and a fast one
		return 0
	}
	return len(bytes.TrimRight(b, "\x00"))
}

var zeros [searchBytes]byte
