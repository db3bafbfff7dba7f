package rpc

import (
	"bytes"
	"strconv"

	"ringmq/node/topic"
	"ringmq/store/record"
)

// wishes is what the properties of a message ask of the broker.
type wishes struct {
	uniqKey     []byte
	nowait      bool // the answer need not wait for the disk
	keys        bool // there are keys
	transaction bool // a half message
	level       int  // of delay; 0 or less: none
	noLevel     bool // the level is no number
	timed       bool // until a time
	inner       bool // says to be an inner batch
	rewrite     bool // holds what the broker sets itself or does not take over
}

// wishesOf reads the properties once. uniqKey is a view into them.
func wishesOf(props []byte) (w wishes) {
	for name, value := range record.Props(props) {
		switch string(name) {
		case record.PropUniqueKey:
			w.uniqKey = value
		case record.PropWait:
			w.nowait = !isTrue(value)
		case record.PropKeys:
			w.keys = true
		case record.PropTransaction:
			w.transaction = isTrue(value)
		case record.PropDelay:
			level, err := strconv.ParseInt(string(value), 10, 32)
			w.level, w.noLevel = int(level), err != nil
		case record.PropTimerSec, record.PropTimerMs, record.PropTimerDeliver:
			w.timed = true
		case record.PropInnerNum:
			w.inner = true
		case record.PropPopCheck, record.PropRegion, record.PropTrace, record.PropCluster:
			w.rewrite = true
		}
	}
	return w
}

// isTrue reads a boolean as Java does: anything but "true" is false.
func isTrue(v []byte) bool { return bytes.EqualFold(v, []byte("true")) }

// unsupported names the kind of message that this broker cannot handle yet. Stored like any other,
// such a message would be seen too early, or although its transaction was rolled back.
func (w *wishes) unsupported(sysFlag int32) string {
	switch {
	case w.transaction, sysFlag&record.SysTransactionMask != 0:
		return "transactional messages are not supported by this broker"
	case w.noLevel:
		return "the property DELAY of the message is no number: want a delay level from 1 on, or 0 for none"
	case w.timed && w.level <= 0: // a level counts more than a time
		return "timer messages are not supported by this broker"
	case w.inner, sysFlag&(record.SysInnerBatch|record.SysNeedUnwrap) != 0:
		return "inner batches are not supported by this broker"
	}
	return ""
}

// addedProps are the properties that the broker gives to every single message.
func addedProps(o Options) []byte {
	p := record.AppendProp(nil, record.PropRegion, o.Region)
	p = record.AppendProp(p, record.PropTrace, strconv.FormatBool(o.Trace))
	return record.AppendProp(p, record.PropCluster, o.Cluster)
}

// appendProps adds the properties that are stored for a single message to t.arena and returns them:
// the client's, without those that the broker sets or does not take over, a message id when the
// client gave none, and added. It sets w.uniqKey to the id.
func (t *turn) appendProps(props []byte, w *wishes, nowMs int64, added []byte) []byte {
	from := len(t.arena)
	if w.rewrite {
		t.arena = record.AppendPropsBut(t.arena, props, setOnSend)
	} else {
		t.arena = append(t.arena, props...)
	}
	if len(t.arena) > from && t.arena[len(t.arena)-1] != 0x02 {
		t.arena = append(t.arena, 0x02)
	}
	if w.uniqKey == nil {
		t.arena = append(t.arena, record.PropUniqueKey+"\x01"...)
		at := len(t.arena)
		t.arena = t.ids.append(t.arena, nowMs)
		w.uniqKey = t.arena[at:]
		t.arena = append(t.arena, 0x02)
	}
	t.arena = append(t.arena, added...)
	return t.arena[from:]
}

// setOnSend tells whether the broker sets a property of each single message, or does not take it over.
func setOnSend(name []byte) bool {
	switch string(name) {
	case record.PropPopCheck, record.PropRegion, record.PropTrace, record.PropCluster:
		return true
	}
	return false
}

// isCompaction tells whether the topic keeps only the newest message of each key.
func isCompaction(c *topic.Config) bool { return c.Attributes["cleanup.policy"] == "COMPACTION" }

// isBatchQueue tells whether the topic's queues index batches as a whole.
func isBatchQueue(c *topic.Config) bool { return c.Attributes["queue.type"] == "BatchCQ" }
