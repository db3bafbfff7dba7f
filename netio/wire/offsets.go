package wire

// QueryOffsetRequest is the header of QUERY_CONSUMER_OFFSET (14). Its texts are views.
type QueryOffsetRequest struct {
	ConsumerGroup     []byte
	Topic             []byte
	QueueID           int32
	SetZeroIfNotFound bool // true when absent
}

// Parse reads the header.
func (h *QueryOffsetRequest) Parse(c *Command) error {
	r := reader{c: c}
	*h = QueryOffsetRequest{
		ConsumerGroup:     r.bytes("consumerGroup"),
		Topic:             r.bytes("topic"),
		QueueID:           r.int32("queueId"),
		SetZeroIfNotFound: r.boolOr("setZeroIfNotFound", true),
	}
	return r.err
}

// Append sets the fields of c.
func (h *QueryOffsetRequest) Append(c *Command) {
	c.SetBytes("consumerGroup", h.ConsumerGroup)
	c.SetBytes("topic", h.Topic)
	c.SetInt("queueId", int64(h.QueueID))
	if !h.SetZeroIfNotFound {
		c.SetBool("setZeroIfNotFound", false)
	}
}

// UpdateOffsetRequest is the header of UPDATE_CONSUMER_OFFSET (15). Its texts are views.
type UpdateOffsetRequest struct {
	ConsumerGroup []byte
	Topic         []byte
	QueueID       int32
	CommitOffset  int64
}

// Parse reads the header. It allocates only to complain.
func (h *UpdateOffsetRequest) Parse(c *Command) error {
	r := reader{c: c}
	*h = UpdateOffsetRequest{
		ConsumerGroup: r.bytes("consumerGroup"),
		Topic:         r.bytes("topic"),
		QueueID:       r.int32("queueId"),
		CommitOffset:  r.int64("commitOffset"),
	}
	return r.err
}

// Append sets the fields of c.
func (h *UpdateOffsetRequest) Append(c *Command) {
	c.SetBytes("consumerGroup", h.ConsumerGroup)
	c.SetBytes("topic", h.Topic)
	c.SetInt("queueId", int64(h.QueueID))
	c.SetInt("commitOffset", h.CommitOffset)
}

// QueueRequest is the header of GET_MAX_OFFSET (30), GET_MIN_OFFSET (31) and
// GET_EARLIEST_MSG_STORETIME (32).
type QueueRequest struct {
	Topic     string
	QueueID   int32
	Committed bool // of 30 only; true when absent
}

// Parse reads the header.
func (h *QueueRequest) Parse(c *Command) error {
	r := reader{c: c}
	*h = QueueRequest{
		Topic:     r.text("topic"),
		QueueID:   r.int32("queueId"),
		Committed: r.boolOr("committed", true),
	}
	return r.err
}

// Append sets the fields of c.
func (h *QueueRequest) Append(c *Command) {
	c.Set("topic", h.Topic)
	c.SetInt("queueId", int64(h.QueueID))
	if c.Code == GetMaxOffset {
		c.SetBool("committed", h.Committed)
	}
}

// SearchOffsetRequest is the header of SEARCH_OFFSET_BY_TIMESTAMP (29).
type SearchOffsetRequest struct {
	Topic     string
	QueueID   int32
	Timestamp int64 // ms, by the clock of the store
	Upper     bool  // boundaryType: false (LOWER) the first message not before, true (UPPER) the last not after
}

// Parse reads the header. Any boundaryType but "upper", in whatever letter case, means LOWER.
func (h *SearchOffsetRequest) Parse(c *Command) error {
	r := reader{c: c}
	*h = SearchOffsetRequest{
		Topic:     r.text("topic"),
		QueueID:   r.int32("queueId"),
		Timestamp: r.int64("timestamp"),
	}
	boundary, _ := c.Get("boundaryType")
	h.Upper = equalFold(boundary, "UPPER")
	return r.err
}

// Append sets the fields of c.
func (h *SearchOffsetRequest) Append(c *Command) {
	c.Set("topic", h.Topic)
	c.SetInt("queueId", int64(h.QueueID))
	c.SetInt("timestamp", h.Timestamp)
	boundary := "LOWER"
	if h.Upper {
		boundary = "UPPER"
	}
	c.Set("boundaryType", boundary)
}

// OffsetAnswer is the header of a successful answer to 14, 29, 30 and 31.
type OffsetAnswer struct{ Offset int64 }

// Parse reads the header of an answer.
func (h *OffsetAnswer) Parse(c *Command) error {
	r := reader{c: c}
	h.Offset = r.int64("offset")
	return r.err
}

// Append sets the fields of c.
func (h *OffsetAnswer) Append(c *Command) { c.SetInt("offset", h.Offset) }

// StoreTimeAnswer is the header of a successful answer to GET_EARLIEST_MSG_STORETIME (32).
type StoreTimeAnswer struct{ Timestamp int64 } // ms, -1 when the queue is empty

// Parse reads the header of an answer.
func (h *StoreTimeAnswer) Parse(c *Command) error {
	r := reader{c: c}
	h.Timestamp = r.int64("timestamp")
	return r.err
}

// Append sets the fields of c.
func (h *StoreTimeAnswer) Append(c *Command) { c.SetInt("timestamp", h.Timestamp) }
