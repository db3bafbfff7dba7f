package interop

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	rmqconsumer "github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	rmqproducer "github.com/apache/rocketmq-client-go/v2/producer"
)

// goClient is github.com/apache/rocketmq-client-go/v2.
type goClient struct{}

func (goClient) name() string { return "go" }

func (goClient) createTopic(t *testing.T, n *node, topic string, queues int) {
	t.Helper()
	a, err := admin.NewAdmin(admin.WithResolver(primitive.NewPassthroughResolver([]string{n.namesrvAddr()})))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	// It takes any answer for success, so the route is what tells.
	err = a.CreateTopic(t.Context(), admin.WithTopicCreate(topic), admin.WithBrokerAddrCreate(n.brokerAddr()),
		admin.WithReadQueueNums(queues), admin.WithWriteQueueNums(queues))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, "the route of "+topic, func() error {
		found, err := a.FetchPublishMessageQueues(t.Context(), topic)
		if err == nil && len(found) != queues {
			err = fmt.Errorf("%d queues, want %d", len(found), queues)
		}
		return err
	})
}

// goStatus are the Java client's names of the Go client's send results.
var goStatus = map[primitive.SendStatus]string{
	primitive.SendOK:                "SEND_OK",
	primitive.SendFlushDiskTimeout:  "FLUSH_DISK_TIMEOUT",
	primitive.SendFlushSlaveTimeout: "FLUSH_SLAVE_TIMEOUT",
	primitive.SendSlaveNotAvailable: "SLAVE_NOT_AVAILABLE",
}

type goProducer struct{ p rocketmq.Producer }

func (goClient) producer(t *testing.T, n *node) producer {
	t.Helper()
	p, err := rocketmq.NewProducer(
		rmqproducer.WithNameServer([]string{n.namesrvAddr()}),
		rmqproducer.WithGroupName(unique(t, "pg")),
		rmqproducer.WithInstanceName(unique(t, "p")),
		rmqproducer.WithSendMsgTimeout(sendTimeout),
		rmqproducer.WithQueueSelector(queueOrRoundRobin{rmqproducer.NewRoundRobinQueueSelector()}),
	)
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Shutdown() })
	return goProducer{p}
}

// queueOrRoundRobin honours a message's own queue.
type queueOrRoundRobin struct{ rmqproducer.QueueSelector }

func (s queueOrRoundRobin) Select(m *primitive.Message, queues []*primitive.MessageQueue, last string) *primitive.MessageQueue {
	if m.Queue == nil {
		return s.QueueSelector.Select(m, queues, last)
	}
	for _, q := range queues {
		if q.QueueId == m.Queue.QueueId {
			return q
		}
	}
	return nil
}

func goMessage(m message) *primitive.Message {
	out := primitive.NewMessage(m.Topic, m.Body)
	out.WithProperties(map[string]string{})
	for k, v := range m.Props {
		out.WithProperty(k, v)
	}
	out.WithTag(m.Tags)
	out.WithKeys(m.Keys)
	out.Flag = int32(m.Flag)
	if m.Delay > 0 {
		out.WithDelayTimeLevel(m.Delay)
	}
	if m.Queue != nil {
		out.Queue = &primitive.MessageQueue{Topic: m.Topic, QueueId: *m.Queue}
	}
	return out
}

func goAck(r *primitive.SendResult, err error) (ack, error) {
	if err != nil {
		return ack{}, err
	}
	return ack{
		Status: goStatus[r.Status], Queue: r.MessageQueue.QueueId, Offset: r.QueueOffset,
		MsgID: r.MsgID, OffsetMsgID: r.OffsetMsgID,
	}, nil
}

func (p goProducer) send(m message) (ack, error) {
	return goAck(p.p.SendSync(context.Background(), goMessage(m)))
}

func (p goProducer) sendAsync(m message) (ack, error) {
	type outcome struct {
		r   *primitive.SendResult
		err error
	}
	done := make(chan outcome, 1)
	err := p.p.SendAsync(context.Background(), func(_ context.Context, r *primitive.SendResult, err error) {
		select {
		case done <- outcome{r, err}:
		default: // the library may call twice on a time-out
		}
	}, goMessage(m))
	if err != nil {
		return ack{}, err
	}
	o := <-done
	return goAck(o.r, o.err)
}

func (p goProducer) sendOneway(m message) error {
	return p.p.SendOneWay(context.Background(), goMessage(m))
}

func (p goProducer) sendBatch(ms []message) (ack, error) {
	all := make([]*primitive.Message, len(ms))
	for i, m := range ms {
		all[i] = goMessage(m)
	}
	return goAck(p.p.SendSync(context.Background(), all...))
}

func goGot(m *primitive.MessageExt) got {
	return got{
		Topic: m.Topic, Queue: m.Queue.QueueId, Offset: m.QueueOffset, Body: m.Body, Props: m.GetProperties(),
		Flag: int(m.Flag), MsgID: m.MsgId, Reconsumed: int(m.ReconsumeTimes),
	}
}

