package rpc

import (
	"bytes"
	"strconv"

	"ringmq/node/topic"
	"ringmq/store/record"
)

// Names of properties that the broker reads, sets or removes, as in stock broker 5.5.0.
const (
	propUniqKey      = "UNIQ_KEY"
	propWait         = "WAIT"
	propKeys         = "KEYS"
	propDelay        = "DELAY"
	propRealTopic    = "REAL_TOPIC"
	propRealQueue    = "REAL_QID"
	propRetryTopic   = "RETRY_TOPIC"
	propOrigin       = "ORIGIN_MESSAGE_ID"
	propTimerSec     = "TIMER_DELAY_SEC"
	propTimerMs      = "TIMER_DELAY_MS"
	propTimerDeliver = "TIMER_DELIVER_MS"
	propTransaction  = "TRAN_MSG"
	propInnerNum     = "INNER_NUM"
	propPopCheck     = "POP_CK"
	propRegion       = "MSG_REGION"
	propTrace        = "TRACE_ON"
	propCluster      = "CLUSTER"
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
		case propUniqKey:
			w.uniqKey = value
		case propWait:
			w.nowait = !isTrue(value)
		case propKeys:
			w.keys = true
		case propTransaction:
			w.transaction = isTrue(value)
		case propDelay:
			level, err := strconv.ParseInt(string(value), 10, 32)
			w.level, w.noLevel = int(level), err != nil
		case propTimerSec, propTimerMs, propTimerDeliver:
			w.timed = true
		case propInnerNum:
			w.inner = true
		case propPopCheck, propRegion, propTrace, propCluster:
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
	p := record.AppendProp(nil, propRegion, o.Region)
	p = record.AppendProp(p, propTrace, strconv.FormatBool(o.Trace))
	return record.AppendProp(p, propCluster, o.Cluster)
}

// appendProps adds the properties that are stored for a single message to t.arena and returns them:
// the client's, without those that the broker sets or does not take over, a message id when the
// client gave none, and added. It sets w.uniqKey to the id.
func (t *turn) appendProps(props []byte, w *wishes, nowMs int64, added []byte) []byte {
	from := len(t.arena)
	if w.rewrite {
		t.arena = copyProps(t.arena, props, setOnSend)
	} else {
		t.arena = append(t.arena, props...)
	}
	if len(t.arena) > from && t.arena[len(t.arena)-1] != 0x02 {
		t.arena = append(t.arena, 0x02)
	}
	if w.uniqKey == nil {
		t.arena = append(t.arena, propUniqKey+"\x01"...)
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
	case propPopCheck, propRegion, propTrace, propCluster:
		return true
	}
	return false
}

// copyProps appends props to dst, without those that dropped names.
func copyProps(dst, props []byte, dropped func(name []byte) bool) []byte {
	for name, value := range record.Props(props) {
		if !dropped(name) {
			dst = append(dst, name...)
			dst = append(dst, 0x01)
			dst = append(dst, value...)
			dst = append(dst, 0x02)
		}
	}
	return dst
}

// isCompaction tells whether the topic keeps only the newest message of each key.
func isCompaction(c *topic.Config) bool { return c.Attributes["cleanup.policy"] == "COMPACTION" }

// isBatchQueue tells whether the topic's queues index batches as a whole.
func isBatchQueue(c *topic.Config) bool { return c.Attributes["queue.type"] == "BatchCQ" }
