package rpc

import (
	"net/netip"

	"ringmq/netio"
	"ringmq/netio/wire"
	"ringmq/node/pull"
	"ringmq/store"
	"ringmq/store/record"
	"ringmq/uring"
)

// turn is the scratch of one loop: what its handlers reuse from request to request, and the sends
// that wait for the end of the turn. Loop only.
type turn struct {
	call   Call
	ans    wire.Command
	stored storedAnswer // with ans
	head   wire.Command // stands for a request that is gone when its answer is made
	send   wire.SendRequest
	pull   wire.PullRequest
	got    store.Got
	ids    uniqKeys
	polls  *pull.Holder
	nowMs  int64 // see Server.nowMs

	ranges []uring.FileRange // of the answer that is being made
	lent   []uring.MemRange  // the same, where they are not in the page cache

	// The sends of this turn. The messages in puts point into the connections' input and into
	// arena; nothing does any more once they are appended.
	puts  []store.Put
	sends []send
	arena []byte // properties and ids made by the broker
}

// send is one request among the sends of a turn: it became count puts, from first on.
type send struct {
	conn     *netio.Conn
	opaque   int32
	encoding wire.Encoding
	oneway   bool
	wait     bool // the answer waits for the policy; else for the kernel only
	queueID  int32
	first    int
	count    int
	uniqKey  []byte
	bare     bool // the answer has no fields
}

// keepBytes is how much scratch of one kind a loop keeps from turn to turn: some hundred messages,
// not the largest batch that ever came.
const keepBytes = 256 << 10

// turnOf returns the loop's scratch.
func (s *Server) turnOf(l *netio.Loop) *turn {
	if t, ok := l.State.(*turn); ok {
		return t
	}
	t := &turn{
		ids:   newUniqKeys(s.opts.Advertise.Addr()),
		polls: pull.NewHolder(l, s.opts.Clock, s.opts.Store, s.opts.Polls),
	}
	l.State = t
	return t
}

// nowMs is the time of the turn, ms since 1970: that of its first request that asked. One look at the clock does for all.
func (s *Server) nowMs(t *turn) int64 {
	if t.nowMs == 0 {
		t.nowMs = s.opts.Clock.Now().UnixMilli()
	}
	return t.nowMs
}

// appendSends gives the sends of the turn their places in the log and owes their answers: each is
// encoded now and goes out when the log's mark has passed its last record.
func (s *Server) appendSends(t *turn) {
	if len(t.puts) == 0 {
		return
	}
	s.opts.Store.Append(t.puts)
	for i := range t.sends {
		s.settle(t, &t.sends[i])
	}
	clear(t.puts) // they point to input that is about to be reused
	clear(t.sends)
	t.puts, t.sends = t.puts[:0], t.sends[:0]
	t.arena = kept(t.arena)
}

// settle answers one send: at once when the store refused it, else when its mark is reached.
func (s *Server) settle(t *turn, d *send) {
	puts := t.puts[d.first : d.first+d.count]
	if puts[0].Err == nil {
		s.stats.sends.Add(int64(len(puts)))
	}
	if d.oneway {
		return
	}
	t.head.Opaque, t.head.Encoding = d.opaque, d.encoding
	if err := puts[0].Err; err != nil {
		t.ans.Answer(&t.head, codeOf(err))
		t.ans.SetRemark(err.Error())
		if !d.bare {
			s.addRegion(&t.ans)
		}
		d.conn.Send(&t.ans)
		return
	}
	mark := netio.AtVisible
	if !d.wait {
		mark = netio.AtWritten
	}
	t.ans.Answer(&t.head, wire.Success)
	if d.bare {
		d.conn.Owe(mark, puts[0].End, &t.ans)
		return
	}
	from := len(t.arena)
	t.arena = appendMsgIDs(t.arena, s.opts.Advertise, puts)
	t.stored = storedAnswer{&t.ans, wire.SendAnswer{
		MsgID: t.arena[from:], QueueID: d.queueID, QueueOffset: puts[0].QueueOffset,
		TransactionID: d.uniqKey, Region: s.region, TraceOn: s.opts.Trace,
	}}
	d.conn.Owe(mark, puts[len(puts)-1].End, &t.stored)
}

// storedAnswer is the answer to a send that was stored.
type storedAnswer struct {
	ans    *wire.Command
	fields wire.SendAnswer
}

// Append is netio.Answer.
func (a *storedAnswer) Append(dst []byte) []byte { return a.fields.AppendFrame(dst, a.ans) }

// appendMsgIDs adds the ids of the puts, separated by commas.
func appendMsgIDs(dst []byte, host netip.AddrPort, puts []store.Put) []byte {
	for i := range puts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = record.AppendMsgID(dst, host, puts[i].Offset)
	}
	return dst
}

// unjoined is the number of the first put that belongs to no send yet.
func (t *turn) unjoined() int {
	if len(t.sends) == 0 {
		return 0
	}
	last := &t.sends[len(t.sends)-1]
	return last.first + last.count
}

// kept empties b and gives it up when it has grown too large to be kept.
func kept(b []byte) []byte {
	if cap(b) > keepBytes {
		return nil
	}
	return b[:0]
}
