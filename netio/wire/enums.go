package wire

import "strings"

// ConsumeType tells how a consumer gets its messages. The zero value means that it did not say, or
// said what nobody knows.
type ConsumeType uint8

// Consume types, as the client's implementation classes know them: pull, push, pop.
const (
	ConsumeActively ConsumeType = 1 + iota
	ConsumePassively
	ConsumePop
)

var consumeTypes = enum{"CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP", "PULL", "PUSH", "POP"}

// String returns the stock name, "" for the zero value.
func (t ConsumeType) String() string { return consumeTypes.name(uint8(t)) }

// MarshalText returns the stock name.
func (t ConsumeType) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText takes a name in any letter case, or the ordinal of the stock enum. It never fails.
func (t *ConsumeType) UnmarshalText(b []byte) error {
	n := consumeTypes.parse(b)
	if n > uint8(ConsumePop) {
		n -= uint8(ConsumePop) // the display names PULL, PUSH, POP
	}
	*t = ConsumeType(n)
	return nil
}

// MessageModel tells whether the members of a group share the messages or each get all.
type MessageModel uint8

// Message models. The zero value means that the consumer did not say.
const (
	Broadcasting MessageModel = 1 + iota
	Clustering
)

var messageModels = enum{"BROADCASTING", "CLUSTERING"}

// String returns the stock name, "" for the zero value.
func (m MessageModel) String() string { return messageModels.name(uint8(m)) }

// MarshalText returns the stock name.
func (m MessageModel) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText takes a name in any letter case, or the ordinal of the stock enum. It never fails.
func (m *MessageModel) UnmarshalText(b []byte) error {
	*m = MessageModel(messageModels.parse(b))
	return nil
}

// ConsumeFromWhere tells where a group without stored offsets begins. Clients act on it; a broker
// only keeps it.
type ConsumeFromWhere uint8

// Starting points. The zero value means that the consumer did not say; three of them are old names
// that clients still send.
const (
	FromLastOffset ConsumeFromWhere = 1 + iota
	FromLastOffsetOrMinAtFirstBoot
	FromMinOffset
	FromMaxOffset
	FromFirstOffset
	FromTimestamp
)

var startingPoints = enum{
	"CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
	"CONSUME_FROM_MIN_OFFSET", "CONSUME_FROM_MAX_OFFSET", "CONSUME_FROM_FIRST_OFFSET",
	"CONSUME_FROM_TIMESTAMP",
}

// String returns the stock name, "" for the zero value.
func (w ConsumeFromWhere) String() string { return startingPoints.name(uint8(w)) }

// MarshalText returns the stock name.
func (w ConsumeFromWhere) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText takes a name in any letter case, or the ordinal of the stock enum. It never fails.
func (w *ConsumeFromWhere) UnmarshalText(b []byte) error {
	*w = ConsumeFromWhere(startingPoints.parse(b))
	return nil
}

// enum lists the names of a stock enum by ordinal; our numbers are one higher.
type enum []string

func (e enum) name(n uint8) string {
	if n == 0 || int(n) > len(e) {
		return ""
	}
	return e[n-1]
}

func (e enum) parse(b []byte) uint8 {
	if n, ok := parseInt(b, 32); ok && n >= 0 && n < int64(len(e)) {
		return uint8(n) + 1
	}
	for i, name := range e {
		if strings.EqualFold(name, string(b)) {
			return uint8(i) + 1
		}
	}
	return 0
}
