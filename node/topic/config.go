package topic

import (
	"maps"

	"ringmq/netio/wire"
)

// Filter types of a topic.
const (
	SingleTag = "SINGLE_TAG"
	MultiTag  = "MULTI_TAG"
)

// Bits of Config.SysFlag.
const (
	FlagUnit    = 1 << 0
	FlagUnitSub = 1 << 1
)

// Config is what a broker knows of one topic. The members are those of the stock topics.json, in its order.
type Config struct {
	Attributes  map[string]string `json:"attributes"` // such as message.type; never nil in a Table
	Order       bool              `json:"order"`
	Perm        Perm              `json:"perm"`
	ReadQueues  int32             `json:"readQueueNums"`
	FilterType  string            `json:"topicFilterType"` // SingleTag or MultiTag
	Name        string            `json:"topicName"`
	SysFlag     int32             `json:"topicSysFlag"`
	WriteQueues int32             `json:"writeQueueNums"`
}

// Wire returns the same as the body type of the protocol, which registrations and tools see. perm is the
// broker's own permission: registrations carry what both allow.
func (c *Config) Wire(perm Perm) wire.TopicConfig {
	return wire.TopicConfig{
		Attributes: c.Attributes, Order: c.Order, Perm: int32(c.Perm & perm), ReadQueueNums: c.ReadQueues,
		TopicFilterType: c.FilterType, TopicName: c.Name, TopicSysFlag: c.SysFlag, WriteQueueNums: c.WriteQueues,
	}
}

func (c *Config) equal(d *Config) bool {
	return c.Name == d.Name && c.ReadQueues == d.ReadQueues && c.WriteQueues == d.WriteQueues && c.Perm == d.Perm &&
		c.SysFlag == d.SysFlag && c.Order == d.Order && c.FilterType == d.FilterType && maps.Equal(c.Attributes, d.Attributes)
}
