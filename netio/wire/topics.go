package wire

// CreateTopicRequest is the header of UPDATE_AND_CREATE_TOPIC (17).
type CreateTopicRequest struct {
	Topic           string
	DefaultTopic    string
	ReadQueueNums   int32
	WriteQueueNums  int32
	Perm            int32
	TopicFilterType string // SINGLE_TAG or MULTI_TAG
	TopicSysFlag    int32  // 0 when absent
	Order           bool
	Attributes      string // "+name=value,-name"; "" when absent
	Force           bool   // false when absent
}

// Parse reads the header.
func (h *CreateTopicRequest) Parse(c *Command) error {
	r := reader{c: c}
	*h = CreateTopicRequest{
		Topic:           r.text("topic"),
		DefaultTopic:    r.text("defaultTopic"),
		ReadQueueNums:   r.int32("readQueueNums"),
		WriteQueueNums:  r.int32("writeQueueNums"),
		Perm:            r.int32("perm"),
		TopicFilterType: r.text("topicFilterType"),
		TopicSysFlag:    r.int32Or("topicSysFlag", 0),
		Order:           r.boolOr("order", false),
		Attributes:      c.Text("attributes"),
		Force:           r.boolOr("force", false),
	}
	if t := h.TopicFilterType; r.err == nil && t != "SINGLE_TAG" && t != "MULTI_TAG" {
		return illTyped("topicFilterType", []byte(t), "SINGLE_TAG or MULTI_TAG")
	}
	return r.err
}

// Append sets the fields of c.
func (h *CreateTopicRequest) Append(c *Command) {
	c.Set("topic", h.Topic)
	c.Set("defaultTopic", h.DefaultTopic)
	c.SetInt("readQueueNums", int64(h.ReadQueueNums))
	c.SetInt("writeQueueNums", int64(h.WriteQueueNums))
	c.SetInt("perm", int64(h.Perm))
	c.Set("topicFilterType", h.TopicFilterType)
	c.SetInt("topicSysFlag", int64(h.TopicSysFlag))
	c.SetBool("order", h.Order)
	c.Set("attributes", h.Attributes)
	c.SetBool("force", h.Force)
}
