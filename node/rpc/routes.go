package rpc

import (
	"strconv"

	"ringmq/netio/wire"
)

// lane is where a request's handler runs.
type lane uint8

const (
	onLoop   lane = iota // in place: it takes microseconds and waits for nothing
	onWorker             // it may wait for the disk
)

type route struct {
	lane   lane
	handle handler
}

// routes is every request code that is served.
var routes = map[wire.Code]route{
	wire.SendMessage:             {onLoop, (*Server).sendMessage},
	wire.SendMessageV2:           {onLoop, (*Server).sendMessage},
	wire.SendBatchMessage:        {onLoop, (*Server).sendMessage},
	wire.PullMessage:             {onLoop, (*Server).pullMessage},
	wire.LitePullMessage:         {onLoop, (*Server).pullMessage},
	wire.QueryConsumerOffset:     {onLoop, (*Server).queryConsumerOffset},
	wire.UpdateConsumerOffset:    {onLoop, (*Server).updateConsumerOffset},
	wire.GetMaxOffset:            {onLoop, (*Server).getMaxOffset},
	wire.GetMinOffset:            {onLoop, (*Server).getMinOffset},
	wire.GetConsumerListByGroup:  {onLoop, (*Server).getConsumerList},
	wire.ConsumerSendMsgBack:     {onWorker, (*Server).sendMsgBack},
	wire.UpdateAndCreateTopic:    {onWorker, (*Server).createTopic},
	wire.SearchOffsetByTimestamp: {onWorker, (*Server).searchOffset},
	wire.GetEarliestMsgStoretime: {onWorker, (*Server).getEarliestStoreTime},
	wire.QueryMessage:            {onWorker, (*Server).queryMessage},
	wire.ViewMessageByID:         {onWorker, (*Server).viewMessage},
	wire.LockBatchMQ:             {onWorker, (*Server).lockQueues},
	wire.UnlockBatchMQ:           {onWorker, (*Server).unlockQueues},
	wire.GetAllDelayOffset:       {onWorker, (*Server).getAllDelayOffset},
	wire.CheckClientConfig:       {onWorker, (*Server).checkClientConfig},
	wire.GetConsumeStats:         {onWorker, (*Server).getConsumeStats},
	wire.QueryTopicsByConsumer:   {onLoop, (*Server).queryTopicsByConsumer},
	wire.HeartBeat:               {onWorker, (*Server).heartBeat},
	wire.UnregisterClient:        {onWorker, (*Server).unregisterClient},
}

// route finds the handler of a request. Other codes are answered with their name, so that a
// client's log tells what this broker lacks.
func (s *Server) route(code wire.Code) route {
	if r, ok := routes[code]; ok {
		return r
	}
	s.stats.unknown.Add(1)
	return route{onLoop, (*Server).notSupported}
}

func (s *Server) notSupported(c *Call) *wire.Command {
	code := strconv.Itoa(int(c.Req.Code))
	if name := c.Req.Code.String(); name != code {
		code += " (" + name + ")"
	}
	return c.Failf(wire.RequestCodeNotSupported, "request code %s is not supported by this broker", code)
}
