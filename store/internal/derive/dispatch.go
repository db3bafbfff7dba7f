// Package derive keeps what can be rebuilt from the log: the queues and the checkpoint that tells how
// far they are durable. The log's writer goroutine puts entries into the queues' memory; one keeper
// goroutine moves them to the files and writes checkpoints, so that no message waits for it.
package derive

import (
	"bytes"
	"iter"
	"strconv"
	"strings"
	"time"

	"ringmq/store/record"
)

// scheduleTopic holds delayed messages until they are due (stock broker 5.5.0).
const scheduleTopic = "SCHEDULE_TOPIC_XXXX"

// Levels are the delays that a message can ask for; level 1 is the first.
type Levels []time.Duration

// StockLevels are the stock broker's default messageDelayLevel.
var StockLevels = Levels{
	1 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	1 * time.Minute, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute, 5 * time.Minute,
	6 * time.Minute, 7 * time.Minute, 8 * time.Minute, 9 * time.Minute, 10 * time.Minute,
	20 * time.Minute, 30 * time.Minute, 1 * time.Hour, 2 * time.Hour,
}

// Tags returns what the queue entry of a message keeps of its properties. With addStoreMs it is a time
// relative to the message's store time, in ms: that of delivery, for a delayed message.
func (l Levels) Tags(topic string, props []byte) (code int64, addStoreMs bool) {
	if topic == scheduleTopic {
		if level, ok := l.level(props); ok {
			return l[level-1].Milliseconds(), true
		}
	}
	tags, _ := record.Prop(props, record.PropTags)
	return record.TagsCode(tags), false
}

// level is the level that a message asks for; one above the highest is that one.
func (l Levels) level(props []byte) (int, bool) {
	text, _ := record.Prop(props, record.PropDelay)
	level, err := strconv.Atoi(string(text))
	if err != nil || level <= 0 {
		return 0, false
	}
	return min(level, len(l)), true
}

// lightPrefix is how the name of a light queue (LMQ) begins; such a topic has the one queue 0.
const lightPrefix = "%LMQ%"

// LightQueues walks over the light queues that a message is in besides its own, and its offset in each
// (stock broker 5.5.0, enableLmq and enableMultiDispatch).
func LightQueues(topic string, props []byte) iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		offsets, ok := record.Prop(props, record.PropQueueOffsets)
		if !ok || strings.HasPrefix(topic, "%RETRY%") || strings.HasPrefix(topic, "rmq_sys_") || topic == scheduleTopic {
			return
		}
		list, _ := record.Prop(props, record.PropQueues)
		names, numbers := bytes.Split(list, []byte{','}), bytes.Split(offsets, []byte{','})
		if len(names) != len(numbers) {
			return
		}
		for i, name := range names {
			at, err := strconv.ParseInt(string(numbers[i]), 10, 64)
			if err != nil || at < 0 || !bytes.HasPrefix(name, []byte(lightPrefix)) {
				continue
			}
			if !yield(string(name), at) {
				return
			}
		}
	}
}
