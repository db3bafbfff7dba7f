package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"ringmq/netio/wire"
	"ringmq/store/internal/derive/checkpoint"
	"ringmq/store/internal/mark"
)

// state is what the small files tell about the whole.
type state struct {
	point   checkpoint.Checkpoint
	trusted bool  // point is ours, and no stock broker has worked here since
	durable int64 // while trusted: the log was on the disk up to here at least
	ours    bool  // ringmq was the last to work here
	closed  bool
	heldBy  string
}

// readState reads checkpoints, the mark of an unclean stop, and who holds the lock.
func (d *Dir) readState() (s state, all []Verdict) {
	stock, err := d.read(path.Join(d.o.Dir, "checkpoint"))
	v := d.judgeStockCheckpoint(stock, err)
	all = append(all, v...)
	own, more := d.readOwnCheckpoint()
	all = append(all, more...)
	s.point, s.trusted, err = checkpoint.Judge(own, stock)
	if err != nil {
		all = append(all, verdict(checkpoint.Name, Damaged, Broken, "%v", err))
	}
	s.ours = s.trusted

	var lock []Verdict
	s.heldBy, lock = d.holder()
	all = append(all, lock...)
	abort, err := d.read(path.Join(d.o.Dir, "abort"))
	s.closed = abort == nil && err == nil
	if !s.closed {
		s.ours = bytes.Contains(abort, []byte("ringmq"))
		s.trusted = s.trusted && s.ours
		all = append(all, judgeAbort(s.heldBy))
	}
	durable, more := d.readMark()
	all = append(all, more...)
	if s.trusted {
		s.durable = max(s.point.Durable, durable)
	}
	return s, all
}

// readMark returns what the durable mark says.
func (d *Dir) readMark() (durable int64, all []Verdict) {
	b, err := d.read(path.Join(d.o.Dir, mark.Name))
	if b == nil && err == nil {
		return 0, nil
	}
	durable, ok := mark.Judge(b)
	switch {
	case err != nil:
		return 0, []Verdict{verdict(mark.Name, Repairable, Unreadable, "%v: remove it, it is made anew", err)}
	case !ok:
		return 0, []Verdict{verdict(mark.Name, Repairable, Broken, "it tells nothing: opening makes it anew")}
	}
	return durable, []Verdict{verdict(mark.Name, OK, Good, "the log was on the disk up to %d", durable)}
}

// holder tells who has the directory open, as far as the file system can.
func (d *Dir) holder() (heldBy string, all []Verdict) {
	name := path.Join(d.o.Dir, "lock")
	t, ok := d.fs.(lockTeller)
	if _, err := d.fs.Stat(name); err != nil || !ok {
		return "", nil
	}
	heldBy, err := t.LockHolder(name)
	switch {
	case err != nil:
		return "", append(all, verdict("lock", OK, Unreadable, "cannot tell whether a node works here: %v", err))
	case heldBy != "":
		return heldBy, append(all, verdict("lock", OK, InUse, "held by %s", heldBy))
	}
	return "", append(all, verdict("lock", OK, Good, "held by nobody"))
}

func judgeAbort(heldBy string) Verdict {
	if heldBy != "" {
		return verdict("abort", OK, NotClosed, "the store is open: it is held by %s", heldBy)
	}
	return verdict("abort", Repairable, NotClosed, "the store was not closed; opening looks at the newest part and removes the mark when it closes")
}

func (d *Dir) judgeStockCheckpoint(b []byte, err error) []Verdict {
	switch {
	case err != nil:
		return []Verdict{verdict("checkpoint", Repairable, Unreadable, "%v", err)}
	case b == nil:
		return nil // a fresh directory, or one whose queues shall be rebuilt
	case len(b) < checkpoint.StockBytes:
		return []Verdict{verdict("checkpoint", Repairable, WrongLength, "%d bytes count as none: recovery reads more of the log", len(b))}
	}
	return []Verdict{verdict("checkpoint", OK, Good, "%d bytes", len(b))}
}

// readOwnCheckpoint returns the newest intact one of ringmq's checkpoint and its backup.
func (d *Dir) readOwnCheckpoint() (own []byte, all []Verdict) {
	for i, name := range []string{checkpoint.Name, checkpoint.Name + ".bak"} {
		b, err := d.read(path.Join(d.o.Dir, name))
		if b == nil && err == nil {
			continue
		}
		if err == nil {
			err = checkpoint.Valid(b)
		}
		switch {
		case err == nil && own == nil:
			own = b
			all = append(all, verdict(name, OK, Good, "intact"))
		case err == nil:
			all = append(all, verdict(name, OK, Good, "the version before"))
		case i == 0:
			all = append(all, verdict(name, Repairable, Broken, "%v: opening uses its backup, or verifies more of the log", err))
		default:
			all = append(all, verdict(name, OK, Broken, "%v; it is a backup only", err))
		}
	}
	return own, all
}

