// Package pull keeps long polls: pulls that found no message and wait for one, up to the time that
// the client asked for.
//
//	store writer --Arrived(q)--> Arrivals --news--> Holder of each loop with a poll on q
//	                                                 |  looks at the queue's new entries
//	                                                 v  answers the polls that have a match
//	clock ------------------------------------------> Holder: answers the polls whose time is over
//
// A poll belongs to the loop of its connection, and everything about it happens on that loop: no
// poll has a lock. Only the list of queues with news crosses goroutines. Read hold.go next.
package pull

import (
	"time"

	"ringmq/store"
)

// Poll is one pull that waits. The fields in the first group are set by who holds it and belong to
// the Holder until Answer is called or the poll is dropped.
type Poll struct {
	Queue      *store.Queue
	Offset     int64                     // queue offset it waits for; moves over entries that do not match
	Match      func(tagsCode int64) bool // nil takes any message; see store.Get, as for the next
	MatchProps func(props []byte) bool
	Deadline   time.Time
	Bytes      int64         // memory that it takes, for the sum that Holder.Bytes returns
	Answer     func(p *Poll) // on the loop, exactly once unless dropped; the poll is not held any more

	owner   *Owner
	inOwner int // place in owner.polls
	inQueue int // place in its queue's polls
	inHeap  int // place in the deadlines
}

// Owner is the list of polls that end together: those of one connection. The zero Owner is empty.
type Owner struct {
	polls []*Poll
}

// Len returns how many polls the owner has.
func (o *Owner) Len() int { return len(o.polls) }

func (o *Owner) add(p *Poll) {
	p.owner, p.inOwner = o, len(o.polls)
	o.polls = append(o.polls, p)
}

func (o *Owner) remove(p *Poll) {
	last := len(o.polls) - 1
	o.polls[p.inOwner] = o.polls[last]
	o.polls[p.inOwner].inOwner = p.inOwner
	o.polls[last] = nil
	o.polls = o.polls[:last]
	p.owner = nil
}

// deadlines is a heap for container/heap with the earliest deadline first.
type deadlines []*Poll

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].Deadline.Before(d[j].Deadline) }
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].inHeap, d[j].inHeap = i, j
}

func (d *deadlines) Push(x any) {
	p := x.(*Poll)
	p.inHeap = len(*d)
	*d = append(*d, p)
}

func (d *deadlines) Pop() any {
	last := len(*d) - 1
	p := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	return p
}
