package wire

// SendBackRequest is the header of CONSUMER_SEND_MSG_BACK (36): a consumer could not handle a message. Its texts
// are views.
type SendBackRequest struct {
	Offset            int64 // physical offset of the message
	Group             []byte
	DelayLevel        int32  // negative: dead at once; 0: the broker chooses by the number of tries
	OriginMsgID       []byte // for the log
	OriginTopic       []byte // for the log
	UnitMode          bool
	MaxReconsumeTimes int32 // -1 when absent
}

// Parse reads the header.
func (h *SendBackRequest) Parse(c *Command) error {
	r := reader{c: c}
	*h = SendBackRequest{
		Offset:            r.int64("offset"),
		Group:             r.bytes("group"),
		DelayLevel:        r.int32("delayLevel"),
		UnitMode:          r.boolOr("unitMode", false),
		MaxReconsumeTimes: r.int32Or("maxReconsumeTimes", -1),
	}
	h.OriginMsgID, _ = c.Get("originMsgId")
	h.OriginTopic, _ = c.Get("originTopic")
	return r.err
}

// Append sets the fields of c.
func (h *SendBackRequest) Append(c *Command) {
	c.SetInt("offset", h.Offset)
	c.SetBytes("group", h.Group)
	c.SetInt("delayLevel", int64(h.DelayLevel))
	c.setSome("originMsgId", h.OriginMsgID)
	c.setSome("originTopic", h.OriginTopic)
	c.SetBool("unitMode", h.UnitMode)
	if h.MaxReconsumeTimes >= 0 {
		c.SetInt("maxReconsumeTimes", int64(h.MaxReconsumeTimes))
	}
}
