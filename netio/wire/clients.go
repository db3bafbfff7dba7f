package wire

// UnregisterRequest is the header of UNREGISTER_CLIENT (35).
type UnregisterRequest struct {
	ClientID      string
	ProducerGroup string // "" when absent
	ConsumerGroup string // "" when absent
}

// Parse reads the header.
func (h *UnregisterRequest) Parse(c *Command) error {
	r := reader{c: c}
	*h = UnregisterRequest{
		ClientID:      r.text("clientID"),
		ProducerGroup: c.Text("producerGroup"),
		ConsumerGroup: c.Text("consumerGroup"),
	}
	return r.err
}

// Append sets the fields of c.
func (h *UnregisterRequest) Append(c *Command) {
	c.Set("clientID", h.ClientID)
	if h.ProducerGroup != "" {
		c.Set("producerGroup", h.ProducerGroup)
	}
	if h.ConsumerGroup != "" {
		c.Set("consumerGroup", h.ConsumerGroup)
	}
}

// ConsumerListRequest is the header of GET_CONSUMER_LIST_BY_GROUP (38).
type ConsumerListRequest struct{ ConsumerGroup string }

// Parse reads the header.
func (h *ConsumerListRequest) Parse(c *Command) error {
	r := reader{c: c}
	h.ConsumerGroup = r.text("consumerGroup")
	return r.err
}

// Append sets the fields of c.
func (h *ConsumerListRequest) Append(c *Command) { c.Set("consumerGroup", h.ConsumerGroup) }

// NotifyIdsChanged is the header of NOTIFY_CONSUMER_IDS_CHANGED (40), which the broker sends one way.
type NotifyIdsChanged struct{ ConsumerGroup string }

// Parse reads the header.
func (h *NotifyIdsChanged) Parse(c *Command) error {
	r := reader{c: c}
	h.ConsumerGroup = r.text("consumerGroup")
	return r.err
}

// Append sets the fields of c and marks it one-way.
func (h *NotifyIdsChanged) Append(c *Command) {
	c.SetOneway()
	c.Set("consumerGroup", h.ConsumerGroup)
}

// HeartbeatAnswer is the header of an answer to HEART_BEAT (34).
type HeartbeatAnswer struct {
	SupportV2 bool // the broker keeps subscriptions that a later heartbeat leaves out
	SubChange bool // the fingerprint differs from the one stored before
}

// Parse reads the header of an answer.
func (h *HeartbeatAnswer) Parse(c *Command) error {
	r := reader{c: c}
	*h = HeartbeatAnswer{
		SupportV2: r.boolOr("IS_SUPPORT_HEART_BEAT_V2", false),
		SubChange: r.boolOr("IS_SUB_CHANGE", false),
	}
	return r.err
}

// Append sets the fields of c.
func (h *HeartbeatAnswer) Append(c *Command) {
	c.SetBool("IS_SUPPORT_HEART_BEAT_V2", h.SupportV2)
	c.SetBool("IS_SUB_CHANGE", h.SubChange)
}
