package store

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"time"

	"ringmq/store/record"
)

// Options sets up a Store. A zero field means "choose for me"; Fill chooses.
type Options struct {
	Dir          string // store root: consumequeue, checkpoint, abort, lock
	CommitLogDir string // default Dir/commitlog

	SegmentBytes   int64 // size of one log file; default 1 GiB, or what the directory holds
	QueueFileBytes int64 // size of one ConsumeQueue file; default 6,000,000, rounded up to whole entries

	FlushSync          bool          // acknowledge and show only what is on the disk
	FlushDepth         int           // flushes in flight; default 1 on up to two CPUs, else 2
	FlushInterval      time.Duration // without FlushSync: look for something to flush this often; default 500 ms
	FlushLeastPages    int           // without FlushSync: dirty pages that make a flush worth it; default 4
	FlushThorough      time.Duration // without FlushSync: flush whatever there is this often; default 10 s
	QueueFlushInterval time.Duration // a checkpoint this often while messages arrive; default 1 s

	StagingBytes    int // memory between Append and the file; default 64 MiB
	MaxMessageBytes int // largest body; default 4 MiB

	Check             record.Check // what new records end with
	CheckCRCOnRecover bool         // verify body checksums of records without a check of their own

	Now func() time.Time // default time.Now
	Log *slog.Logger     // default slog.Default()

	// The callbacks run on the writer goroutine. They must not block and must not call Close.
	OnMarks  func(Marks)  // marks moved; queues already show the new entries
	OnArrive func(*Queue) // a watched queue got entries; runs before OnMarks of the same step
	OnFail   func(error)  // the first failed write or flush; once
}

// Fill sets defaults, so that Check sees every field with a value.
func (o *Options) Fill() {
	o.CommitLogDir = cmp.Or(o.CommitLogDir, path.Join(o.Dir, "commitlog"))
	o.QueueFileBytes = cmp.Or(o.QueueFileBytes, 6_000_000)
	o.FlushInterval = cmp.Or(o.FlushInterval, 500*time.Millisecond)
	o.FlushLeastPages = cmp.Or(o.FlushLeastPages, 4)
	o.FlushThorough = cmp.Or(o.FlushThorough, 10*time.Second)
	o.QueueFlushInterval = cmp.Or(o.QueueFlushInterval, time.Second)
	o.StagingBytes = cmp.Or(o.StagingBytes, 64<<20)
	o.MaxMessageBytes = cmp.Or(o.MaxMessageBytes, 4<<20)
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.Default())
}

// Validate changes nothing and reports all complaints; an operator should edit the file once.
func (o Options) Validate() error {
	var bad []error
	if o.Dir == "" {
		bad = append(bad, errors.New("store: no directory given"))
	}
	if o.SegmentBytes < 0 || o.SegmentBytes%4096 != 0 {
		bad = append(bad, fmt.Errorf("store: segment of %d bytes: want a positive multiple of 4096", o.SegmentBytes))
	}
	return errors.Join(bad...)
}
