// Package checkpoint keeps up to where the log has been dispatched into durable queues, so that
// recovery starts there. There are two files. "checkpoint" is the stock broker's, kept for it.
// "ringmq.checkpoint" is ours: exact, with a checksum, and with a copy of the other, so that we notice
// when a stock broker has worked on the directory since.
package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"ringmq/store/vfs"
)

const (
	stockName  = "checkpoint"
	stockBytes = 48   // what is used of it
	stockFile  = 4096 // its length; the rest is zeros
)

// Stock is the stock broker's checkpoint (5.5.0): six big-endian numbers, then zeros.
type Stock struct {
	PhysicMs      int64 // store time of the newest record that is durable
	LogicsMs      int64 // the same, for durable queue entries
	IndexMs       int64 // the same, for the durable index
	MasterFlushed int64 // replication
	ConfirmPhy    int64 // replication
	LogicsPhys    int64 // offset of the newest record whose queue entry is durable, 0 = unknown
}

func (s Stock) append(dst []byte) []byte {
	for _, n := range [...]int64{s.PhysicMs, s.LogicsMs, s.IndexMs, s.MasterFlushed, s.ConfirmPhy, s.LogicsPhys} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(n))
	}
	return dst
}

func parseStock(b []byte) Stock {
	at := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[i:])) }
	return Stock{at(0), at(8), at(16), at(24), at(32), at(40)}
}

// readStock reads the file; a missing or short one is all zero, as to the stock broker.
func readStock(fsys vfs.FS, dir string) (Stock, error) {
	f, err := fsys.OpenRead(path.Join(dir, stockName))
	if errors.Is(err, fs.ErrNotExist) {
		return Stock{}, nil
	}
	if err != nil {
		return Stock{}, fmt.Errorf("store: read checkpoint: %w", err)
	}
	defer f.Close()
	if n, err := f.Size(); err != nil || n < stockBytes {
		return Stock{}, err
	}
	b := make([]byte, stockBytes)
	if _, err := f.ReadAt(b, 0); err != nil {
		return Stock{}, fmt.Errorf("store: read checkpoint: %w", err)
	}
	return parseStock(b), nil
}

// writeStock writes the file in place: all that changes is in one sector. Its bytes are durable on return.
// The name of a new one is with the next write of our file, in the same directory; until then a missing
// file reads as the zeros that were there before.
func writeStock(fsys vfs.FS, dir string, s Stock) error {
	name := path.Join(dir, stockName)
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = fsys.Create(name)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	whole := make([]byte, stockFile)
	s.append(whole[:0])
	if _, err := f.WriteAt(whole, 0); err != nil {
		return err
	}
	return f.Sync()
}
