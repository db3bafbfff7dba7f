package inspect

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"ringmq/store/record"
)

// Loss is what cutting the log at a place takes away.
type Loss struct {
	At      int64       `json:"at"`
	Bytes   int64       `json:"bytes"`   // up to the last one that is not zero
	Records int64       `json:"records"` // whole ones
	Gaps    int64       `json:"gaps"`    // parts between and behind them that hold none
	FirstMs int64       `json:"firstMs"` // oldest store time of the records
	LastMs  int64       `json:"lastMs"`
	Queues  []QueueLoss `json:"queues"`
}

// QueueLoss is what one queue loses: Count messages with queue offsets from First to Last.
type QueueLoss struct {
	Topic   string `json:"topic"`
	QueueID int32  `json:"queueId"`
	Count   int64  `json:"count"`
	First   int64  `json:"first"`
	Last    int64  `json:"last"`
}

// Loss counts what stands in the log's files from at on.
func (d *Dir) Loss(ctx context.Context, at int64) (*Loss, error) {
	l := &Loss{At: at}
	queues := map[queueKey]*QueueLoss{}
	err := d.Scan(ctx, at, d.end(), func(at int64, r *record.Record) error {
		l.note(at, r, queues)
		return nil
	}, func(g Gap) error {
		if g.Used > 0 || errors.Is(g.Err, errNotRead) {
			l.Gaps++
			l.Bytes = g.At + g.Used - l.At
		}
		return nil
	})
	for _, q := range queues {
		l.Queues = append(l.Queues, *q)
	}
	slices.SortFunc(l.Queues, func(a, b QueueLoss) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.QueueID, b.QueueID))
	})
	return l, err
}

func (l *Loss) note(at int64, r *record.Record, queues map[queueKey]*QueueLoss) {
	if l.Records == 0 {
		l.FirstMs = r.StoreMs
	}
	l.Records++
	l.FirstMs, l.LastMs = min(l.FirstMs, r.StoreMs), max(l.LastMs, r.StoreMs)
	l.Bytes = at + int64(r.Size) - l.At
	key := queueKey{string(r.Topic), r.QueueID}
	q := queues[key]
	if q == nil {
		q = &QueueLoss{Topic: key.topic, QueueID: key.id, First: r.QueueOffset, Last: r.QueueOffset}
		queues[key] = q
	}
	q.Count++
	q.First, q.Last = min(q.First, r.QueueOffset), max(q.Last, r.QueueOffset)
}
