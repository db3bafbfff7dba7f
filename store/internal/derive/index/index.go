// Package index finds messages by key: hash tables in files of the stock broker's format (5.5.0). It is
// built from the log, off the hot path, and can be rebuilt from it.
//
//	<dir>/<yyyyMMddHHmmssSSS>       files of one size, named by the wall clock at their creation
//
//	0                head: what the entries span, and how many there are (layout.go)
//	40               slots: for each hash modulo their number, the newest entry; 0 = none
//	40 + 4*slots     entries, from number 1 on: hash, place in the log, time, the entry before it in its slot
//
// A file that is full is followed by a new one. Entries are appended through a small buffer; head and
// slots of the newest file, its front, are kept in memory and written by Flush only. So the head on the
// disk is the commit record of the file:
//
//  1. write the entries, fdatasync
//  2. write the slots that changed, fdatasync
//  3. write the head, fdatasync          the entries below its count are there from now on
//  4. sync the directory, if a name is new
//
// A crash leaves a head, all entries below its count, and slots that lead to those or, after a crash
// within 2, to younger ones that are whole as well: the chain leads from there to the older. Open goes
// down that way (front.go), so that it has what the head says and nothing else, and CompleteTo tells
// from where on the log must be put in again.
//
// The memory of an Index is the front of one file, of which only used pages are resident (20 MB when
// all of the default 5,000,000 slots' pages are), one bit for each of its pages, and 64 KiB of entries;
// beside it a head, a name and a descriptor for each file. A query takes 4 KiB. The CPU reads no file
// through a mapping.
//
// index.go is how entries get in, flush.go how they get to the disk, query.go how they are found,
// open.go and cut.go are how an index is opened and made to fit the log.
package index

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ringmq/store/record"
	"ringmq/store/vfs"
	"ringmq/uring"
)

// Options sets up an Index. A zero field means "choose for me"; Fill chooses.
type Options struct {
	Slots   int // per file; default 5,000,000
	Entries int // per file, the unused number 0 included; default 20,000,000

	Now func() time.Time // names new files, in its own time zone; default time.Now
	Log *slog.Logger     // default slog.Default()
}

// Fill sets defaults.
func (o *Options) Fill() {
	o.Slots = cmp.Or(o.Slots, 5_000_000)
	o.Entries = cmp.Or(o.Entries, 20_000_000)
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.Default())
}

// Check changes nothing and reports all complaints.
func (o Options) Check() error {
	var bad []error
	if o.Slots < 1 || o.Slots > maxSlots {
		bad = append(bad, fmt.Errorf("store: index files with %d slots: want 1 to %d", o.Slots, maxSlots))
	}
	if o.Entries < 2 || o.Entries > math.MaxInt32 {
		bad = append(bad, fmt.Errorf("store: index files with %d entries: want 2 to %d", o.Entries, math.MaxInt32))
	}
	return errors.Join(bad...)
}

// maxSlots keeps the front of a file below 256 MiB.
const maxSlots = 1 << 26

// tailEntries is how many entries wait in memory before they are written.
const tailEntries = 64 << 10 / entryBytes

// Position is a place in the log that the index knows.
type Position struct {
	Offset  int64 // physical offset of a record
	StoreMs int64 // its store time
}

// Index is the index of one store. Put, Flush, Truncate, DropBelow, DropAfter and Close belong to one
// goroutine at a time, the owner; any goroutine may call Find, CompleteTo and Newest.
type Index struct {
	// Set when opened, constant afterwards.
	fs  vfs.FS
	dir string
	o   Options
	g   geometry

	// The owner only.
	onDisk     head   // of the newest file, as its head stands there
	done       int    // keys of the newest record that have their entries
	dirChanged bool   // a name was made or removed since the directory was synced
	failed     error  // a sync failed: what the disk has is known only after an Open
	key        []byte // scratch

	// mu guards what follows, heads of files included. Only the owner changes them, and reads them
	// without it. Leaf lock: memory only under it.
	mu       sync.RWMutex
	files    []*file // oldest first; the slice is replaced, never changed
	front    *front  // of the newest file
	tail     []byte  // its entries that are not in the file yet
	tailFrom int32   // number of the first of them
	complete Position
}

// file is one file of the index.
type file struct {
	vfs.File
	name  string      // in the directory
	users *uring.File // counts queries; closes the file when the last is gone
	head  head        // guarded by Index.mu
}

// newest is the file that entries go to, nil if there is none.
func (x *Index) newest() *file {
	if len(x.files) == 0 {
		return nil
	}
	return x.files[len(x.files)-1]
}

// newestHead is the head of the newest file; all zero if there is none.
func (x *Index) newestHead() head {
	return headOf(x.files)
}

