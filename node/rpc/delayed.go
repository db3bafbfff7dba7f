package rpc

import (
	"strconv"

	"ringmq/node/topic"
	"ringmq/store/record"
)

// setOnDelay tells whether the broker sets a property of a message that waits, or takes it away: a delay level
// counts more than a time (stock broker 5.5.0).
func setOnDelay(name []byte) bool {
	switch string(name) {
	case record.PropDelay, record.PropRealTopic, record.PropRealQueue, record.PropTimerSec, record.PropTimerMs, record.PropTimerDeliver:
		return true
	}
	return false
}

// delayed makes a message wait in the queue of its delay level, from 1 on; the highest level stands for those
// above it. Its own topic and queue become properties, which are appended to arena with all others.
func (s *Server) delayed(m *record.Message, level int, arena []byte) []byte {
	level = min(level, s.opts.DelayLevels)
	from := len(arena)
	arena = record.AppendPropsBut(arena, m.Props, setOnDelay)
	arena = appendNumber(arena, record.PropDelay, level)
	arena = append(arena, record.PropRealTopic+"\x01"...)
	arena = append(arena, m.Topic...)
	arena = append(arena, 0x02)
	arena = appendNumber(arena, record.PropRealQueue, int(m.QueueID))
	m.Topic, m.QueueID, m.Props = topic.Schedule, int32(level-1), arena[from:]
	return arena
}

// undelayed takes the delay off a message that goes to the dead letter topic. The stock broker 5.5.0 leaves a level
// there: 0 where the message was sent back (36), -1 where it was sent to the retry topic.
func undelayed(m *record.Message, level int, arena []byte) []byte {
	from := len(arena)
	arena = record.AppendPropsBut(arena, m.Props, func(name []byte) bool { return string(name) == record.PropDelay })
	arena = appendNumber(arena, record.PropDelay, level)
	m.Props = arena[from:]
	return arena
}

func appendNumber(props []byte, name string, n int) []byte {
	props = append(props, name...)
	props = append(props, 0x01)
	props = strconv.AppendInt(props, int64(n), 10)
	return append(props, 0x02)
}
