package load

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"ringmq/netio/remoting"
	"ringmq/netio/wire"
)

// Topics are created one by one, as a tool would, over some connections side by side.
type Topics struct {
	Addr   string
	Topic  string // see Send
	Topics int
	Queues int
	Conns  int
}

// Create makes them and returns how long that took. Topics that exist already are set to the queues given.
func (t Topics) Create(ctx context.Context) (time.Duration, error) {
	var next atomic.Int64
	began := time.Now()
	err := each(ctx, max(t.Conns, 1), func(ctx context.Context, _ int) error {
		conn, err := remoting.Dial(ctx, t.Addr, remoting.Options{})
		if err != nil {
			return err
		}
		defer conn.Close()
		for i := next.Add(1) - 1; i < int64(t.Topics); i = next.Add(1) - 1 {
			var cmd wire.Command
			cmd.Request(wire.UpdateAndCreateTopic, 0)
			h := wire.CreateTopicRequest{
				Topic: topicName(t.Topic, t.Topics, int(i)), DefaultTopic: "TBW102", ReadQueueNums: int32(t.Queues), WriteQueueNums: int32(t.Queues), Perm: 6,
				TopicFilterType: "SINGLE_TAG",
			}
			h.Append(&cmd)
			a, err := conn.Call(ctx, &cmd)
			if err == nil && a.Code != wire.Success {
				err = fmt.Errorf("code %d: %s", a.Code, a.Remark)
			}
			if err != nil {
				return fmt.Errorf("create topic %s: %w", h.Topic, err)
			}
		}
		return nil
	})
	return time.Since(began), err
}
