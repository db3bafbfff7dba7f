package nodetest

import (
	"context"
	"testing"
	"time"

	"ringmq/netio/remoting"
	"ringmq/netio/wire"
	"ringmq/store/record"
)

// answerWait bounds how long a test waits for an answer that must come. Machines that run many tests at once take
// their time.
const answerWait = time.Minute

// Client is a connection to a node. Calls that do not succeed end the test, unless they are Try.
type Client struct {
	*remoting.Client
	t    testing.TB
	told chan *wire.Command // what the node asked of us
}

// Dial connects to an address; the connection is closed when the test ends.
func Dial(t testing.TB, addr string) *Client {
	t.Helper()
	c := &Client{t: t, told: make(chan *wire.Command, 1024)}
	ctx, cancel := context.WithTimeout(context.Background(), answerWait)
	defer cancel()
	conn, err := remoting.Dial(ctx, addr, remoting.Options{OnRequest: func(req *wire.Command) *wire.Command {
		c.told <- req
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	c.Client = conn
	t.Cleanup(func() { conn.Close() })
	return c
}

// Client connects to the node's broker.
func (n *Node) Client() *Client { return Dial(n.t, n.Addr()) }

// Fields is a typed header.
type Fields interface{ Append(c *wire.Command) }

// NewRequest makes a request; h may be nil.
func NewRequest(code wire.Code, h Fields, body []byte) *wire.Command {
	req := &wire.Command{}
	req.Request(code, 0)
	if h != nil {
		h.Append(req)
	}
	req.Body = body
	return req
}

// Try sends a request and returns whatever is answered; an error means that the connection is gone.
func (c *Client) Try(req *wire.Command) (*wire.Command, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerWait)
	defer cancel()
	return c.Client.Call(ctx, req)
}

// Ask sends a request and returns whatever is answered.
func (c *Client) Ask(code wire.Code, h Fields, body []byte) *wire.Command {
	c.t.Helper()
	ans, err := c.Try(NewRequest(code, h, body))
	if err != nil {
		c.t.Fatal(err)
	}
	return ans
}

// Must is Ask for requests that have to succeed.
func (c *Client) Must(code wire.Code, h Fields, body []byte) *wire.Command {
	c.t.Helper()
	ans := c.Ask(code, h, body)
	if ans.Code != wire.Success {
		c.t.Fatalf("%v: %d %s: %s", code, ans.Code, ans.Name(), ans.Remark)
	}
	return ans
}

// Told waits for the next thing that the node sends on its own.
func (c *Client) Told() *wire.Command {
	c.t.Helper()
	select {
	case req := <-c.told:
		return req
	case <-time.After(answerWait):
		c.t.Fatal("nodetest: the node sent nothing")
		return nil
	}
}

// SendHeader is the header of a plain message for a queue of a topic.
func SendHeader(topic string, queue int32) *wire.SendRequest {
	return &wire.SendRequest{
		ProducerGroup: []byte("producers"), Topic: []byte(topic), DefaultTopic: []byte("TBW102"), DefaultTopicQueueNums: 4,
		QueueID: queue, BornTimestamp: 1_700_000_000_000, MaxReconsumeTimes: -1,
		Properties: record.AppendProp(nil, record.PropWait, "true"),
	}
}

// PullHeader is the header of a pull that takes everything and does not wait.
func PullHeader(group, topic string, queue int32, from int64) *wire.PullRequest {
	return &wire.PullRequest{
		ConsumerGroup: []byte(group), Topic: []byte(topic), QueueID: queue, QueueOffset: from, MaxMsgNums: 32,
		SysFlag: wire.PullSubscription, Subscription: []byte("*"), MaxMsgBytes: -1, RequestSource: -1,
	}
}

// Send stores a message and returns where.
func (c *Client) Send(topic string, queue int32, body string) wire.SendAnswer {
	c.t.Helper()
	return c.sent(c.Must(wire.SendMessageV2, SendHeader(topic, queue), []byte(body)))
}

func (c *Client) sent(ans *wire.Command) (h wire.SendAnswer) {
	c.t.Helper()
	if err := h.Parse(ans); err != nil {
		c.t.Fatal(err)
	}
	return h
}

// Pull reads from a queue and returns the records with the answer.
func (c *Client) Pull(group, topic string, queue int32, from int64) ([]record.Record, *wire.Command) {
	c.t.Helper()
	ans := c.Ask(wire.PullMessage, PullHeader(group, topic, queue, from), nil)
	return Records(c.t, ans.Body), ans
}

// Records takes the body of a pull apart.
func Records(t testing.TB, body []byte) (records []record.Record) {
	t.Helper()
	for len(body) > 0 {
		var r record.Record
		if err := record.Parse(body, &r); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
		body = body[r.Size:]
	}
	return records
}
