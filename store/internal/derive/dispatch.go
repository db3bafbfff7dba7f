// Package derive keeps what can be rebuilt from the log: the queues and the checkpoint that tells how
// far they are durable. The log's writer goroutine puts entries into the queues' memory; one keeper
// goroutine moves them to the files and writes checkpoints, so that no message waits for it.
package derive

import (
	"strconv"
	"time"

	"ringmq/store/record"
)

// scheduleTopic holds delayed messages until they are due (stock broker 5.5.0).
const scheduleTopic = "SCHEDULE_TOPIC_XXXX"

// delayLevels are the stock broker's default messageDelayLevel; level 1 is the first.
var delayLevels = [...]time.Duration{
	1 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	1 * time.Minute, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute, 5 * time.Minute,
	6 * time.Minute, 7 * time.Minute, 8 * time.Minute, 9 * time.Minute, 10 * time.Minute,
	20 * time.Minute, 30 * time.Minute, 1 * time.Hour, 2 * time.Hour,
}

// Tags returns what the queue entry of a message keeps of its properties. With addStoreMs it is a time
// relative to the message's store time, in ms: that of delivery, for a delayed message.
func Tags(topic string, props []byte) (code int64, addStoreMs bool) {
	if topic == scheduleTopic {
		if level, ok := delayLevel(props); ok {
			return delayLevels[level-1].Milliseconds(), true
		}
	}
	tags, _ := record.Prop(props, "TAGS")
	return record.TagsCode(tags), false
}

func delayLevel(props []byte) (int, bool) {
	text, _ := record.Prop(props, "DELAY")
	level, err := strconv.Atoi(string(text))
	if err != nil || level <= 0 {
		return 0, false
	}
	return min(level, len(delayLevels)), true
}

// InQueue reports whether a message with this sysFlag has a place in its queue. A half message and a
// rollback have none (stock broker 5.5.0).
func InQueue(sysFlag int32) bool {
	t := sysFlag & record.SysTransactionMask
	return t != record.SysPrepared && t != record.SysRollback
}
