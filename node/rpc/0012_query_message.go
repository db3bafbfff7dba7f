package rpc

import (
	"errors"
	"slices"

	"ringmq/netio/wire"
	"ringmq/store"
)

const (
	maxLookedUp    = 64      // messages in one answer: maxMsgsNumBatch of the stock broker 5.5.0
	maxUniqueFound = 32      // when the key is the id from the client: its defaultQueryMaxNum
	maxLookupBytes = 8 << 20 // in one answer; the newest message is in it whatever its size
)

// queryMessage (12) finds the newest messages of a topic by a key, by the id that the client gave, or by the
// tags, within a time. They are answered in the order of the log.
//   - key and topic are compared, since the index knows hashes only; a stock broker leaves that to its clients
//   - nothing found is QUERY_NOT_FOUND, with the fields
//
// Worker lane: it reads the index and the log.
func (s *Server) queryMessage(c *Call) *wire.Command {
	var h wire.QueryMessageRequest
	if err := h.Parse(c.Req); err != nil {
		return c.Fail(wire.SystemError, err.Error())
	}
	q := store.Query{
		Topic: h.Topic, Key: h.Key, Tags: h.IndexType == "T",
		Max: min(int(h.MaxNum), maxLookedUp), BeginMs: h.BeginTimestamp, EndMs: h.EndTimestamp,
	}
	if h.UniqueKey {
		q.Max = maxUniqueFound
	}
	if q.Max < 1 {
		return c.Failf(wire.InvalidParameter, "maxNum=%d: want at least 1", h.MaxNum)
	}
	found, err := s.opts.Store.Find(q)
	if errors.Is(err, store.ErrNoIndex) {
		return c.Failf(wire.SystemError, "%v: messageIndexEnable is false, or the log is damaged", err)
	}
	if err != nil {
		return c.Failf(codeOf(err), "look for key %q of %s: %v", h.Key, h.Topic, err)
	}
	body, err := s.records(found.Offsets)
	if err != nil {
		return c.Failf(codeOf(err), "read messages with key %q of %s: %v", h.Key, h.Topic, err)
	}
	head := wire.QueryMessageAnswer{IndexLastUpdateTimestamp: found.NewestMs, IndexLastUpdatePhyoffset: found.NewestOffset}
	if len(body) == 0 {
		ans := c.Fail(wire.QueryNotFound, "can not find message, maybe time range not correct")
		new(wire.QueryMessageAnswer).Append(ans)
		return ans
	}
	ans := c.OK()
	head.Append(ans)
	ans.Body = body
	return ans
}

// records reads the records at ascending offsets, one after the other: the newest of them as far as there is
// room in an answer, without those that have left the log.
func (s *Server) records(offsets []int64) ([]byte, error) {
	var found [][]byte
	room := maxLookupBytes
	for _, at := range slices.Backward(slices.Compact(offsets)) { // a message that has a key twice is found twice
		record, err := s.opts.Store.Record(at)
		if errors.Is(err, store.ErrOffset) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(found) > 0 && len(record) > room {
			break
		}
		room -= len(record)
		found = append(found, record)
	}
	slices.Reverse(found)
	return slices.Concat(found...), nil
}
