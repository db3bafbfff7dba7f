package wire

// GetRouteRequest is the header of GET_ROUTEINFO_BY_TOPIC (105).
type GetRouteRequest struct {
	Topic                  string
	AcceptStandardJSONOnly bool // false when absent
}

// Parse reads the header.
func (h *GetRouteRequest) Parse(c *Command) error {
	r := reader{c: c}
	*h = GetRouteRequest{
		Topic:                  r.text("topic"),
		AcceptStandardJSONOnly: r.boolOr("acceptStandardJsonOnly", false),
	}
	return r.err
}

// Append sets the fields of c.
func (h *GetRouteRequest) Append(c *Command) {
	c.Set("topic", h.Topic)
	if h.AcceptStandardJSONOnly {
		c.SetBool("acceptStandardJsonOnly", true)
	}
}

// BrokerIdentity is how a broker presents itself to a name server. It is the whole header of
// UNREGISTER_BROKER (104) and of QUERY_DATA_VERSION (322).
type BrokerIdentity struct {
	BrokerName  string
	BrokerAddr  string // host:port that clients dial
	ClusterName string
	BrokerID    int64 // 0 is the master
}

// UnregisterBrokerRequest is the header of UNREGISTER_BROKER (104).
type UnregisterBrokerRequest struct{ BrokerIdentity }

// QueryDataVersionRequest is the header of QUERY_DATA_VERSION (322); its body is a DataVersion.
type QueryDataVersionRequest struct{ BrokerIdentity }

// Parse reads the fields from c.
func (h *BrokerIdentity) Parse(c *Command) error {
	r := reader{c: c}
	*h = BrokerIdentity{
		BrokerName:  r.text("brokerName"),
		BrokerAddr:  r.text("brokerAddr"),
		ClusterName: r.text("clusterName"),
		BrokerID:    r.int64("brokerId"),
	}
	return r.err
}

// Append sets the fields of c.
func (h *BrokerIdentity) Append(c *Command) {
	c.Set("brokerName", h.BrokerName)
	c.Set("brokerAddr", h.BrokerAddr)
	c.Set("clusterName", h.ClusterName)
	c.SetInt("brokerId", h.BrokerID)
}

// QueryDataVersionAnswer is the header of an answer to QUERY_DATA_VERSION; its body is the
// DataVersion that the name server holds, if any.
type QueryDataVersionAnswer struct{ Changed bool }

// Parse reads the header of an answer.
func (h *QueryDataVersionAnswer) Parse(c *Command) error {
	v, ok := c.Get("changed")
	if h.Changed = isTrue(v); !ok {
		return missing("changed")
	}
	return nil
}

// Append sets the fields of c.
func (h *QueryDataVersionAnswer) Append(c *Command) { c.SetBool("changed", h.Changed) }

// RegisterBrokerRequest is the header of REGISTER_BROKER (103); its body is a RegisterBody.
type RegisterBrokerRequest struct {
	BrokerIdentity
	HAServerAddr           string
	HeartbeatTimeoutMillis int64 // 0 when absent: the name server's own limit
	EnableActingMaster     bool  // false when absent
	Compressed             bool  // form of the body, see RegisterBody
	BodyCRC32              int32 // 0 when absent: not to be checked
	ZoneName               string
}

// Parse reads the header.
func (h *RegisterBrokerRequest) Parse(c *Command) error {
	if err := h.BrokerIdentity.Parse(c); err != nil {
		return err
	}
	r := reader{c: c}
	h.HAServerAddr = r.text("haServerAddr")
	h.HeartbeatTimeoutMillis = r.int64Or("heartbeatTimeoutMillis", 0)
	h.EnableActingMaster = r.boolOr("enableActingMaster", false)
	h.Compressed = r.boolOr("compressed", false)
	h.BodyCRC32 = r.int32Or("bodyCrc32", 0)
	h.ZoneName = c.Text("__ZONE_NAME")
	return r.err
}

// Append sets the fields of c.
func (h *RegisterBrokerRequest) Append(c *Command) {
	h.BrokerIdentity.Append(c)
	c.Set("haServerAddr", h.HAServerAddr)
	if h.HeartbeatTimeoutMillis > 0 {
		c.SetInt("heartbeatTimeoutMillis", h.HeartbeatTimeoutMillis)
	}
	c.SetBool("enableActingMaster", h.EnableActingMaster)
	c.SetBool("compressed", h.Compressed)
	c.SetInt("bodyCrc32", int64(h.BodyCRC32))
	if h.ZoneName != "" {
		c.Set("__ZONE_NAME", h.ZoneName)
	}
}

// RegisterBrokerAnswer is the header of an answer to REGISTER_BROKER. Both fields are for slaves
// and "" when no master is known.
type RegisterBrokerAnswer struct {
	HAServerAddr string
	MasterAddr   string
}

// Parse reads the header of an answer.
func (h *RegisterBrokerAnswer) Parse(c *Command) error {
	*h = RegisterBrokerAnswer{HAServerAddr: c.Text("haServerAddr"), MasterAddr: c.Text("masterAddr")}
	return nil
}

// Append sets the fields of c.
func (h *RegisterBrokerAnswer) Append(c *Command) {
	if h.HAServerAddr != "" {
		c.Set("haServerAddr", h.HAServerAddr)
	}
	if h.MasterAddr != "" {
		c.Set("masterAddr", h.MasterAddr)
	}
}