// CompleteTo is what a crash now would leave: every record before Offset that has keys is in the
// durable index. Put the log in again from there on after Open. Offset is that of a record, the newest in
// the durable index, which is recognised and not put in twice; 0 if there is none.
func (x *Index) CompleteTo() Position {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.complete
}

// Newest is the newest record in the index; zero if there is none.
func (x *Index) Newest() Position {
	x.mu.RLock()
	defer x.mu.RUnlock()
	h := x.newestHead()
	return Position{Offset: h.endPhys, StoreMs: h.endMs}
}

// Put adds the keys of a record. Records come in the log's order; one before the newest that is there is
// ignored, and of the newest only the keys that are missing are added. After an error nothing is lost:
// Put may be called again with the same record, and succeeds once the disk takes writes again. A failed
// sync is different: then Put and Flush fail until the index is closed and opened again. The record is
// not kept.
func (x *Index) Put(r *record.Record) error {
	if x.failed != nil {
		return x.failed
	}
	newest := x.newestHead().endPhys
	if r.SysFlag&record.SysTransactionMask == record.SysRollback || r.PhysOffset < newest {
		return nil
	}
	n, there := 0, 0
	if r.PhysOffset == newest {
		there = x.done
	}
	for k := range keysOf(r.Props) {
		if n++; n <= there {
			continue
		}
		x.key = k.append(x.key[:0], r.Topic)
		if err := x.add(hashOf(x.key), r.PhysOffset, r.StoreMs); err != nil {
			return err
		}
		x.done = n
	}
	return nil
}

// add appends one entry.
func (x *Index) add(hash int32, phys, storeMs int64) error {
	f := x.newest()
	if f == nil || f.head.count >= x.g.entries {
		var err error
		if f, err = x.roll(); err != nil {
			return err
		}
	}
	if len(x.tail) == tailEntries*entryBytes {
		if err := x.writeTail(f); err != nil {
			return err
		}
	}
	slot := x.g.slotOf(hash)
	before := x.front.slot(slot)
	e := entry{hash: hash, phys: phys, seconds: f.head.secondsAt(storeMs), before: before}
	x.mu.Lock()
	x.tail = e.append(x.tail)
	x.front.set(slot, f.head.count)
	f.head.grow(phys, storeMs, before == 0)
	x.mu.Unlock()
	return nil
}

// roll makes the newest file durable and begins another one.
func (x *Index) roll() (*file, error) {
	if x.newest() == nil {
		if err := vfs.MakeDir(x.fs, x.dir); err != nil {
			return nil, fmt.Errorf("store: make the index: %w", err)
		}
	} else if err := x.Flush(); err != nil {
		return nil, err
	}
	f, err := x.create()
	if err != nil {
		return nil, fmt.Errorf("store: make an index file: %w", err)
	}
	f.head = x.newestHead().next()
	x.onDisk = head{}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.files = append(slices.Clip(x.files), f)
	x.front.reset()
	x.tail, x.tailFrom = x.tail[:0], 1
	return f, nil
}

// create makes a file of full length, without blocks.
func (x *Index) create() (*file, error) {
	name, err := x.nextName()
	if err != nil {
		return nil, err
	}
	full := path.Join(x.dir, name)
	x.dirChanged = true
	v, err := x.fs.Create(full)
	if err != nil {
		return nil, err
	}
	if err := v.Truncate(x.g.fileBytes()); err != nil {
		if x.failed = x.fs.Remove(full); x.failed != nil { // an Open will find and remove it
			return nil, errors.Join(err, x.failed, v.Close())
		}
		return nil, errors.Join(err, v.Close())
	}
	return newFile(v, name), nil
}

func newFile(v vfs.File, name string) *file {
	return &file{File: v, name: name, users: uring.NewFile(v.Fd(), v, func() {
		_ = v.Close() // what matters of it was synced
	})}
}

// nameDigits is the length of a file's name.
const nameDigits = 17

// nextName is the clock's time, or where that is not behind the newest file's name the number after it:
// clocks are set back, every autumn in many places.
func (x *Index) nextName() (string, error) {
	name := strings.ReplaceAll(x.o.Now().Format("20060102150405.000"), ".", "")
	f := x.newest()
	if f == nil || f.name < name {
		return name, nil
	}
	n, err := strconv.ParseInt(f.name, 10, 64)
	if err != nil {
		return "", err
	}
	name = fmt.Sprintf("%0*d", nameDigits, n+1)
	if len(name) > nameDigits {
		return "", fmt.Errorf("no name is left after %s", f.name)
	}
	return name, nil
}

// Close lets go of the files; queries that run end as they would have. What was put since the last
// Flush is lost.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, f := range x.files {
		f.users.Release()
	}
	x.files, x.tail = nil, nil
	x.failed = errClosed
	return x.front.free()
}

var errClosed = errors.New("store: the index is closed")
