package rpc

import (
	"fmt"
	"strings"

	"ringmq/netio/wire"
	"ringmq/node/filter"
	"ringmq/node/group"
)

// expression compiles what a subscription says; nil for a tag list. Any code but Success refuses the subscription, and the
// remark says why (stock broker 5.5.0): 1 where the broker does not filter by properties, 23 where the expression is
// illegal. That one is refused on a pull too, where a stock broker delivers every message.
func (s *Server) expression(exprType, text string) (expr *filter.Expr, code wire.Code, remark string) {
	switch {
	case exprType == group.Tag || exprType == "":
		return nil, wire.Success, ""
	case !s.opts.PropertyFilter:
		return nil, wire.SystemError, fmt.Sprintf(
			"The broker does not support consumer to filter message by %s: enablePropertyFilter is not true", exprType)
	case exprType != filter.SQL92:
		return nil, wire.SubscriptionParseFailed, fmt.Sprintf("there is no expression type %q, only TAG and SQL92", exprType)
	}
	expr, err := s.filters.Compile(text)
	if err != nil {
		return nil, wire.SubscriptionParseFailed, fmt.Sprintf("the SQL92 expression is illegal: %v", err)
	}
	return expr, wire.Success, ""
}

// dropIllegal takes the consumers out of a heartbeat whose subscriptions are illegal, and returns what is wrong with them.
// A consumer that joined its group with an illegal expression would get queues that it cannot read, and would take away
// the legal expression from the other members. Where the broker does not filter by properties nobody is taken out: each
// pull says so.
func (s *Server) dropIllegal(body *wire.HeartbeatBody) (remark string) {
	var bad []string
	kept := body.ConsumerDataSet[:0]
	for i := range body.ConsumerDataSet {
		c := &body.ConsumerDataSet[i]
		if wrong := s.illegal(c); wrong != "" {
			bad = append(bad, wrong)
			continue
		}
		kept = append(kept, *c)
	}
	body.ConsumerDataSet = kept
	return strings.Join(bad, "; ")
}

// illegal tells what is wrong with the subscriptions of a consumer; nothing if all are legal.
func (s *Server) illegal(c *wire.ConsumerData) string {
	for i := range c.SubscriptionDataSet {
		d := &c.SubscriptionDataSet[i]
		if _, code, remark := s.expression(d.ExpressionType, d.SubString); code == wire.SubscriptionParseFailed {
			return fmt.Sprintf("group %s, topic %s: %s", c.GroupName, d.Topic, remark)
		}
	}
	return ""
}
