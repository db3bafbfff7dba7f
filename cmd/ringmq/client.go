package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"ringmq/netio/remoting"
	"ringmq/netio/wire"
)

// callWait is how long an answer may take, as in the stock clients' tools.
const callWait = 5 * time.Second

// client talks to a name server and to the brokers that it names. Any goroutine may use it.
type client struct {
	namesrv   []string
	onRequest func(*wire.Command) *wire.Command // what brokers ask; nil ignores it

	// mu guards what follows; it is held while a connection is made, so that there is one per address.
	mu    sync.Mutex
	conns map[string]*remoting.Client
}

func newClient(namesrv string, onRequest func(*wire.Command) *wire.Command) *client {
	servers := strings.FieldsFunc(namesrv, func(r rune) bool { return r == ';' || r == ',' || r == ' ' })
	return &client{namesrv: servers, onRequest: onRequest, conns: map[string]*remoting.Client{}}
}

// refused is an answer that is not a success.
type refused struct {
	addr    string
	request string
	code    wire.Code
	name    string
	remark  string
}

func (r *refused) Error() string {
	return fmt.Sprintf("%s answered %s with %d %s: %s", r.addr, r.request, r.code, r.name, r.remark)
}

// isCode tells whether err is an answer with this code.
func isCode(err error, code wire.Code) bool {
	var r *refused
	return errors.As(err, &r) && r.code == code
}

func (c *client) conn(ctx context.Context, addr string) (*remoting.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn := c.conns[addr]; conn != nil {
		select {
		case <-conn.Done():
		default:
			return conn, nil
		}
	}
	conn, err := remoting.Dial(ctx, addr, remoting.Options{OnRequest: c.onRequest})
	if err != nil {
		return nil, err
	}
	c.conns[addr] = conn
	return conn, nil
}

// call asks addr and returns its answer of success; any other answer is a *refused error.
func (c *client) call(ctx context.Context, addr string, req *wire.Command) (*wire.Command, error) {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	ans, err := c.callAny(ctx, addr, req)
	if err == nil && ans.Code != wire.Success {
		err = &refused{addr, req.Name(), ans.Code, ans.Name(), string(ans.Remark)}
	}
	return ans, err
}

// callAny asks addr and returns whatever it answers.
func (c *client) callAny(ctx context.Context, addr string, req *wire.Command) (*wire.Command, error) {
	conn, err := c.conn(ctx, addr)
	if err != nil {
		return nil, err
	}
	return conn.Call(ctx, req)
}

// close ends all connections.
func (c *client) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close() // nothing is in flight that anybody waits for
	}
}

// fields is a typed header of a request.
type fields interface{ Append(c *wire.Command) }

func request(code wire.Code, h fields) *wire.Command {
	req := &wire.Command{}
	req.Request(code, 0)
	h.Append(req)
	return req
}

// queue is one queue of a topic on one broker.
type queue struct {
	broker string // its name
	addr   string // of its master
	topic  string
	id     int32
}

func (q queue) String() string { return fmt.Sprintf("%s/%d", q.broker, q.id) }

// route asks the name servers, one after the other, for the brokers of a topic.
func (c *client) route(ctx context.Context, topic string) (*wire.RouteData, error) {
	err := errors.New("no name server given")
	for _, addr := range c.namesrv {
		var ans *wire.Command
		ans, err = c.call(ctx, addr, request(wire.GetRouteInfoByTopic, &wire.GetRouteRequest{Topic: topic, AcceptStandardJSONOnly: true}))
		if err == nil {
			route := &wire.RouteData{}
			return route, wire.Unmarshal(ans.Body, route)
		}
	}
	return nil, err
}

// queues lists the queues of a route that allow perm, in the order that all members of a group see.
func queues(route *wire.RouteData, topic string, perm int32, count func(wire.QueueData) int32) []queue {
	masters := map[string]string{}
	for _, b := range route.BrokerDatas {
		if addr, ok := b.BrokerAddrs[0]; ok {
			masters[b.BrokerName] = addr
		}
	}
	var list []queue
	for _, d := range route.QueueDatas {
		addr, ok := masters[d.BrokerName]
		if !ok || d.Perm&perm == 0 {
			continue
		}
		for id := range count(d) {
			list = append(list, queue{broker: d.BrokerName, addr: addr, topic: topic, id: id})
		}
	}
	return list
}

// Permissions in a route.
const (
	permWrite = 2
	permRead  = 4
)
