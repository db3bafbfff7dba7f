package wire

// Bits of PullRequest.SysFlag.
const (
	PullCommitOffset = 1 << iota // CommitOffset is to be stored as the group's offset
	PullSuspend                  // wait for messages when there are none
	PullSubscription             // Subscription counts, instead of what the heartbeats said
	PullClassFilter              // of no use any more
	PullLite                     // light message queues
)

// PullRequest is the header of PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361). Its texts are views.
type PullRequest struct {
	ConsumerGroup        []byte
	Topic                []byte
	QueueID              int32
	QueueOffset          int64 // the first message wanted
	MaxMsgNums           int32
	SysFlag              int32
	CommitOffset         int64 // meant only with PullCommitOffset
	SuspendTimeoutMillis int64
	Subscription         []byte // nil when absent
	SubVersion           int64  // ms or ns clock of the client; 0 from Go
	ExpressionType       []byte // nil or empty: TAG
	MaxMsgBytes          int32  // -1 when absent
	RequestSource        int32  // -1 when absent: a client, not a proxy
	ProxyForwardClientID []byte // nil when absent
	BrokerName           []byte // nil when absent
}

// Places of the fields in pullNames.
const (
	pullConsumerGroup = iota
	pullTopic
	pullQueueID
	pullQueueOffset
	pullMaxMsgNums
	pullSysFlag
	pullCommitOffset
	pullSuspendTimeoutMillis
	pullSubVersion
	pullSubscription
	pullExpressionType
	pullMaxMsgBytes
	pullRequestSource
	pullProxyForwardClientID
	pullBrokerName
	pullFields
)

// The misspelling is the stock name.
var pullNames = [pullFields]string{
	"consumerGroup", "topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag", "commitOffset",
	"suspendTimeoutMillis", "subVersion", "subscription", "expressionType", "maxMsgBytes",
	"requestSource", "proxyFrowardClientId", "bname",
}

const pullRequired seen = 1<<(pullSubVersion+1) - 1 // the first nine

func pullPlace(key []byte) int {
	for i := range pullNames {
		if string(key) == pullNames[i] {
			return i
		}
	}
	return -1
}

// Parse reads the header. It goes over the fields once and allocates only to complain.
func (h *PullRequest) Parse(c *Command) error {
	*h = PullRequest{MaxMsgBytes: -1, RequestSource: -1}
	var have seen
	for i := range c.Fields {
		f := &c.Fields[i]
		place := pullPlace(f.Key)
		if place < 0 || f.Value == nil {
			continue
		}
		if err := h.take(place, pullNames[place], f.Value); err != nil {
			return err
		}
		have.mark(place)
	}
	if name := have.lacks(pullNames[:], pullRequired); name != "" {
		return missing(name)
	}
	return nil
}

func (h *PullRequest) take(place int, name string, v []byte) (err error) {
	var n int64
	switch place {
	case pullConsumerGroup:
		h.ConsumerGroup = v
	case pullTopic:
		h.Topic = v
	case pullQueueID:
		n, err = integer(name, v, 32)
		h.QueueID = int32(n)
	case pullQueueOffset:
		h.QueueOffset, err = integer(name, v, 64)
	case pullMaxMsgNums:
		n, err = integer(name, v, 32)
		h.MaxMsgNums = int32(n)
	case pullSysFlag:
		n, err = integer(name, v, 32)
		h.SysFlag = int32(n)
	case pullCommitOffset:
		h.CommitOffset, err = integer(name, v, 64)
	case pullSuspendTimeoutMillis:
		h.SuspendTimeoutMillis, err = integer(name, v, 64)
	case pullSubVersion:
		h.SubVersion, err = integer(name, v, 64)
	case pullSubscription:
		h.Subscription = v
	case pullExpressionType:
		h.ExpressionType = v
	case pullMaxMsgBytes:
		n, err = integer(name, v, 32)
		h.MaxMsgBytes = int32(n)
	case pullRequestSource:
		n, err = integer(name, v, 32)
		h.RequestSource = int32(n)
	case pullProxyForwardClientID:
		h.ProxyForwardClientID = v
	case pullBrokerName:
		h.BrokerName = v
	}
	return err
}

// Append sets the fields of c; absent optional ones are left out.
func (h *PullRequest) Append(c *Command) {
	c.SetBytes("consumerGroup", h.ConsumerGroup)
	c.SetBytes("topic", h.Topic)
	c.SetInt("queueId", int64(h.QueueID))
	c.SetInt("queueOffset", h.QueueOffset)
	c.SetInt("maxMsgNums", int64(h.MaxMsgNums))
	c.SetInt("sysFlag", int64(h.SysFlag))
	c.SetInt("commitOffset", h.CommitOffset)
	c.SetInt("suspendTimeoutMillis", h.SuspendTimeoutMillis)
	c.SetInt("subVersion", h.SubVersion)
	if h.Subscription != nil {
		c.SetBytes("subscription", h.Subscription)
	}
	if h.ExpressionType != nil {
		c.SetBytes("expressionType", h.ExpressionType)
	}
	if h.MaxMsgBytes >= 0 {
		c.SetInt("maxMsgBytes", int64(h.MaxMsgBytes))
	}
	if h.RequestSource >= 0 {
		c.SetInt("requestSource", int64(h.RequestSource))
	}
	c.setSome("proxyFrowardClientId", h.ProxyForwardClientID)
	c.setSome("bname", h.BrokerName)
}

// Values for SetForbidden: whose permission is missing.
const (
	ForbiddenBroker = 1 + iota
	ForbiddenGroup
	ForbiddenTopic
	ForbiddenBroadcast
	ForbiddenSubscription
)

// PullAnswer is the header of an answer to a pull. Stock clients need the first four fields with
// SUCCESS, PULL_NOT_FOUND, PULL_RETRY_IMMEDIATELY and PULL_OFFSET_MOVED.
type PullAnswer struct {
	SuggestWhichBrokerID int64
	NextBeginOffset      int64
	MinOffset            int64
	MaxOffset            int64 // the offset that the next message will get
	TopicSysFlag         int32
	GroupSysFlag         int32
}

// Parse reads the header of an answer.
func (h *PullAnswer) Parse(c *Command) error {
	r := reader{c: c}
	*h = PullAnswer{
		SuggestWhichBrokerID: r.int64("suggestWhichBrokerId"),
		NextBeginOffset:      r.int64("nextBeginOffset"),
		MinOffset:            r.int64("minOffset"),
		MaxOffset:            r.int64("maxOffset"),
		TopicSysFlag:         r.int32Or("topicSysFlag", 0),
		GroupSysFlag:         r.int32Or("groupSysFlag", 0),
	}
	return r.err
}

// Append sets the fields of c. It does not allocate once the command is warm.
func (h *PullAnswer) Append(c *Command) {
	c.SetInt("suggestWhichBrokerId", h.SuggestWhichBrokerID)
	c.SetInt("nextBeginOffset", h.NextBeginOffset)
	c.SetInt("minOffset", h.MinOffset)
	c.SetInt("maxOffset", h.MaxOffset)
	c.SetInt("topicSysFlag", int64(h.TopicSysFlag))
	c.SetInt("groupSysFlag", int64(h.GroupSysFlag))
}

// SetForbidden says in the answer c to a pull, besides the code NO_PERMISSION, whose permission is
// missing.
func SetForbidden(c *Command, forbidden int32) { c.SetInt("forbiddenType", int64(forbidden)) }
