package inspect

import (
	"encoding/binary"
	"path"
	"strconv"
)

// The head of an index file (stock broker 5.5.0); its slots and entries follow.
//
//	 0  i8  store time of the first entry     16  i8  physical offset of the first
//	 8  i8  of the newest                     24  i8  of the newest
//	32  i4  slots in use                      36  i4  number of the next entry, from 1 on
const (
	indexHeadBytes  = 40
	indexEntryBytes = 20
	indexNameDigits = 17 // yyyyMMddHHmmssSSS
)

// judgeIndex is the verdict on each index file, by its head: whether it agrees with itself and with
// the log.
func (d *Dir) judgeIndex(logEnd int64, held bool) (all []Verdict) {
	dir := path.Join(d.o.Dir, "index")
	names, err := d.names(dir)
	if err != nil {
		return append(all, verdict("index", Repairable, Unreadable, "%v", err))
	}
	for _, name := range names {
		v := d.judgeIndexFile(path.Join(dir, name), logEnd)
		if held && v.Level != OK { // its head changes while it is read
			v.Level, v.Kind = OK, InUse
		}
		all = append(all, v)
	}
	return all
}

func (d *Dir) judgeIndexFile(file string, logEnd int64) Verdict {
	name := d.rel(file)
	if _, err := strconv.ParseUint(path.Base(file), 10, 64); err != nil || len(path.Base(file)) != indexNameDigits {
		return verdict(name, OK, Stray, "no index file: it is not used")
	}
	f, err := d.fs.OpenRead(file)
	if err != nil {
		return verdict(name, Repairable, Unreadable, "%v", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return verdict(name, Repairable, Unreadable, "%v", err)
	}
	var b [indexHeadBytes]byte
	if n, err := f.ReadAt(b[:], 0); n < len(b) {
		return verdict(name, Repairable, WrongLength, "%d bytes are no index file (%v)", size, err)
	}
	at := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[i:])) }
	slots, next := int64(int32(binary.BigEndian.Uint32(b[32:]))), int64(int32(binary.BigEndian.Uint32(b[36:])))
	entries := max(next-1, 0)
	switch {
	case next < 0 || slots < 0 || slots > entries || indexHeadBytes+4*slots+indexEntryBytes*next > size:
		return verdict(name, Repairable, Broken, "its head says %d entries in %d slots, which %d bytes cannot hold: remove it, only look-ups by key use it", entries, slots, size)
	case entries > 0 && (at(0) > at(8) || at(16) > at(24)):
		return verdict(name, Repairable, Broken, "its head says that it ends before it begins: times %d to %d, offsets %d to %d: remove it, only look-ups by key use it", at(0), at(8), at(16), at(24))
	case entries > 0 && at(24) >= logEnd:
		return verdict(name, Repairable, Beyond, "it leads behind the log's end %d, to %d: opening removes it", logEnd, at(24)).at(at(24))
	}
	return verdict(name, OK, Good, "%s", plural(entries, "entry"))
}
