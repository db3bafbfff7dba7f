package rpc

import "ringmq/netio/wire"

// checkClientConfig (46) tells a consumer, before it begins, whether its messages can be filtered as it wants. Stock
// clients ask for expressions that are no tags.
//   - the stock broker answers success to a body without a subscription; here that is an error
//
// Worker lane: the body may be long.
func (s *Server) checkClientConfig(c *Call) *wire.Command {
	var body wire.CheckClientBody
	if err := wire.Unmarshal(c.Req.Body, &body); err != nil {
		return c.Failf(wire.SystemError, "the body of %v cannot be read: %v", c.Req.Code, err)
	}
	if body.SubscriptionData == nil {
		return c.Failf(wire.SystemError, "the body of %v cannot be used: subscriptionData: missing", c.Req.Code)
	}
	d := body.SubscriptionData
	if _, code, remark := s.expression(d.ExpressionType, d.SubString); code != wire.Success {
		return c.Fail(code, remark)
	}
	return c.OK()
}
