package inspect

import (
	"encoding/binary"
	"fmt"
	"math"
	"path"
	"strconv"

	"ringmq/store/internal/filename"
)

// A ConsumeQueueExt holds what does not fit an entry (stock broker 5.5.0, enableConsumeQueueExt). The
// entry's tags then are an address: the byte offset of a unit, with the top bit set.
//
//	 0  i2  size of the unit; -1 ends the file
//	 2  i8  hash of the tags
//	10  i8  store time
//	18  i2  size of the bitmap
//	20      bitmap
const (
	extUnitBytes = 20
	extDir       = "consumequeue_ext"
)

// isExtAddress reports whether an entry's tags are an address and no hash, which has 32 bits.
func isExtAddress(tags int64) bool { return tags < math.MinInt32 }

// extTags returns the hash of tags that a unit has.
func (d *Dir) extTags(q queueKey, address int64) (int64, error) {
	dir := path.Join(d.o.Dir, extDir, q.topic, strconv.Itoa(int(q.id)))
	names, err := d.fs.List(dir)
	if err != nil {
		return 0, err
	}
	at := address - math.MinInt64
	for i := len(names) - 1; i >= 0; i-- {
		base, err := filename.Base(names[i])
		if err != nil || base > at {
			continue
		}
		f, err := d.fs.OpenRead(path.Join(dir, names[i]))
		if err != nil {
			return 0, err
		}
		defer f.Close()
		var b [extUnitBytes]byte
		if n, err := f.ReadAt(b[:], at-base); n < len(b) {
			return 0, err
		}
		return int64(binary.BigEndian.Uint64(b[2:])), nil
	}
	return 0, fmt.Errorf("inspect: no file of %s holds the unit at %d", dir, at)
}

// judgeExt is the verdict on each file of the extension: whether its units can be read one after the
// other.
func (qs *queues) judgeExt() (all []Verdict) {
	root := path.Join(qs.d.o.Dir, extDir)
	for _, topic := range qs.dirs(root) {
		for _, id := range qs.dirs(path.Join(root, topic)) {
			dir := path.Join(root, topic, id)
			names, err := qs.d.names(dir)
			if err != nil {
				all = append(all, verdict(qs.d.rel(dir), Repairable, Unreadable, "%v", err))
			}
			for _, name := range names {
				all = append(all, qs.d.judgeExtFile(path.Join(dir, name)))
			}
		}
	}
	return all
}

func (d *Dir) judgeExtFile(file string) Verdict {
	name := d.rel(file)
	b, err := d.read(file)
	if err != nil {
		return verdict(name, Repairable, Unreadable, "%v", err)
	}
	units := int64(0)
	for at := 0; at+2 <= len(b); units++ {
		size := int(int16(binary.BigEndian.Uint16(b[at:])))
		if size <= 0 { // the file's end, or nothing was written yet
			break
		}
		if size < extUnitBytes || at+size > len(b) || extUnitBytes+int(int16(binary.BigEndian.Uint16(b[at+18:]))) != size {
			return verdict(name, Repairable, Broken, "unit %d at byte %d has a size of %d that cannot be", units, at, size).at(int64(at))
		}
		at += size
	}
	return verdict(name, OK, Good, "%s", plural(units, "unit"))
}
