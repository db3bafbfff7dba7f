package record

import (
	"bytes"
	"iter"
)

// Properties are "name 0x01 value 0x02" repeated; the last 0x02 may be missing.
const (
	nameSep = 0x01
	propSep = 0x02
)

// Names of properties that a broker reads, sets or removes (stock broker 5.5.0).
const (
	PropUniqueKey    = "UNIQ_KEY" // the client's message id
	PropKeys         = "KEYS"     // separated by spaces
	PropTags         = "TAGS"
	PropWait         = "WAIT" // false: the answer need not wait for the disk
	PropDelay        = "DELAY"
	PropRealTopic    = "REAL_TOPIC" // of a message that waits: where it goes
	PropRealQueue    = "REAL_QID"
	PropRetryTopic   = "RETRY_TOPIC" // of a message that is tried again: the first topic it had
	PropOrigin       = "ORIGIN_MESSAGE_ID"
	PropTimerSec     = "TIMER_DELAY_SEC"
	PropTimerMs      = "TIMER_DELAY_MS"
	PropTimerDeliver = "TIMER_DELIVER_MS"
	PropTransaction  = "TRAN_MSG" // true: a half message
	PropInnerNum     = "INNER_NUM"
	PropInnerBase    = "INNER_BASE"
	PropPopCheck     = "POP_CK"
	PropRegion       = "MSG_REGION"
	PropTrace        = "TRACE_ON"
	PropCluster      = "CLUSTER"

	// Further queues of a message, and its offset in each, place by place, separated by commas
	// (enableMultiDispatch).
	PropQueues       = "INNER_MULTI_DISPATCH"
	PropQueueOffsets = "INNER_MULTI_QUEUE_OFFSET"
)

// Props walks over the name-value pairs of properties in their order, by the stock broker's rules: an
// entry without a name, without a value or without a separator between them is skipped, and the value
// goes on to the entry's end, further 0x01 included. A name can come up again; the last one counts.
func Props(props []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for rest := props; len(rest) > 0; {
			var entry []byte
			entry, _, rest = cutEntry(rest)
			if at := bytes.IndexByte(entry, nameSep); at > 0 && at+1 < len(entry) && !yield(entry[:at:at], entry[at+1:]) {
				return
			}
		}
	}
}

// Prop returns the value of a property, a view into props.
func Prop(props []byte, name string) (value []byte, ok bool) {
	for n, v := range Props(props) {
		if string(n) == name {
			value, ok = v, true
		}
	}
	return value, ok
}

// AppendProp appends one property to props, with a separator before it if props end without. Readers
// drop a property whose value is empty.
func AppendProp(props []byte, name, value string) []byte {
	if len(props) > 0 && props[len(props)-1] != propSep {
		props = append(props, propSep)
	}
	props = append(props, name...)
	props = append(props, nameSep)
	props = append(props, value...)
	return append(props, propSep)
}

// AppendPropsBut appends props to dst without those whose names dropped takes, and without entries that readers
// skip. A separator ends the last one.
func AppendPropsBut(dst, props []byte, dropped func(name []byte) bool) []byte {
	for name, value := range Props(props) {
		if !dropped(name) {
			dst = append(dst, name...)
			dst = append(dst, nameSep)
			dst = append(dst, value...)
			dst = append(dst, propSep)
		}
	}
	return dst
}

// cutEntry splits off the first entry of props; ended tells whether a separator followed it.
func cutEntry(props []byte) (entry []byte, ended bool, rest []byte) {
	at := bytes.IndexByte(props, propSep)
	if at < 0 {
		return props, false, nil
	}
	return props[:at:at], true, props[at+1:]
}