// judgeConfig is the verdict on each JSON file under config and its backup. It returns which topics
// have batch queues, as topics.json says.
func (d *Dir) judgeConfig() (all []Verdict, batchTopics map[string]bool) {
	dir := path.Join(d.o.Dir, "config")
	names, err := d.names(dir)
	if err != nil {
		all = append(all, verdict("config", Damaged, Unreadable, "%v", err))
	}
	there := map[string]bool{}
	for _, name := range names {
		there[strings.TrimSuffix(name, ".bak")] = true
	}
	for _, name := range names {
		if stem := strings.TrimSuffix(name, ".bak"); there[stem] && isJSON(stem) {
			there[stem] = false // once for both
			all = append(all, d.judgeSideFile(path.Join(dir, stem))...)
		}
	}
	return all, d.batchTopics(path.Join(dir, "topics.json"))
}

// isJSON tells the names of side files that hold JSON; timercheck does not.
func isJSON(name string) bool {
	return strings.HasSuffix(name, ".json") || name == "timermetrics" || name == "transactionMetrics"
}

// judgeSideFile parses a file and its backup. The backup stands in for a missing or broken file; two
// broken ones keep a node from starting.
func (d *Dir) judgeSideFile(file string) []Verdict {
	_, bad := d.parseJSON(file)
	_, badBackup := d.parseJSON(file + ".bak")
	name, backup := d.rel(file), d.rel(file+".bak")
	missing := func(err error) bool { return errors.Is(err, fs.ErrNotExist) }
	switch {
	case bad == nil && (badBackup == nil || missing(badBackup)):
		return []Verdict{verdict(name, OK, Good, "parses%s", map[bool]string{true: ", and so does its backup"}[badBackup == nil])}
	case bad == nil:
		return []Verdict{verdict(name, OK, Good, "parses"), verdict(backup, OK, Broken, "%v; it is a backup only", badBackup)}
	case badBackup == nil:
		return []Verdict{verdict(name, Repairable, Broken, "%v: the backup %s, the version before, will be used", bad, backup)}
	}
	return []Verdict{verdict(name, Damaged, Broken, "%v, and the backup is of no use either (%v): restore one of them from a copy, or remove both to begin without", bad, badBackup)}
}

// parseJSON reads JSON in the stock brokers' dialect. A missing file is fs.ErrNotExist.
func (d *Dir) parseJSON(file string) (v map[string]any, err error) {
	b, err := d.read(file)
	switch {
	case err != nil:
		return nil, err
	case b == nil:
		return nil, fmt.Errorf("%s: %w", path.Base(file), fs.ErrNotExist)
	case len(bytes.TrimSpace(b)) == 0:
		return nil, errors.New("empty")
	}
	return v, wire.Unmarshal(b, &v)
}

// batchTopics are the topics with the attribute queue.type=BatchCQ.
func (d *Dir) batchTopics(file string) map[string]bool {
	batch := map[string]bool{}
	v, err := d.parseJSON(file)
	if err != nil {
		v, _ = d.parseJSON(file + ".bak")
	}
	table, _ := v["topicConfigTable"].(map[string]any)
	for topic, config := range table {
		c, _ := config.(map[string]any)
		attributes, _ := c["attributes"].(map[string]any)
		if attributes["queue.type"] == "BatchCQ" {
			batch[topic] = true
		}
	}
	return batch
}

// judgeTop is the verdict on what else lies at the top of the directory.
func (d *Dir) judgeTop() (all []Verdict) {
	names, err := d.fs.List(d.o.Dir)
	if err != nil {
		return nil // Open could
	}
	for _, name := range names {
		switch {
		case name == "cut":
			copies, _ := d.names(path.Join(d.o.Dir, name))
			all = append(all, verdict(name, OK, Good, "%s of what was cut from the log", plural(int64(len(copies)), "copy")))
		case strings.HasPrefix(name, "dledger-"):
			all = append(all, verdict(name, Damaged, NotLooked, "it is of DLedger (enableDLegerCommitLog), which ringmq does not open: send its messages here by a client"))
		case name == "compaction", name == "timerlog", name == "timerwheel", name == "kvStore", name == "rocksdbstore":
			all = append(all, verdict(name, OK, NotLooked, "a stock broker's"))
		}
	}
	return all
}
