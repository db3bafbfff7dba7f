package wire

// MessageQueue names one queue of a topic at a broker.
type MessageQueue struct {
	BrokerName string `json:"brokerName"`
	QueueID    int32  `json:"queueId"`
	Topic      string `json:"topic"`
}

// LockBody is the body of LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42).
type LockBody struct {
	ClientID       string         `json:"clientId"`
	ConsumerGroup  string         `json:"consumerGroup"`
	MQSet          []MessageQueue `json:"mqSet,omitzero"`
	OnlyThisBroker bool           `json:"onlyThisBroker"` // 41: do not ask the replicas
}

// Parse reads the body. A client, a group and a list of queues, which may be empty, are needed.
func (b *LockBody) Parse(body []byte) error {
	*b = LockBody{}
	if err := Unmarshal(body, b); err != nil {
		return err
	}
	switch {
	case b.ClientID == "":
		return missing("clientId")
	case b.ConsumerGroup == "":
		return missing("consumerGroup")
	case b.MQSet == nil:
		return missing("mqSet")
	}
	return nil
}

// LockAnswerBody is the body of an answer to LOCK_BATCH_MQ (41): the queues that the client holds.
type LockAnswerBody struct {
	LockOKMQSet []MessageQueue `json:"lockOKMQSet,omitzero"`
}
