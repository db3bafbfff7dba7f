package offset

import (
	"cmp"
	"slices"
)

// Clamped is one offset that Clamp has changed.
type Clamped struct {
	Group, Topic string
	Queue        int32
	From, To     int64
}

// Clamp takes back offsets that lie beyond the end of their queue, which happens when a recovery cut the log:
// a consumer that started there would miss what is stored next. bounds tells the first offset of a queue and
// the one after its last, false for a queue that it cannot judge. An offset below the first one stays: the
// answer to the next pull moves the consumer. The result is sorted; Persist it before serving.
func (t *Table) Clamp(bounds func(topic string, queue int32) (first, end int64, ok bool)) []Clamped {
	var clamped []Clamped
	for group, byTopic := range *t.commits.groups.Load() {
		for topic, byQueue := range byTopic {
			for queue, at := range byQueue {
				_, end, ok := bounds(topic, queue)
				from := at.Load()
				if !ok || from <= end {
					continue
				}
				at.Store(end)
				t.changes.Add(1)
				clamped = append(clamped, Clamped{group, topic, queue, from, end})
			}
		}
	}
	slices.SortFunc(clamped, func(a, b Clamped) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Queue, b.Queue))
	})
	return clamped
}
