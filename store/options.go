package store

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"ringmq/store/internal/cold"
	"ringmq/store/internal/derive"
	"ringmq/store/internal/derive/index"
	"ringmq/store/internal/derive/queue"
	"ringmq/store/record"
)

// Options sets up a Store. A zero field means "choose for me"; Fill chooses.
type Options struct {
	Dir string // store root: consumequeue, checkpoint, abort, lock

	// CommitLogDirs are where the log's files are, default Dir/commitlog. New ones are made in them in turn;
	// each may be a disk of its own. Those that are in ReadOnlyLogDirs too get none.
	CommitLogDirs []string
	// ReadOnlyLogDirs hold older files of the log, which are read, and removed with age.
	ReadOnlyLogDirs []string

	SegmentBytes   int64 // size of one log file; default what the directory has, else 1 GiB
	QueueFileBytes int64 // size of one queue file, rounded up to whole entries; default what the directory has, else 6,000,000

	FlushSync          bool          // acknowledge and show only what is on the disk
	FlushDepth         int           // flushes in flight; default 1 on up to two CPUs, else 2
	FlushInterval      time.Duration // without FlushSync: look for something to flush this often; default 500 ms
	FlushLeastPages    int           // without FlushSync: pages of new bytes that make a flush worth it; default 4
	FlushThorough      time.Duration // without FlushSync: flush whatever there is this often; default 10 s
	QueueFlushInterval time.Duration // at most one checkpoint in this time; default 1 s

	StagingBytes    int // memory between Append and the file, a multiple of 4096; default 16 MiB
	MaxMessageBytes int // largest body; default 4 MiB

	ColdBytes  int64 // memory for messages that are read past the page cache; default 64 MiB, 16 MiB at least
	CacheBytes int64 // of the log's end that count as cached where the kernel does not tell; default 256 MiB

	Check    record.Check // what new records end with
	OnDamage OnDamage     // what Open does when bytes that were durable are no longer records

	DelayLevels Levels // what a level of a delayed message stands for; default the stock broker's 18

	Retention    Retention // what is removed from the log, see Retain
	NoIndex      bool      // messages are not put into the index by key
	IndexSlots   int       // of one index file; default 5,000,000. Files of other sizes are built anew
	IndexEntries int       // of one index file; default 20,000,000

	Now func() time.Time // default time.Now
	Log *slog.Logger     // default slog.Default()

	// Progress tells, while Open reads the log, how much of what may have to be read is done, now and then.
	Progress func(doneBytes, totalBytes int64)

	// The callbacks below run on the writer goroutine. They must not block and must not call Close.
	OnMarks  func(Marks)  // marks moved, or there is room again; queues already show the new entries
	OnArrive func(*Queue) // a watched queue got entries; runs before OnMarks of the same step
	OnFail   func(error)  // the first failed write or flush of the log; once

	// indexGather is how long the index waits for further messages after a first new one.
	indexGather time.Duration

	// indexFlushBytes of the log between two flushes of the index.
	indexFlushBytes int64

	// fewQueues are synced one by one for a checkpoint, more by a syncfs.
	fewQueues int

	// checkpointBytes of the log between two checkpoints: what a restart has to read again.
	checkpointBytes int64
}

// MinColdBytes is the least that Options.ColdBytes may be.
const MinColdBytes = cold.MinBytes

// Levels are the delays that a message can ask for, by its property DELAY; level 1 is the first.
type Levels = derive.Levels

// OnDamage is what Open does about damage to the log. A torn end is none: nobody was promised it.
type OnDamage uint8

const (
	// StopOnDamage leaves the log as it is. What is whole is served, before the damage and behind it;
	// entries that lead into it answer as removed; appends are refused with ErrDamaged.
	StopOnDamage OnDamage = iota

	// CutOnDamage cuts the log at the damage, as stock brokers do, after a copy of what is cut was made.
	CutOnDamage
)

