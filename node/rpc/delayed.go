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
	case propDelay, propRealTopic, propRealQueue, propTimerSec, propTimerMs, propTimerDeliver:
		return true
	}
	return false
}

// delayed makes a message wait in the queue of its delay level, from 1 on; the highest level stands for those
// above it. Its own topic and queue become properties, which are appended to arena with all others.
func (s *Server) delayed(m *record.Message, level int, arena []byte) []byte {
	level = min(level, s.opts.DelayLevels)
	from := len(arena)
	arena = copyProps(arena, m.Props, setOnDelay)
	arena = appendNumber(arena, propDelay, level)
	arena = append(arena, propRealTopic+"\x01"...)
	arena = append(arena, m.Topic...)
	arena = append(arena, 0x02)
	arena = appendNumber(arena, propRealQueue, int(m.QueueID))
	m.Topic, m.QueueID, m.Props = topic.Schedule, int32(level-1), arena[from:]
	return arena
}

// undelayed makes a message that goes to the dead letter topic say so, as the stock broker 5.5.0 does.
func undelayed(m *record.Message, arena []byte) []byte {
	from := len(arena)
	arena = copyProps(arena, m.Props, func(name []byte) bool { return string(name) == propDelay })
	arena = appendNumber(arena, propDelay, -1)
	m.Props = arena[from:]
	return arena
}

func appendNumber(props []byte, name string, n int) []byte {
	props = append(props, name...)
	props = append(props, 0x01)
	props = strconv.AppendInt(props, int64(n), 10)
	return append(props, 0x02)
}
