package rpc

import (
	"cmp"

	"ringmq/netio/wire"
	"ringmq/node/group"
)

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
	if ans := refuseFilter(c, cmp.Or(body.SubscriptionData.ExpressionType, group.Tag)); ans != nil {
		return ans
	}
	return c.OK()
}