// Fill sets defaults, so that Validate sees every field with a value. The two file sizes stay 0:
// Open takes them from the directory.
func (o *Options) Fill() {
	o.fillLogDirs()
	o.FlushDepth = cmp.Or(o.FlushDepth, 1+min(1, (runtime.NumCPU()-1)/2))
	o.FlushInterval = cmp.Or(o.FlushInterval, 500*time.Millisecond)
	o.FlushLeastPages = cmp.Or(o.FlushLeastPages, 4)
	o.FlushThorough = cmp.Or(o.FlushThorough, 10*time.Second)
	o.QueueFlushInterval = cmp.Or(o.QueueFlushInterval, time.Second)
	o.StagingBytes = cmp.Or(o.StagingBytes, 16<<20)
	o.ColdBytes = cmp.Or(o.ColdBytes, 64<<20)
	o.CacheBytes = cmp.Or(o.CacheBytes, 256<<20)
	o.MaxMessageBytes = cmp.Or(o.MaxMessageBytes, 4<<20)
	o.Retention.BatchMax = cmp.Or(o.Retention.BatchMax, 10)
	o.IndexSlots = cmp.Or(o.IndexSlots, 5_000_000)
	o.IndexEntries = cmp.Or(o.IndexEntries, 20_000_000)
	o.indexGather = cmp.Or(o.indexGather, 10*time.Millisecond)
	o.indexFlushBytes = cmp.Or(o.indexFlushBytes, 512<<20)
	o.fewQueues = cmp.Or(o.fewQueues, 64)
	o.checkpointBytes = cmp.Or(o.checkpointBytes, 64<<20)
	if rest := o.QueueFileBytes % queue.EntryBytes; rest > 0 {
		o.QueueFileBytes += queue.EntryBytes - rest
	}
	if o.DelayLevels == nil {
		o.DelayLevels = derive.StockLevels
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.Default())
}

// Validate changes nothing and reports all complaints; an operator should edit the file once. (It is
// not named Check because that is a field.)
func (o Options) Validate() error {
	var bad []error
	complain := func(wrong bool, format string, args ...any) {
		if wrong {
			bad = append(bad, fmt.Errorf("store: "+format, args...))
		}
	}
	complain(o.Dir == "", "no directory is given")
	o.logDirComplaints(complain)
	complain(o.SegmentBytes < 0 || o.SegmentBytes%4096 != 0, "log files of %d bytes: want a positive multiple of 4096", o.SegmentBytes)
	complain(o.QueueFileBytes < 0, "queue files of %d bytes: want a positive number", o.QueueFileBytes)
	complain(o.FlushDepth < 1 || o.FlushDepth > 16, "%d flushes in flight: want 1 to 16", o.FlushDepth)
	complain(o.FlushInterval <= 0 || o.FlushThorough <= 0 || o.QueueFlushInterval <= 0,
		"flush intervals %v, %v, %v: want positive ones", o.FlushInterval, o.FlushThorough, o.QueueFlushInterval)
	complain(o.FlushLeastPages < 0, "flush of at least %d pages: want 0 or more", o.FlushLeastPages)
	complain(o.StagingBytes < 64<<10 || o.StagingBytes%4096 != 0, "staging of %d bytes: want a multiple of 4096, 65536 at least", o.StagingBytes)
	complain(o.ColdBytes < MinColdBytes || o.CacheBytes < 0, "%d bytes for old messages, %d of the log cached: want at least %d and 0", o.ColdBytes, o.CacheBytes, int64(MinColdBytes))
	complain(o.MaxMessageBytes < 0 || o.MaxMessageBytes > o.StagingBytes/2,
		"messages of %d bytes: want at most half of the staging's %d", o.MaxMessageBytes, o.StagingBytes)
	complain(o.OnDamage > CutOnDamage, "on damage %d: want %d (stop) or %d (cut)", o.OnDamage, StopOnDamage, CutOnDamage)
	complain(o.Check > record.CheckOff, "record check %d: want %v, %v or %v", o.Check, record.CheckTrailer, record.CheckProperty, record.CheckOff)
	o.Retention.complaints(complain)
	if err := o.index().Check(); err != nil {
		bad = append(bad, err)
	}
	return errors.Join(bad...)
}

func (o Options) index() index.Options {
	return index.Options{Slots: o.IndexSlots, Entries: o.IndexEntries, Now: o.Now, Log: o.Log}
}
