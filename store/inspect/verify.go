package inspect

import (
	"context"
	"slices"
	"strings"

	"ringmq/store/record"
)

// Verify holds every file to the log and the log to itself. It fails only if ctx ends; what it finds,
// read errors too, is in the report. Nothing is written.
func (d *Dir) Verify(ctx context.Context) (*Report, error) {
	s, verdicts := d.readState()
	r := &Report{Dir: d.o.Dir, Closed: s.closed, HeldBy: s.heldBy, SegmentBytes: d.size, Writer: "a stock broker"}
	if s.ours {
		r.Writer = "ringmq"
	}
	config, batchTopics := d.judgeConfig()
	qs := d.listQueues(batchTopics)
	if qs.held = s.heldBy != ""; qs.held && s.trusted {
		qs.pendingFrom = s.point.Position
	}
	d.o.Progress.Total.Store(int64(len(d.logs)) * d.size)

	all, err := d.walkLog(ctx, d.rules(s), func() func(int64, *record.Record) { return qs.matcher().note })
	if err != nil {
		return nil, err
	}
	log := d.judgeLog(all, s)
	r.Records, r.Beyond, r.End = log.records, log.beyond, log.end
	if len(d.logs) > 0 {
		r.Min = d.logs[0].base
	}
	r.add(d.oddFiles...)
	r.add(log.verdicts...)
	r.add(d.judgeNoLog(s, qs)...)
	r.addQueues(qs, s.point.QueueFileBytes, max(log.end, newestEnd(all)))
	r.add(d.judgeIndex(max(log.end, newestEnd(all)), qs.held)...)
	r.add(verdicts...)
	r.add(config...)
	r.add(d.judgeTop()...)
	if log.beyond > 0 && r.Level != OK {
		r.Lost, err = d.Loss(ctx, log.end)
	}
	return r, err
}

// rules are what the log is walked by: records behind a checkpoint of ours carry the check it names.
func (d *Dir) rules(s state) walkRules {
	rules := walkRules{must: record.CheckOff, read: func(n int64) { d.o.Progress.Done.Add(n) }}
	if s.trusted {
		rules.must, rules.mustFrom = s.point.Check, s.point.Position
	}
	return rules
}

// newestEnd is where the newest whole record ends, wherever it stands: entries up to there may be right.
func newestEnd(all []walked) (end int64) {
	for _, s := range all {
		if s.records > 0 {
			end = max(end, s.newest)
		}
	}
	return end
}

// judgeNoLog is the verdict on a log without any file beside something that was made from one.
func (d *Dir) judgeNoLog(s state, qs *queues) []Verdict {
	if len(d.logs) > 0 || len(qs.all) == 0 && (!s.trusted || s.point.Durable == 0) {
		return nil
	}
	return []Verdict{verdict(d.rel(d.o.CommitLogDirs[0]), Damaged, MissingFile,
		"no file of the log, but queues or a checkpoint made from one: restore it, or name its directory if it lies elsewhere (storePathCommitLog)")}
}

func (r *Report) add(all ...Verdict) {
	for _, v := range all {
		r.Level = max(r.Level, v.Level)
	}
	r.Verdicts = append(r.Verdicts, all...)
}

// addQueues adds the verdicts on the queues and all that belongs to them.
func (r *Report) addQueues(qs *queues, fileBytes, logEnd int64) {
	r.add(qs.odd...)
	odd := qs.lengths(fileBytes)
	slices.SortFunc(odd, func(a, b Verdict) int { return slices.Compare([]string{a.File}, []string{b.File}) })
	r.add(odd...)
	for _, q := range qs.sorted() {
		judge := qs.judgeQueue
		if q.batch {
			judge = qs.judgeBatch
		}
		r.add(judge(q, logEnd)...)
		r.Entries += q.good.Load()
		if len(q.files) > 0 {
			r.Queues++
		}
	}
	r.add(qs.judgeExt()...)
}

// NeedsRebuild reports whether queues are wrong in a way that opening alone may not notice: after a
// clean stop it looks only at what is newer than the checkpoint.
func (r *Report) NeedsRebuild() bool {
	return slices.ContainsFunc(r.Verdicts, func(v Verdict) bool {
		unseen := r.Closed || v.Kind == Wrong || v.Kind == WrongLength || v.Kind == Stray
		return v.Level == Repairable && unseen && strings.HasPrefix(v.File, "consumequeue/")
	})
}
