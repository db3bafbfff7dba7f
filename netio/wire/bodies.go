package wire

// The bodies below are read with Unmarshal and written with encoding/json. Their members stand in
// alphabetical order, as the stock broker emits them. A nil collection is left out, an empty one is
// sent as [] or {}.

// HeartbeatBody is the body of HEART_BEAT (34): who a client is and what it produces and consumes.
type HeartbeatBody struct {
	ClientID             string         `json:"clientID"`
	ConsumerDataSet      []ConsumerData `json:"consumerDataSet,omitzero"`
	HeartbeatFingerprint int32          `json:"heartbeatFingerprint"` // not 0: the second form of heartbeat
	ProducerDataSet      []ProducerData `json:"producerDataSet,omitzero"`
	WithoutSub           bool           `json:"withoutSub"` // the subscriptions are as they were, and left out
}

// ProducerData names one producer group of a client.
type ProducerData struct {
	GroupName string `json:"groupName"`
}

// ConsumerData is one consumer group of a client.
type ConsumerData struct {
	ConsumeFromWhere    ConsumeFromWhere   `json:"consumeFromWhere,omitzero"`
	ConsumeType         ConsumeType        `json:"consumeType,omitzero"`
	GroupName           string             `json:"groupName"`
	MessageModel        MessageModel       `json:"messageModel,omitzero"`
	SubscriptionDataSet []SubscriptionData `json:"subscriptionDataSet,omitzero"`
	UnitMode            bool               `json:"unitMode"`
}

// SubscriptionData is what a group wants of one topic.
type SubscriptionData struct {
	ClassFilterMode bool     `json:"classFilterMode"`
	CodeSet         []int32  `json:"codeSet,omitzero"` // hashes of the tags; nil from some clients
	ExpressionType  string   `json:"expressionType"`   // "" means TAG
	SubString       string   `json:"subString"`        // "*" and "" mean everything
	SubVersion      int64    `json:"subVersion"`       // the client's clock: ms from Java, ns from Go
	TagsSet         []string `json:"tagsSet,omitzero"`
	Topic           string   `json:"topic"`
}

// ConsumerListBody is the body of an answer to GET_CONSUMER_LIST_BY_GROUP (38).
type ConsumerListBody struct {
	ConsumerIDList []string `json:"consumerIdList,omitzero"`
}

// DataVersion tells apart the states of a table. Two are the same state when they are equal.
type DataVersion struct {
	Counter      int64 `json:"counter"`
	StateVersion int64 `json:"stateVersion"`
	Timestamp    int64 `json:"timestamp"` // ms
}

// TopicConfig is what a broker knows about a topic.
type TopicConfig struct {
	Attributes      map[string]string `json:"attributes,omitzero"`
	Order           bool              `json:"order"`
	Perm            int32             `json:"perm"`
	ReadQueueNums   int32             `json:"readQueueNums"`
	TopicFilterType string            `json:"topicFilterType"`
	TopicName       string            `json:"topicName"`
	TopicSysFlag    int32             `json:"topicSysFlag"`
	WriteQueueNums  int32             `json:"writeQueueNums"`
}

// SetDefaults gives t what the stock broker assumes for members that are left out.
func (t *TopicConfig) SetDefaults() {
	*t = TopicConfig{Perm: 6, ReadQueueNums: 16, WriteQueueNums: 16, TopicFilterType: "SINGLE_TAG"}
}

// TopicConfigWrapper is all topics of a broker, as part of a registration.
type TopicConfigWrapper struct {
	DataVersion        DataVersion            `json:"dataVersion"`
	MappingDataVersion DataVersion            `json:"mappingDataVersion"`
	TopicConfigTable   map[string]TopicConfig `json:"topicConfigTable,omitzero"`

	// Static topics, which this broker neither has nor takes over.
	TopicQueueMappingDetailMap struct{} `json:"topicQueueMappingDetailMap"`
	TopicQueueMappingInfoMap   struct{} `json:"topicQueueMappingInfoMap"`
}

// RouteData is the body of an answer to GET_ROUTEINFO_BY_TOPIC (105). It must be sent compact: Go
// clients split it at commas and colons.
type RouteData struct {
	BrokerDatas       []BrokerData        `json:"brokerDatas,omitzero"`
	FilterServerTable map[string][]string `json:"filterServerTable,omitzero"`
	OrderTopicConf    string              `json:"orderTopicConf,omitempty"` // "broker-a:8;broker-b:8"
	QueueDatas        []QueueData         `json:"queueDatas,omitzero"`
}

// BrokerData is a group of brokers of one name: the master has id 0.
type BrokerData struct {
	BrokerAddrs        map[int64]string `json:"brokerAddrs,omitzero"` // ids are sent quoted, which all clients read
	BrokerName         string           `json:"brokerName"`
	Cluster            string           `json:"cluster"`
	EnableActingMaster bool             `json:"enableActingMaster"`
	ZoneName           string           `json:"zoneName,omitempty"`
}

// QueueData is a topic's queues on the brokers of one name.
type QueueData struct {
	BrokerName     string `json:"brokerName"`
	Perm           int32  `json:"perm"`
	ReadQueueNums  int32  `json:"readQueueNums"`
	TopicSysFlag   int32  `json:"topicSysFlag"`
	WriteQueueNums int32  `json:"writeQueueNums"`
}

// ClusterInfo is the body of an answer to GET_BROKER_CLUSTER_INFO (106).
type ClusterInfo struct {
	BrokerAddrTable  map[string]BrokerData `json:"brokerAddrTable,omitzero"`
	ClusterAddrTable map[string][]string   `json:"clusterAddrTable,omitzero"`
}

// TopicList is the body of answers that list topics, such as to
// GET_ALL_TOPIC_LIST_FROM_NAMESERVER (206).
type TopicList struct {
	BrokerAddr string   `json:"brokerAddr,omitempty"`
	TopicList  []string `json:"topicList,omitzero"`
}
