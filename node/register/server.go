package register

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"ringmq/netio/remoting"
	"ringmq/netio/wire"
	"ringmq/node/topic"
)

// server is one name server, with the worker that talks to it.
type server struct {
	r     *Registrar
	addr  string
	leave context.CancelFunc // ends the worker
	kick  chan struct{}      // capacity 1: look whether there is something to tell

	// Worker only.
	client  *remoting.Client
	told    state // the last one that the server accepted
	failing bool
}

// state is all topics of a broker, their version, and the broker's own permission.
type state struct {
	topics  map[string]*topic.Config
	version wire.DataVersion
	perm    topic.Perm
}

func (s *server) run(ctx context.Context) {
	defer s.leave()
	for {
		err := s.sync(ctx)
		if ctx.Err() == nil {
			s.report(err)
		}
		if err == nil {
			s.r.registered.Store(true)
		}
		var retry <-chan time.Time
		var lost <-chan struct{}
		if err != nil {
			retry = time.After(s.r.opts.Retry)
		} else {
			lost = s.client.Done() // the server has forgotten us by then
		}
		select {
		case <-s.kick:
		case <-retry:
		case <-lost:
		case <-ctx.Done():
			s.unregister()
			return
		}
	}
}

// report logs changes of heart only.
func (s *server) report(err error) {
	switch {
	case err != nil && !s.failing:
		s.r.opts.Log.Warn("register: a name server does not have our topics", "name_server", s.addr, "error", err)
	case err == nil && s.failing:
		s.r.opts.Log.Info("register: registered again", "name_server", s.addr)
	}
	s.failing = err != nil
}

// sync tells the server what it lacks. On a new connection that is everything, because the server forgets a
// broker with its connection. Otherwise the server is asked which version it has (322): the current one needs
// nothing, the one it was told last needs the difference, any other one everything.
func (s *server) sync(ctx context.Context) error {
	connected, err := s.connect(ctx)
	if err != nil {
		return err
	}
	now := s.r.current()
	topics := now.topics
	if !connected {
		current, held, err := s.query(ctx, now.version)
		if err != nil || current {
			return err
		}
		if held == s.told.version && now.perm == s.told.perm {
			topics = difference(s.told.topics, now.topics)
		}
	}
	if err := s.register(ctx, topics, now); err != nil {
		s.told = state{}
		return err
	}
	s.told = now
	return nil
}

// difference holds the topics that are new or changed. Those that are gone cannot be told: name servers keep
// them until they are deleted there.
func difference(from, to map[string]*topic.Config) map[string]*topic.Config {
	diff := map[string]*topic.Config{}
	for name, c := range to {
		if from[name] != c {
			diff[name] = c
		}
	}
	return diff
}

// connect makes sure that there is a connection and tells whether it is a new one.
func (s *server) connect(ctx context.Context) (connected bool, err error) {
	if s.client != nil {
		select {
		case <-s.client.Done():
			s.client.Close()
			s.client = nil
		default:
			return false, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.r.opts.Timeout)
	defer cancel()
	s.client, err = remoting.Dial(ctx, s.addr, remoting.Options{Log: s.r.opts.Log})
	return true, err
}

// call sends a request and returns a good answer. After an error the connection is given up: the next one
// starts from nothing. Only the end of ctx leaves it open, to unregister on it.
func (s *server) call(ctx context.Context, req *wire.Command) (*wire.Command, error) {
	limited, cancel := context.WithTimeout(ctx, s.r.opts.Timeout)
	defer cancel()
	ans, err := s.client.Call(limited, req)
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	if err == nil && ans.Code != wire.Success {
		err = fmt.Errorf("register: %v at %s: code %d: %s", req.Code, s.addr, ans.Code, ans.Remark)
	}
	if err != nil {
		s.client.Close()
		s.client = nil
		return nil, err
	}
	return ans, nil
}

// query asks whether the server has that version; if not, held is the one it has.
func (s *server) query(ctx context.Context, v wire.DataVersion) (current bool, held wire.DataVersion, err error) {
	req := new(wire.Command)
	req.Request(wire.QueryDataVersion, 0)
	h := wire.QueryDataVersionRequest{BrokerIdentity: s.r.opts.Broker}
	h.Append(req)
	if req.Body, err = json.Marshal(v); err != nil {
		return false, held, err
	}
	ans, err := s.call(ctx, req)
	if err != nil {
		return false, held, err
	}
	var a wire.QueryDataVersionAnswer
	if err := a.Parse(ans); err != nil {
		return false, held, err
	}
	if len(ans.Body) > 0 {
		err = wire.Unmarshal(ans.Body, &held)
	}
	return !a.Changed, held, err
}

// register sends topics, in parts if they are many. Each part has a version of its own, or the server would
// take it for one that it has; the last one has the real version, so that only then the server is up to date.
func (s *server) register(ctx context.Context, topics map[string]*topic.Config, now state) error {
	parts := split(topics, s.r.opts.PartBytes)
	for i, part := range parts {
		v := now.version
		v.Counter += int64(len(parts) - 1 - i)
		body, err := encode(part, v, now)
		if err != nil {
			return err
		}
		if err := s.registerBody(ctx, body); err != nil {
			return err
		}
	}
	return nil
}

// encode makes the body of a registration of the named topics.
func encode(names []string, v wire.DataVersion, now state) ([]byte, error) {
	table := make(map[string]wire.TopicConfig, len(names))
	for _, name := range names {
		table[name] = now.topics[name].Wire(now.perm)
	}
	body := wire.RegisterBody{
		FilterServerList:            []string{},
		TopicConfigSerializeWrapper: wire.TopicConfigWrapper{DataVersion: v, MappingDataVersion: v, TopicConfigTable: table},
	}
	return body.Encode(false)
}

func (s *server) registerBody(ctx context.Context, body []byte) error {
	req := new(wire.Command)
	req.Request(wire.RegisterBroker, 0)
	h := wire.RegisterBrokerRequest{BrokerIdentity: s.r.opts.Broker, HAServerAddr: s.r.opts.HAAddr, BodyCRC32: int32(wire.CRC32(body))}
	h.Append(req)
	req.Body = body
	_, err := s.call(ctx, req)
	return err
}

// unregister takes the broker out of the server and ends the connection.
func (s *server) unregister() {
	if s.client == nil {
		return
	}
	req := new(wire.Command)
	req.Request(wire.UnregisterBroker, 0)
	h := wire.UnregisterBrokerRequest{BrokerIdentity: s.r.opts.Broker}
	h.Append(req)
	client := s.client
	ctx, cancel := context.WithTimeout(s.r.calls, s.r.opts.Leave)
	defer cancel()
	if _, err := s.call(ctx, req); err != nil {
		s.r.opts.Log.Warn("register: could not unregister", "name_server", s.addr, "error", err)
	}
	client.Close()
}

// split cuts the topics into parts of about that many bytes of registration, at least one part, sorted.
func split(topics map[string]*topic.Config, partBytes int) [][]string {
	parts, size := [][]string{{}}, 0
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		bytes := topicBytes(topics[name])
		if last := len(parts) - 1; size+bytes > partBytes && len(parts[last]) > 0 {
			parts, size = append(parts, nil), 0
		}
		last := len(parts) - 1
		parts[last] = append(parts[last], name)
		size += bytes
	}
	return parts
}

// topicBytes is about what a topic takes in a registration: member names and numbers, its name twice, and its
// attributes with their quotes.
func topicBytes(c *topic.Config) int {
	n := 180 + 2*len(c.Name)
	for k, v := range c.Attributes {
		n += len(k) + len(v) + 6
	}
	return n
}
