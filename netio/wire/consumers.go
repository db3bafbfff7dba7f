package wire

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// CheckClientBody is the body of CHECK_CLIENT_CONFIG (46): may a consumer filter like that?
type CheckClientBody struct {
	ClientID         string            `json:"clientId"`
	Group            string            `json:"group"`
	Namespace        string            `json:"namespace"`
	SubscriptionData *SubscriptionData `json:"subscriptionData,omitempty"`
}

// GroupRequest is the header of QUERY_TOPICS_BY_CONSUMER (343). The answer's body is a TopicList.
type GroupRequest struct{ Group string }

// Parse reads the header.
func (h *GroupRequest) Parse(c *Command) error {
	r := reader{c: c}
	h.Group = r.text("group")
	return r.err
}

// Append sets the fields of c.
func (h *GroupRequest) Append(c *Command) { c.Set("group", h.Group) }

// ConsumeStatsRequest is the header of GET_CONSUME_STATS (208).
type ConsumeStatsRequest struct {
	ConsumerGroup string
	Topic         string   // "" for all that the group has committed offsets of
	TopicList     []string // instead of Topic, if it is not empty
}

// Parse reads the header.
func (h *ConsumeStatsRequest) Parse(c *Command) error {
	r := reader{c: c}
	*h = ConsumeStatsRequest{ConsumerGroup: r.text("consumerGroup"), Topic: c.Text("topic")}
	for topic := range strings.SplitSeq(c.Text("topicList"), ";") {
		if topic != "" {
			h.TopicList = append(h.TopicList, topic)
		}
	}
	return r.err
}

// Append sets the fields of c.
func (h *ConsumeStatsRequest) Append(c *Command) {
	c.Set("consumerGroup", h.ConsumerGroup)
	if h.Topic != "" {
		c.Set("topic", h.Topic)
	}
	if len(h.TopicList) > 0 {
		c.Set("topicList", strings.Join(h.TopicList, ";"))
	}
}

// ConsumeStatsBody is the body of an answer to GET_CONSUME_STATS (208). It is read with Unmarshal and written with
// Append: its table has objects for keys, which is no JSON.
type ConsumeStatsBody struct {
	ConsumeTPS  float64                        `json:"consumeTps"` // messages given to the group per second
	OffsetTable map[MessageQueue]OffsetWrapper `json:"offsetTable"`
}

// OffsetWrapper tells how far a group is in one queue.
type OffsetWrapper struct {
	BrokerOffset   int64 `json:"brokerOffset"`   // of the next message that is sent
	ConsumerOffset int64 `json:"consumerOffset"` // committed
	LastTimestamp  int64 `json:"lastTimestamp"`  // store time in ms of the last message that the group is done with, 0 if there is none
	PullOffset     int64 `json:"pullOffset"`     // after the last message that the group was given
}

// Append adds the body to dst, its queues in order, in the dialect of fastjson.
func (b *ConsumeStatsBody) Append(dst []byte) ([]byte, error) {
	tps, err := json.Marshal(b.ConsumeTPS)
	if err != nil {
		return dst, err
	}
	dst = append(append(append(dst, `{"consumeTps":`...), tps...), `,"offsetTable":{`...)
	for i, q := range sortedQueues(b.OffsetTable) {
		key, err := json.Marshal(q)
		if err != nil {
			return dst, err
		}
		value, err := json.Marshal(b.OffsetTable[q])
		if err != nil {
			return dst, err
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, key...), ':'), value...)
	}
	return append(dst, "}}"...), nil
}

// sortedQueues returns the keys of a table by topic and number.
func sortedQueues[V any](table map[MessageQueue]V) []MessageQueue {
	queues := make([]MessageQueue, 0, len(table))
	for q := range table {
		queues = append(queues, q)
	}
	slices.SortFunc(queues, func(a, b MessageQueue) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.BrokerName, b.BrokerName), cmp.Compare(a.QueueID, b.QueueID))
	})
	return queues
}
