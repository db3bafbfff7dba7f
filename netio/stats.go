package netio

import (
	"sync/atomic"

	"ringmq/uring/hist"
)

// Stats counts since the start, except for the group at its end, which is what is there now.
type Stats struct {
	Accepted     int64 // connections taken over by a loop
	Refused      int64 // closed at once because MaxConns were open
	AcceptErrors int64 // accept(2) failed; mostly a lack of file descriptors

	BytesIn      int64
	BytesOut     int64
	MappedOut    int64 // of them, bytes of files that the kernel took from a mapping,
	FilesOut     int64 // or by sendfile,
	CopiedOut    int64 // or that were copied through a buffer: those of files without a descriptor
	Requests     int64 // frames given to the handler, each once
	StrayAnswers int64 // frames that answer nothing we asked; ignored

	BusyAnswers    int64 // put off for BusyWait or crowded out of the inbound bounds: code 2 (oneway: dropped)
	OverdueAnswers int64 // owed for OweWait: code 10
	FailedAnswers  int64 // owed when FailOwed was called

	ClosedGarbled  int64 // no frame, or a header that cannot be read
	ClosedSilent   int64 // no whole frame within FirstFrameWait
	ClosedIdle     int64 // nothing moved for IdleWait
	ClosedStalled  int64 // the peer took nothing for StallWait
	ClosedInFull   int64 // over an inbound bound with nothing that could be answered
	ClosedOutFull  int64 // over an outbound bound
	ClosedUnread   int64 // stored bytes that were to be sent could not be read
	ClosedByOwner  int64 // Conn.Close and Drop
	ClosedByPeer   int64 // end of stream, reset, and errors of the socket
	ClosedByServer int64 // Stop

	TurnTimes hist.Snapshot // of the loops' turns, in µs: while one lasts, all its connections wait
	OweTimes  hist.Snapshot // from when an answer was owed until a mark covered it and it was paid, in µs

	Conns    int64 // open
	InBytes  int64 // memory that holds undecoded bytes
	OutBytes int64 // memory that holds answers
	Queued   int64 // bytes that wait to be sent, those of files included, which take no memory
	Owed     int64 // answers that wait for a mark
	Held     int64 // connections whose next request waits undecoded
}

// counters are the loop's share of Stats. Only its loop adds, anybody reads: the cache line is not
// fought for.
type counters struct {
	accepted, bytesIn, bytesOut, requests, strayAnswers atomic.Int64
	mappedOut, filesOut, copiedOut                      atomic.Int64
	busyAnswers, overdueAnswers, failedAnswers          atomic.Int64
	closed                                              [reasons]atomic.Int64
	owed, held, queued                                  atomic.Int64
	turns, owedFor                                      hist.Hist
}

// reason is why a connection ends.
type reason uint8

const (
	byPeer reason = iota
	byOwner
	byServer
	garbled
	silent
	idle
	stalled
	inFull
	outFull
	unreadable
	reasons
)

// Stats adds the loops' counters up. Any goroutine may call it; the numbers are not of one instant.
func (s *Server) Stats() Stats {
	t := Stats{
		Refused: s.refused.Load(), AcceptErrors: s.acceptErrors.Load(),
		Conns: s.conns.Load(), InBytes: s.inBytes.Load(), OutBytes: s.outBytes.Load(),
	}
	for _, l := range s.loops {
		n := &l.n
		t.Accepted += n.accepted.Load()
		t.BytesIn += n.bytesIn.Load()
		t.BytesOut += n.bytesOut.Load()
		t.MappedOut += n.mappedOut.Load()
		t.FilesOut += n.filesOut.Load()
		t.CopiedOut += n.copiedOut.Load()
		t.Requests += n.requests.Load()
		t.StrayAnswers += n.strayAnswers.Load()
		t.BusyAnswers += n.busyAnswers.Load()
		t.OverdueAnswers += n.overdueAnswers.Load()
		t.FailedAnswers += n.failedAnswers.Load()
		t.Queued += n.queued.Load()
		t.Owed += n.owed.Load()
		t.Held += n.held.Load()
		t.TurnTimes.Merge(n.turns.Read())
		t.OweTimes.Merge(n.owedFor.Read())
		for r, to := range map[reason]*int64{
			garbled: &t.ClosedGarbled, silent: &t.ClosedSilent, idle: &t.ClosedIdle, stalled: &t.ClosedStalled,
			inFull: &t.ClosedInFull, outFull: &t.ClosedOutFull, unreadable: &t.ClosedUnread, byOwner: &t.ClosedByOwner, byPeer: &t.ClosedByPeer,
			byServer: &t.ClosedByServer,
		} {
			*to += n.closed[r].Load()
		}
	}
	return t
}
