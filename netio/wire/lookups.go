package wire

// QueryMessageRequest is the header of QUERY_MESSAGE (12): messages by a key.
type QueryMessageRequest struct {
	Topic          string
	Key            string
	MaxNum         int32
	BeginTimestamp int64 // ms, by the clock of the store
	EndTimestamp   int64
	IndexType      string // what Key is: "K" one of the keys, "U" the id from the client, "T" the tags; "" from old clients
	UniqueKey      bool   // Key is the id from the client; MaxNum does not count then
}

// Parse reads the header.
func (h *QueryMessageRequest) Parse(c *Command) error {
	r := reader{c: c}
	*h = QueryMessageRequest{
		Topic:          r.text("topic"),
		Key:            r.text("key"),
		MaxNum:         r.int32("maxNum"),
		BeginTimestamp: r.int64("beginTimestamp"),
		EndTimestamp:   r.int64("endTimestamp"),
		IndexType:      c.Text("indexType"),
		UniqueKey:      c.Text("_UNIQUE_KEY_QUERY") == "true",
	}
	return r.err
}

// Append sets the fields of c.
func (h *QueryMessageRequest) Append(c *Command) {
	c.Set("topic", h.Topic)
	c.Set("key", h.Key)
	c.SetInt("maxNum", int64(h.MaxNum))
	c.SetInt("beginTimestamp", h.BeginTimestamp)
	c.SetInt("endTimestamp", h.EndTimestamp)
	if h.IndexType != "" {
		c.Set("indexType", h.IndexType)
	}
	c.SetBool("_UNIQUE_KEY_QUERY", h.UniqueKey)
}

// QueryMessageAnswer is the header of an answer to QUERY_MESSAGE (12), found or not. Its body is records.
type QueryMessageAnswer struct {
	IndexLastUpdateTimestamp int64 // ms: store time of the newest message in the index; 0 when nothing was found
	IndexLastUpdatePhyoffset int64 // physical offset of that message; 0 when nothing was found
}

// Parse reads the header of an answer.
func (h *QueryMessageAnswer) Parse(c *Command) error {
	r := reader{c: c}
	*h = QueryMessageAnswer{
		IndexLastUpdateTimestamp: r.int64("indexLastUpdateTimestamp"),
		IndexLastUpdatePhyoffset: r.int64("indexLastUpdatePhyoffset"),
	}
	return r.err
}

// Append sets the fields of c.
func (h *QueryMessageAnswer) Append(c *Command) {
	c.SetInt("indexLastUpdateTimestamp", h.IndexLastUpdateTimestamp)
	c.SetInt("indexLastUpdatePhyoffset", h.IndexLastUpdatePhyoffset)
}

// ViewMessageRequest is the header of VIEW_MESSAGE_BY_ID (33). The answer's body is one record.
type ViewMessageRequest struct {
	Topic  string // "" from some clients; stock brokers do not look at it
	Offset int64  // physical
}

// Parse reads the header.
func (h *ViewMessageRequest) Parse(c *Command) error {
	r := reader{c: c}
	*h = ViewMessageRequest{Topic: c.Text("topic"), Offset: r.int64("offset")}
	return r.err
}

// Append sets the fields of c.
func (h *ViewMessageRequest) Append(c *Command) {
	if h.Topic != "" {
		c.Set("topic", h.Topic)
	}
	c.SetInt("offset", h.Offset)
}