type goConsumer struct {
	c     rocketmq.PushConsumer
	topic string
	once  sync.Once

	// mu guards what follows.
	mu   sync.Mutex
	held []int
}

func (goClient) consume(t *testing.T, n *node, s subscription, handle func(got)) consumer {
	t.Helper()
	g := &goConsumer{topic: s.topic}
	options := []rmqconsumer.Option{
		rmqconsumer.WithNameServer([]string{n.namesrvAddr()}),
		rmqconsumer.WithGroupName(s.group),
		rmqconsumer.WithInstance(unique(t, "c")),
		rmqconsumer.WithStrategy(g.allocate),
	}
	if s.broadcast {
		options = append(options, rmqconsumer.WithConsumerModel(rmqconsumer.BroadCasting))
		t.Cleanup(func() { removeLocalOffsets(s.group) })
	}
	if s.orderly {
		options = append(options, rmqconsumer.WithConsumerOrder(true))
	}
	if s.maxTries > 0 {
		options = append(options, rmqconsumer.WithMaxReconsumeTimes(int32(s.maxTries)))
	}
	if s.fromFirst {
		options = append(options, rmqconsumer.WithConsumeFromWhere(rmqconsumer.ConsumeFromFirstOffset))
	}
	c, err := rocketmq.NewPushConsumer(options...)
	if err != nil {
		t.Fatal(err)
	}
	g.c = c
	selector := rmqconsumer.MessageSelector{}
	if s.tags != "" {
		selector = rmqconsumer.MessageSelector{Type: rmqconsumer.TAG, Expression: s.tags}
	}
	if s.sql != "" {
		selector = rmqconsumer.MessageSelector{Type: rmqconsumer.SQL92, Expression: s.sql}
	}
	err = c.Subscribe(s.topic, selector, func(_ context.Context, ms ...*primitive.MessageExt) (rmqconsumer.ConsumeResult, error) {
		result := rmqconsumer.ConsumeSuccess
		for _, m := range ms {
			if handle(goGot(m)); int(m.ReconsumeTimes) < s.failBelow {
				result = rmqconsumer.ConsumeRetryLater
			}
		}
		return result, nil
	})
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.stop)
	return g
}

// allocate is the library's default strategy, which the library tells nobody the outcome of.
func (g *goConsumer) allocate(group, id string, queues []*primitive.MessageQueue, members []string) []*primitive.MessageQueue {
	mine := rmqconsumer.AllocateByAveragely(group, id, queues, members)
	if len(queues) > 0 && queues[0].Topic == g.topic {
		var ids []int
		for _, q := range mine {
			ids = append(ids, q.QueueId)
		}
		g.mu.Lock()
		g.held = ids
		g.mu.Unlock()
	}
	return mine
}

func (g *goConsumer) queues() ([]int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.held), nil
}

func (g *goConsumer) stop() { g.once.Do(func() { g.c.Shutdown() }) }

// removeLocalOffsets: the library keeps a broadcast group's offsets under the home directory and cannot be told
// otherwise.
func removeLocalOffsets(group string) {
	home := filepath.Join(os.Getenv("HOME"), ".rocketmq_client_go")
	os.RemoveAll(filepath.Join(home, group))
	os.Remove(home) // only if nobody else left something there
}

type goPuller struct {
	c     rocketmq.PullConsumer
	topic string
}

func (goClient) puller(t *testing.T, n *node, topic string) puller {
	t.Helper()
	c, err := rocketmq.NewPullConsumer(
		rmqconsumer.WithNameServer([]string{n.namesrvAddr()}),
		rmqconsumer.WithGroupName(unique(t, "pull")),
		rmqconsumer.WithInstance(unique(t, "pull")),
	)
	if err == nil {
		err = c.Assign(topic, nil) // no queue of its own: only PullFrom is used
	}
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Shutdown() })
	return goPuller{c, topic}
}

func (p goPuller) queues() ([]int, error) {
	all, err := p.c.GetTopicRouteInfo(p.topic)
	var ids []int
	for _, q := range all {
		ids = append(ids, q.QueueId)
	}
	return ids, err
}

func (p goPuller) pull(queue int, offset int64) ([]got, int64, error) {
	all, err := p.c.GetTopicRouteInfo(p.topic)
	if err != nil {
		return nil, 0, err
	}
	for _, q := range all {
		if q.QueueId != queue {
			continue
		}
		r, err := p.c.PullFrom(context.Background(), q, offset, pullBatch)
		if err != nil {
			return nil, 0, err
		}
		var found []got
		for _, m := range r.GetMessageExts() {
			found = append(found, goGot(m))
		}
		return found, r.NextBeginOffset, nil
	}
	return nil, 0, fmt.Errorf("topic %s has no queue %d", p.topic, queue)
}
