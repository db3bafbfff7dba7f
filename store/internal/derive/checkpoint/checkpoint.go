package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path"

	"ringmq/store/record"
	"ringmq/store/sidefile"
	"ringmq/store/vfs"
)

// Our file, big-endian:
//
//	  0  8   "ringmqck"
//	  8  i4  version, 3
//	 12  i4  check that records carry behind the position (record.Check)
//	 16  i8  position: everything before is in durable queue entries
//	 24  i8  offset of the record that ends at the position, -1 if there is none
//	 32  i8  durable: the log is on the disk up to here at least
//	 40  i8  store time of the newest record before the position
//	 48  i8  1 after a clean stop: nothing follows the position
//	 56  i8  size of the queues' files
//	 64  48  the stock checkpoint that is written after this
//	112  48  the one that was there before
//	160  i8  index position: every record before it is in the durable index
//	168  i8  offset of the newest record in that index, 0 if there is none
//	176  i8  digest of where each queue ends at the position (derive.Keeper)
//	184  i4  CRC-32C of all before
const (
	ownName    = "ringmq.checkpoint"
	ownMagic   = "ringmqck"
	ownVersion = 3
	ownBytes   = 188
)

var _ = [1]struct{}{}[ownBytes-(8+2*4+6*8+2*stockBytes+3*8+4)]

// ErrNewer means that a newer version of ringmq wrote the file.
var ErrNewer = errors.New("store: written by a newer version")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checkpoint is what both files say.
type Checkpoint struct {
	Position int64        // everything before it is in durable queue entries
	Last     int64        // offset of the record that ends at Position, -1 if there is none
	Durable  int64        // the log is on the disk up to here at least
	StoreMs  int64        // store time of the newest record before Position
	Clean    bool         // after a clean stop: nothing follows Position
	Check    record.Check // records behind Position carry it
	Stock    Stock

	QueueFileBytes int64 // size of the queues' files

	IndexPosition int64 // every record before it is in the durable index
	IndexEnd      int64 // offset of the newest record in that index, 0 if there is none

	QueueEnds uint64 // digest of where each queue ends at Position
}

// Read reads both files. trusted tells whether ours is there, intact, and newer than the stock one;
// otherwise only Stock is set, and QueueFileBytes if ours tells it.
func Read(fsys vfs.FS, dir string) (c Checkpoint, trusted bool, err error) {
	stock, err := readStock(fsys, dir)
	if err != nil {
		return c, false, err
	}
	data, _, err := sidefile.Read(fsys, path.Join(dir, ownName), valid)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, sidefile.ErrBroken) { // it can be rebuilt
		return Checkpoint{Stock: stock}, false, nil
	}
	if err != nil {
		return c, false, fmt.Errorf("store: read checkpoint: %w", err)
	}
	if v := version(data); v > ownVersion {
		return c, false, fmt.Errorf("%w: %s has format %d, this one knows %d: use that version, or remove the file to have the queues checked by the stock broker's rules", ErrNewer, path.Join(dir, ownName), v, ownVersion)
	}
	c, before := parse(data)
	if stock != c.Stock && stock != before {
		return Checkpoint{Stock: stock, QueueFileBytes: c.QueueFileBytes}, false, nil
	}
	c.Stock = stock
	return c, true, nil
}

// Write replaces both files, durable on return; before is the stock checkpoint that is there now. A
// power cut in between leaves the old stock file beside our new one, which Read accepts.
func Write(fsys vfs.FS, dir string, c Checkpoint, before Stock) error {
	if err := sidefile.Write(fsys, path.Join(dir, ownName), c.append(nil, before)); err != nil {
		return fmt.Errorf("store: write checkpoint: %w", err)
	}
	if err := writeStock(fsys, dir, c.Stock); err != nil {
		return fmt.Errorf("store: write checkpoint: %w", err)
	}
	return nil
}

func (c Checkpoint) append(dst []byte, before Stock) []byte {
	from := len(dst)
	clean := uint64(0)
	if c.Clean {
		clean = 1
	}
	dst = append(dst, ownMagic...)
	dst = binary.BigEndian.AppendUint32(dst, ownVersion)
	dst = binary.BigEndian.AppendUint32(dst, uint32(c.Check))
	for _, n := range [...]uint64{uint64(c.Position), uint64(c.Last), uint64(c.Durable), uint64(c.StoreMs), clean, uint64(c.QueueFileBytes)} {
		dst = binary.BigEndian.AppendUint64(dst, n)
	}
	dst = c.Stock.append(dst)
	dst = before.append(dst)
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.IndexPosition))
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.IndexEnd))
	dst = binary.BigEndian.AppendUint64(dst, c.QueueEnds)
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[from:], castagnoli))
}

func parse(b []byte) (c Checkpoint, before Stock) {
	at := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[i:])) }
	c = Checkpoint{
		Check:    record.Check(binary.BigEndian.Uint32(b[12:])),
		Position: at(16), Last: at(24), Durable: at(32), StoreMs: at(40), Clean: at(48) == 1, QueueFileBytes: at(56),
		Stock: parseStock(b[64:]), IndexPosition: at(160), IndexEnd: at(168), QueueEnds: uint64(at(176)),
	}
	return c, parseStock(b[112:])
}

func version(b []byte) uint32 { return binary.BigEndian.Uint32(b[8:]) }

// valid judges the bytes of our file. A newer version's bytes are not looked at: they are valid, and
// Read refuses them. Versions 1 and 2, which no release wrote, are rebuilt.
func valid(b []byte) error {
	if len(b) < 12 || string(b[:8]) != ownMagic {
		return errors.New("store: no checkpoint of ringmq")
	}
	if version(b) > ownVersion {
		return nil
	}
	if version(b) != ownVersion || len(b) != ownBytes || crc32.Checksum(b[:ownBytes-4], castagnoli) != binary.BigEndian.Uint32(b[ownBytes-4:]) {
		return errors.New("store: checkpoint with a wrong checksum")
	}
	if binary.BigEndian.Uint32(b[12:]) > uint32(record.CheckOff) {
		return errors.New("store: checkpoint with an unknown record check")
	}
	return nil
}
