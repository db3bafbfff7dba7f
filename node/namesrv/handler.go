package namesrv

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"ringmq/netio"
	"ringmq/netio/wire"
)

// handlers are the requests that are served. Each fills in the answer, whose code is Success before.
var handlers = map[wire.Code]func(s *Server, c *netio.Conn, req, ans *wire.Command) error{
	wire.GetKVConfig:                   (*Server).getKV,
	wire.RegisterBroker:                (*Server).register,
	wire.UnregisterBroker:              (*Server).unregister,
	wire.GetRouteInfoByTopic:           (*Server).route,
	wire.GetBrokerClusterInfo:          (*Server).cluster,
	wire.GetAllTopicListFromNameserver: (*Server).topicList,
	wire.QueryDataVersion:              (*Server).queryVersion,
	wire.BrokerHeartbeat:               (*Server).heartbeat,
}

// refusal is an error that has a code of its own; any other error is answered with SystemError.
type refusal struct {
	code   wire.Code
	remark string
}

func (r *refusal) Error() string { return r.remark }

// answer is what Serve sends. A panic ends this request only: it is answered with SystemError.
func (s *Server) answer(c *netio.Conn, req *wire.Command) (ans *wire.Command) {
	defer func() {
		if p := recover(); p != nil {
			s.opts.Log.Error("name server: a handler panicked", "code", int(req.Code), "name", req.Code.String(),
				"client", c.Remote(), "panic", p, "stack", string(debug.Stack()))
			ans = new(wire.Command)
			ans.Answer(req, wire.SystemError)
			ans.SetRemark(fmt.Sprintf("internal error in the handler of %v: %v", req.Code, p))
		}
	}()
	ans = new(wire.Command)
	ans.Answer(req, wire.Success)
	handle := handlers[req.Code]
	if handle == nil {
		ans.Code = wire.RequestCodeNotSupported
		ans.SetRemark(fmt.Sprintf("request type %d (%v) not supported by this name server", int32(req.Code), req.Code))
		return ans
	}
	if err := handle(s, c, req, ans); err != nil {
		ans.Answer(req, wire.SystemError)
		var r *refusal
		if errors.As(err, &r) {
			ans.Code = r.code
		}
		ans.SetRemark(err.Error())
	}
	return ans
}

// register (103) takes a broker in. A body may be compressed although the header says it is not: release
// 5.5.0 of the stock broker sends that, and a zlib stream cannot be taken for JSON.
func (s *Server) register(c *netio.Conn, req, ans *wire.Command) error {
	var h wire.RegisterBrokerRequest
	if err := h.Parse(req); err != nil {
		return err
	}
	if err := checkNames(h.BrokerName, h.BrokerAddr, h.ClusterName, h.HAServerAddr, h.ZoneName); err != nil {
		return err
	}
	if h.BodyCRC32 != 0 && wire.CRC32(req.Body) != uint32(h.BodyCRC32) {
		return errors.New("crc32 not match")
	}
	topics, err := registered(req, h.Compressed)
	if err != nil {
		return err
	}
	master, err := s.table.register(&h, topics, c, s.opts.Now())
	if err != nil {
		return err
	}
	master.Append(ans)
	return nil
}

// maxName is beyond what anybody calls a broker. Routes carry the names to every client, and the log has them.
const maxName = 255

func checkNames(names ...string) error {
	for _, name := range names {
		if len(name) > maxName {
			return fmt.Errorf("register broker failed: %.20q… has %d bytes, a name or address may have %d", name, len(name), maxName)
		}
	}
	return nil
}

func registered(req *wire.Command, compressed bool) (*wire.TopicConfigWrapper, error) {
	if len(req.Body) == 0 {
		return new(wire.TopicConfigWrapper), nil // a slave has nothing to tell
	}
	if req.Version < wire.V3_0_11 { // it sends the topics alone
		w := new(wire.TopicConfigWrapper)
		return w, wire.Unmarshal(req.Body, w)
	}
	const zlibHead = 0x78
	body, err := wire.ParseRegisterBody(req.Body, compressed || req.Body[0] == zlibHead)
	if err != nil {
		return nil, err
	}
	return &body.TopicConfigSerializeWrapper, nil
}

// unregister (104) takes a broker out.
func (s *Server) unregister(_ *netio.Conn, req, _ *wire.Command) error {
	var h wire.UnregisterBrokerRequest
	if err := h.Parse(req); err != nil {
		return err
	}
	s.table.unregister(h.BrokerIdentity)
	return nil
}

// queryVersion (322) tells a broker whether its topics are here as they are now. It also keeps it alive.
func (s *Server) queryVersion(_ *netio.Conn, req, ans *wire.Command) error {
	var h wire.QueryDataVersionRequest
	if err := h.Parse(req); err != nil {
		return err
	}
	var asked wire.DataVersion
	if err := wire.Unmarshal(req.Body, &asked); err != nil {
		return err
	}
	at := address{h.ClusterName, h.BrokerAddr}
	s.table.touch(at, s.opts.Now())
	held, known := s.table.version(at)
	changed := wire.QueryDataVersionAnswer{Changed: !known || held != asked}
	changed.Append(ans)
	if !known {
		return nil
	}
	return setBody(ans, held)
}

// heartbeat (904) keeps a broker alive.
func (s *Server) heartbeat(_ *netio.Conn, req, _ *wire.Command) error {
	s.table.touch(address{req.Text("clusterName"), req.Text("brokerAddr")}, s.opts.Now())
	return nil
}

// route (105) tells where a topic lives. Broker ids are always quoted and the text is compact, whatever the
// client's version: all known clients read that form, and some read no other.
func (s *Server) route(_ *netio.Conn, req, ans *wire.Command) error {
	var h wire.GetRouteRequest
	if err := h.Parse(req); err != nil {
		return err
	}
	r, ok := s.table.route(h.Topic)
	if !ok {
		return &refusal{wire.TopicNotExist, "No topic route info in name server for the topic: " + h.Topic}
	}
	return setBody(ans, r)
}

// cluster (106) lists the brokers.
func (s *Server) cluster(_ *netio.Conn, _, ans *wire.Command) error {
	return setBody(ans, s.table.cluster())
}

// topicList (206) lists the topics of all brokers.
func (s *Server) topicList(_ *netio.Conn, _, ans *wire.Command) error {
	return setBody(ans, wire.TopicList{TopicList: s.table.topicNames()})
}

// getKV (101) knows no key: clients ask it for the order of a topic's queues, which nobody has set.
func (s *Server) getKV(_ *netio.Conn, req, _ *wire.Command) error {
	return &refusal{wire.QueryNotFound, fmt.Sprintf("No config item, Namespace: %s Key: %s", req.Text("namespace"), req.Text("key"))}
}

func setBody(ans *wire.Command, v any) (err error) {
	ans.Body, err = json.Marshal(v)
	return err
}
