package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"ringmq/store/internal/filename"
	"ringmq/store/internal/mark"
	"ringmq/store/record"
)

// logFile is one file of the log: 20 decimal digits of the physical offset of its start (stock broker
// 5.5.0).
type logFile struct {
	name string // path
	base int64
}

// listLog finds the files of the log in all its directories. Files of another length than
// most, and strays, get a verdict here and are left out of the rest.
func (d *Dir) listLog() error {
	var sizes []int64
	for _, dir := range d.o.CommitLogDirs {
		names, err := d.fs.List(dir)
		if errors.Is(err, fs.ErrNotExist) {
			if len(d.o.CommitLogDirs) > 1 {
				d.oddFiles = append(d.oddFiles, verdict(d.rel(dir), Damaged, MissingFile, "a directory of the log is not there, and no store opens without it: mount its disk, or make it if it is a new one"))
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("inspect: cannot list the log: %w", err)
		}
		for _, name := range names {
			file := path.Join(dir, name)
			info, err := d.fs.Stat(file)
			switch {
			case err != nil:
				d.oddFiles = append(d.oddFiles, verdict(d.rel(file), Damaged, Unreadable, "%v", err))
			case info.Dir: // as stock brokers do
			default:
				base, err := filename.Base(name)
				if err != nil {
					d.oddFiles = append(d.oddFiles, verdict(d.rel(file), Damaged, Stray, "no file of a log, and no store opens beside it: move it away"))
					continue
				}
				d.logs = append(d.logs, logFile{file, base})
				sizes = append(sizes, info.Size)
			}
		}
	}
	d.dropOddLengths(sizes)
	slices.SortStableFunc(d.logs, func(a, b logFile) int { return cmp.Compare(a.base, b.base) })
	d.dropTwice()
	return nil
}

// dropTwice gives a verdict to all but the first of files with one name, in several directories.
func (d *Dir) dropTwice() {
	kept := d.logs[:0]
	for _, f := range d.logs {
		if n := len(kept); n > 0 && kept[n-1].base == f.base {
			d.oddFiles = append(d.oddFiles, verdict(d.rel(f.name), Damaged, Stray,
				"%s is the same part of the log, and no store opens with both: move the one away that does not belong to it", d.rel(kept[n-1].name)).at(f.base))
			continue
		}
		kept = append(kept, f)
	}
	d.logs = kept
}

// dropOddLengths sets the size of the log's files, the one that most of them have, and gives verdicts to
// the others.
func (d *Dir) dropOddLengths(sizes []int64) {
	count := map[int64]int{}
	newest := int64(-1)
	for i, size := range sizes {
		newest = max(newest, d.logs[i].base)
		if count[size]++; size > 0 && (count[size] > count[d.size] || d.size == 0) {
			d.size = size
		}
	}
	kept := d.logs[:0]
	for i, f := range d.logs {
		switch {
		case sizes[i] == d.size && d.size > 0 && f.base%d.size != 0:
			d.oddFiles = append(d.oddFiles, verdict(d.rel(f.name), Damaged, Stray, "its name is no multiple of the files' %d bytes, and no store opens beside it: move it away", d.size))
		case sizes[i] == d.size && d.size > 0:
			kept = append(kept, f)
		case sizes[i] == 0 && f.base == newest:
			d.oddFiles = append(d.oddFiles, verdict(d.rel(f.name), Repairable, Empty, "a broker was killed while it made the file; opening removes it").at(f.base))
		default:
			d.oddFiles = append(d.oddFiles, verdict(d.rel(f.name), Damaged, WrongLength,
				"%d bytes, but files of this log have %d: restore it from a copy", sizes[i], d.size).at(f.base))
		}
	}
	d.logs = kept
}

// walker opens one file of the log.
func (d *Dir) walker(f logFile) (*walker, error) {
	file, err := d.fs.OpenRead(f.name)
	if err != nil {
		return nil, err
	}
	return &walker{file: file, base: f.base, size: d.size, must: record.CheckOff}, nil
}

// at returns the file of the log that holds a physical offset.
func (d *Dir) at(off int64) (logFile, bool) {
	i, found := slices.BinarySearchFunc(d.logs, off, func(f logFile, off int64) int { return cmp.Compare(f.base, off) })
	if !found {
		i--
	}
	if i < 0 || off >= d.logs[i].base+d.size {
		return logFile{}, false
	}
	return d.logs[i], true
}

// Record reads and judges the record at a physical offset. Its slices stay valid.
func (d *Dir) Record(off int64, r *record.Record) error {
	f, ok := d.at(off)
	if !ok {
		return fmt.Errorf("inspect: no file of the log holds offset %d", off)
	}
	w, err := d.walker(f)
	if err != nil {
		return err
	}
	defer w.file.Close()
	return w.recordAt(off-f.base, r)
}

// walked is what walking one file of the log found.
type walked struct {
	file    logFile
	records int64
	lastAt  int64 // of the newest record before the first gap, -1 if there is none
	nulEnd  bool  // that one's properties end in a zero byte and no check stands there
	end     int64 // where the records before the first gap end
	full    bool  // by a filler up to the file's end, or without a byte to spare
	beyond  int64 // records behind the first gap
	gaps    int
	first   Gap   // the first gap
	newest  int64 // where the newest record ends
	used    int64 // physical offset behind the last byte that is not zero or of a record
	err     error // the file could not be read
}

// walkFile walks one file; note is told of each record.
func (d *Dir) walkFile(ctx context.Context, f logFile, rules walkRules, note func(at int64, r *record.Record)) walked {
	s := walked{file: f, lastAt: -1, end: f.base, used: f.base}
	w, err := d.walker(f)
	if err != nil {
		s.err = err
		return s
	}
	defer w.file.Close()
	w.must, w.mustFrom, w.read = rules.must, rules.mustFrom, rules.read
	s.full, s.err = w.walk(0, func(at int64, r *record.Record) error {
		s.records++
		s.used = at + int64(r.Size)
		s.newest = s.used
		if s.gaps > 0 {
			s.beyond++
		} else {
			s.lastAt, s.end = at, s.used
			s.nulEnd = r.Check == record.CheckOff && len(r.Props) > 0 && r.Props[len(r.Props)-1] == 0
		}
		note(at, r)
		return ctx.Err()
	}, func(g Gap) error {
		if s.gaps++; s.gaps == 1 {
			s.first = g
		}
		if g.Used > 0 {
			s.used = g.At + g.Used
		}
		if errors.Is(g.Err, errNotRead) {
			return g.Err
		}
		return ctx.Err()
	})
	s.full = s.gaps == 0 && s.err == nil && (s.full || s.end == f.base+d.size)
	return s
}

// walkRules are what all files are walked by.
type walkRules struct {
	must     record.Check
	mustFrom int64
	read     func(n int64)
}

// walkLog walks all files of the log, several at a time: no record spans two. notes makes what is told
// of the records that one goroutine finds.
func (d *Dir) walkLog(ctx context.Context, rules walkRules, notes func() func(at int64, r *record.Record)) ([]walked, error) {
	all := make([]walked, len(d.logs))
	err := parallel(ctx, d.o.Workers, len(d.logs), notes, func(note func(int64, *record.Record), i int) {
		all[i] = d.walkFile(ctx, d.logs[i], rules, note)
	})
	return all, err
}

// logVerdict is what the files of the log are together.
type logVerdict struct {
	end      int64 // of the log
	records  int64
	beyond   int64 // whole records behind end
	damaged  bool
	verdicts []Verdict
}

// judgeLog finds the log's end and says what follows it. Whether a bad place is the end of an
// interrupted write or damage is told by recovery's rule.
func (d *Dir) judgeLog(all []walked, st state) logVerdict {
	var v logVerdict
	stop := -1 // number of the file in which the log ends
	for i := range all {
		s := &all[i]
		if st.heldBy != "" && errors.Is(s.err, fs.ErrNotExist) { // retention was faster
			s.full, s.err = true, nil
		}
		v.records += s.records
		if stop >= 0 {
			v.beyond += s.records
			continue
		}
		if want := d.logs[0].base + int64(i)*d.size; s.file.base != want && !v.damaged {
			v.damaged, stop = true, i
			v.end = want
			v.beyond += s.records
			v.verdicts = append(v.verdicts, verdict(path.Join(path.Dir(d.rel(s.file.name)), filename.Of(want)), Damaged, MissingFile,
				"the file is missing before %s: restore it from a copy", filename.Of(s.file.base)).at(want))
			continue
		}
		if v.end = s.end; !s.full {
			stop = i
			v.beyond += s.beyond
		} else {
			v.end = s.file.base + d.size
		}
	}
	behind := Damaged // how bad it is that records stand behind the end
	for i := range all {
		s := &all[i]
		switch {
		case s.err != nil:
			v.damaged = true
			v.add(d.notRead(s))
		case stop < 0 || i < stop:
			v.add(verdict(d.rel(s.file.name), OK, Good, "full, %s", plural(s.records, "record")))
		case i == stop && !v.damaged:
			one := d.judgeStop(s, st, v.beyond, usedBehind(all[i:], v.end))
			if one.Kind == TornTail || one.Kind == InUse {
				behind = one.Level
			}
			v.add(one)
		default:
			v.add(d.judgeBehind(s, behind))
		}
	}
	if stop < 0 && !v.damaged && len(all) > 0 && mark.Damaged(v.end, st.trusted, st.durable, 0) {
		v.add(verdict(d.rel(path.Join(path.Dir(all[len(all)-1].file.name), filename.Of(v.end))), Damaged, Damage,
			"the file is missing: the log was on the disk up to %d, and its last file ends at %d", st.durable, v.end).at(v.end))
	}
	return v
}

func (v *logVerdict) add(one Verdict) {
	v.damaged = v.damaged || one.Level == Damaged
	v.verdicts = append(v.verdicts, one)
}

// usedBehind is how many bytes follow the end of the log that are not merely zeros.
func usedBehind(all []walked, end int64) int64 {
	used := end
	for _, s := range all {
		if s.used > s.file.base {
			used = max(used, s.used)
		}
	}
	return used - end
}

func (d *Dir) notRead(s *walked) Verdict {
	return verdict(d.rel(s.file.name), Damaged, Unreadable, "%v: copy what can be read to another disk, or restore the file", s.err).at(s.end)
}

// judgeStop is the verdict on the file that the log ends in.
func (d *Dir) judgeStop(s *walked, st state, beyond, used int64) Verdict {
	name := d.rel(s.file.name)
	damaged := mark.Damaged(s.end, st.trusted, st.durable, beyond)
	behind, within := "", ""
	if beyond > 0 {
		behind, within = fmt.Sprintf("; %s behind it", wholeRecords(beyond)), fmt.Sprintf(", %s among them", wholeRecords(beyond))
	}
	more := ""
	if s.gaps > 2 || s.gaps == 2 && beyond == 0 {
		more = fmt.Sprintf("; %d more places like it in this file", s.gaps-1)
	}
	switch {
	case damaged && st.trusted:
		return verdict(name, Damaged, Damage, "%s, and the log was on the disk up to %d%s%s", s.first.reason(), st.durable, behind, more).at(s.end)
	case st.heldBy != "" && used > 0 && (st.trusted || s.first.Used == 0):
		return verdict(name, OK, InUse, "%s, and a write in progress", plural(s.records, "record")).at(s.end)
	case damaged:
		return verdict(name, Damaged, Damage, "%s%s%s", s.first.reason(), behind, more).at(s.end)
	case used > 0:
		return verdict(name, Repairable, TornTail, "%s; opening cuts %s%s, and keeps a copy", s.first.reason(), plural(used, "byte"), within).at(s.end)
	case s.nulEnd && !st.closed:
		return verdict(name, Repairable, Unproven, "the newest record passes the stock broker's rules, but its properties end in zeros: its end was lost, and nothing in it can prove it").at(s.lastAt)
	case s.records == 0:
		return verdict(name, OK, Prepared, "nothing was written to it yet").at(s.end)
	}
	return verdict(name, OK, Good, "%s, then zeros", plural(s.records, "record")).at(s.end)
}

// judgeBehind is the verdict on a file behind the one that the log ends in; level says how bad it is
// that it holds something.
func (d *Dir) judgeBehind(s *walked, level Level) Verdict {
	name := d.rel(s.file.name)
	switch {
	case s.records > 0:
		return verdict(name, level, Behind, "%s behind the place where the log ends", wholeRecords(s.records)).at(s.file.base)
	case s.used > s.file.base:
		return verdict(name, min(level, Repairable), TornTail, "%s of no record; opening removes the file, and keeps a copy", plural(s.used-s.file.base, "byte")).at(s.file.base)
	}
	return verdict(name, OK, Prepared, "nothing was written to it yet").at(s.file.base)
}

// reason says what stands in a gap.
func (g Gap) reason() string {
	switch {
	case g.Err == nil:
		return "the records end here"
	case errors.Is(g.Err, record.ErrEmpty) && g.Used == 0:
		return "zeros where a record should be"
	case errors.Is(g.Err, record.ErrEmpty):
		return "zeros, and then bytes of no record"
	case errors.Is(g.Err, record.ErrTorn):
		return "a record that its file is too short for"
	case errors.Is(g.Err, record.ErrBlank):
		return "a filler that does not reach the file's end"
	}
	return g.Err.Error()
}

func wholeRecords(n int64) string { return plural(n, "whole record") }

// plural counts things that are named in the singular.
func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "y"); ok {
		return strconv.FormatInt(n, 10) + " " + stem + "ies"
	}
	return strconv.FormatInt(n, 10) + " " + what + "s"
}
