package group

import "strings"

// Config is what a broker knows of one consumer group. The members are those of the stock
// subscriptionGroup.json, in its order.
type Config struct {
	Attributes        map[string]string `json:"attributes"`
	BrokerID          int64             `json:"brokerId"`
	ConsumeBroadcast  bool              `json:"consumeBroadcastEnable"`
	Consume           bool              `json:"consumeEnable"`
	ConsumeFromMin    bool              `json:"consumeFromMinEnable"`
	ConsumeOrderly    bool              `json:"consumeMessageOrderly"`
	ConsumeTimeoutMin int32             `json:"consumeTimeoutMinute"`
	Name              string            `json:"groupName"`
	RetryPolicy       any               `json:"groupRetryPolicy,omitempty"` // as it was read
	SysFlag           int32             `json:"groupSysFlag"`
	NotifyIDsChanged  bool              `json:"notifyConsumerIdsChangedEnable"`
	RetryMaxTimes     int32             `json:"retryMaxTimes"`
	RetryQueues       int32             `json:"retryQueueNums"`
	Subscriptions     any               `json:"subscriptionDataSet,omitempty"`
	WhichBrokerIfSlow int64             `json:"whichBrokerWhenConsumeSlowly"`
}

// defaults is a group as the stock broker 5.5.0 creates it.
func defaults(name string) Config {
	return Config{
		Attributes: map[string]string{}, ConsumeBroadcast: true, Consume: true, ConsumeFromMin: true,
		ConsumeTimeoutMin: 15, Name: name, RetryPolicy: map[string]any{"type": "CUSTOMIZED"},
		NotifyIDsChanged: true, RetryMaxTimes: 16, RetryQueues: 1, WhichBrokerIfSlow: 1,
	}
}

// SetDefaults gives c what the stock broker's class is born with: it stands in for members that are missing.
func (c *Config) SetDefaults() { *c = defaults("") }

// systemPrefix starts the names of the broker's own groups, which are created whenever somebody needs them.
const systemPrefix = "CID_RMQ_SYS_"

// IsSystem tells whether the group is the broker's own.
func IsSystem(name string) bool { return strings.HasPrefix(name, systemPrefix) }

// predefined are the groups that every stock broker has.
var predefined = []string{
	"TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PULL",
	"CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_RMQ_SYS_TRANS",
}
