package namesrv

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"ringmq/netio"
	"ringmq/netio/remoting"
	"ringmq/netio/wire"
)

func request(code wire.Code, body []byte, fields ...string) *wire.Command {
	c := new(wire.Command)
	c.Request(code, 7)
	for i := 0; i < len(fields); i += 2 {
		c.Set(fields[i], fields[i+1])
	}
	c.Body = body
	return c
}

func TestWrongRequests(t *testing.T) {
	me := []string{"brokerName", "b", "brokerAddr", "m", "clusterName", "c", "brokerId", "0", "haServerAddr", "h"}
	for _, w := range []struct {
		name   string
		req    *wire.Command
		code   wire.Code
		remark string
	}{
		{"unknown code", request(9999, nil), wire.RequestCodeNotSupported, "9999"},
		{"one of a broker", request(wire.SendMessage, nil), wire.RequestCodeNotSupported, "SEND_MESSAGE"},
		{"route of nothing", request(wire.GetRouteInfoByTopic, nil), wire.SystemError, "topic: missing"},
		{"registration of nobody", request(wire.RegisterBroker, nil), wire.SystemError, "brokerName: missing"},
		{"broker id that is none", request(wire.RegisterBroker, nil, append([]string{"brokerId", "x"}, me[:6]...)...), wire.SystemError, `brokerId="x"`},
		{"endless name", request(wire.RegisterBroker, nil, append([]string{"__ZONE_NAME", strings.Repeat("z", 256)}, me...)...), wire.SystemError, "256 bytes"},
		{"topics that are none", request(wire.RegisterBroker, []byte("{"), me...), wire.SystemError, "JSON"},
		{"broken compression", request(wire.RegisterBroker, []byte("x\x9cgarbage"), me...), wire.SystemError, ""},
		{"checksum", request(wire.RegisterBroker, []byte("{}"), append([]string{"bodyCrc32", "1"}, me...)...), wire.SystemError, "crc32 not match"},
		{"version of nothing", request(wire.QueryDataVersion, nil, me...), wire.SystemError, ""},
		{"unregistration of nobody", request(wire.UnregisterBroker, nil), wire.SystemError, "missing"},
	} {
		t.Run(w.name, func(t *testing.T) {
			s := New(Options{})
			ans := s.answer(new(netio.Conn), w.req)
			if ans.Code != w.code || ans.Opaque != 7 || len(ans.Remark) == 0 || !strings.Contains(string(ans.Remark), w.remark) {
				t.Errorf("code %d, remark %q, want %d and %q", ans.Code, ans.Remark, w.code, w.remark)
			}
			if len(s.table.brokers) != 0 {
				t.Errorf("a broker was registered")
			}
		})
	}
}

// A bug of ours that a request meets must not end the node: the loop that serves it is the node's.
func TestPanicIsContained(t *testing.T) {
	const code = wire.Code(9998)
	handlers[code] = func(*Server, *netio.Conn, *wire.Command, *wire.Command) error { panic("a bug") }
	defer delete(handlers, code)
	ans := New(Options{Log: slog.New(slog.DiscardHandler)}).answer(new(netio.Conn), request(code, nil))
	if ans.Code != wire.SystemError || ans.Opaque != 7 || !strings.Contains(string(ans.Remark), "a bug") {
		t.Errorf("code %d, opaque %d, remark %q", ans.Code, ans.Opaque, ans.Remark)
	}
}

// Brokers before release 3.0.11 send their topics alone.
func TestOldBroker(t *testing.T) {
	s := New(Options{})
	req := request(wire.RegisterBroker, []byte(`{"dataVersion":{"counter":1},"topicConfigTable":{"T":{"topicName":"T"},"U":{"topicName":"U"}}}`),
		"brokerName", "b", "brokerAddr", "m", "clusterName", "c", "brokerId", "0", "haServerAddr", "h")
	req.Version = wire.V3_0_11 - 1
	if ans := s.answer(new(netio.Conn), req); ans.Code != wire.Success {
		t.Fatalf("code %d: %s", ans.Code, ans.Remark)
	}
	if r, ok := s.table.route("T"); !ok || r.QueueDatas[0].ReadQueueNums != 16 {
		t.Errorf("route: %+v", r)
	}
}

// TestOverTheNetwork registers, asks and leaves by real connections: what a client is told ends with the
// broker's connection.
func TestOverTheNetwork(t *testing.T) {
	s := New(Options{})
	srv, err := netio.Listen(s, netio.Options{Addrs: []string{"127.0.0.1:0"}, Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	defer func() {
		if err := srv.Stop(ctx); err != nil {
			t.Error(err)
		}
	}()
	dial := func() *remoting.Client {
		c, err := remoting.Dial(ctx, srv.Addrs()[0].String(), remoting.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	call := func(c *remoting.Client, req *wire.Command) *wire.Command {
		t.Helper()
		ans, err := c.Call(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		return ans
	}
	b, c := dial(), dial()
	defer c.Close()
	body, err := json.Marshal(wire.RegisterBody{TopicConfigSerializeWrapper: wire.TopicConfigWrapper{TopicConfigTable: topics("T", "U")}})
	if err != nil {
		t.Fatal(err)
	}
	me := []string{"brokerName", "b", "brokerAddr", "1.2.3.4:10911", "clusterName", "c", "brokerId", "0", "haServerAddr", "h"}
	if ans := call(b, request(wire.RegisterBroker, body, me...)); ans.Code != wire.Success {
		t.Fatalf("register: %d %s", ans.Code, ans.Remark)
	}
	if err := b.Oneway(request(wire.QueryDataVersion, []byte(`{"counter":1}`), me...)); err != nil {
		t.Fatal(err)
	}
	const want = `{"brokerDatas":[{"brokerAddrs":{"0":"1.2.3.4:10911"},"brokerName":"b","cluster":"c","enableActingMaster":false}],` +
		`"filterServerTable":{},"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}`
	if ans := call(c, request(wire.GetRouteInfoByTopic, nil, "topic", "T")); string(ans.Body) != want {
		t.Errorf("route: %d %s", ans.Code, ans.Body)
	}
	b.Close()
	for {
		ans := call(c, request(wire.GetRouteInfoByTopic, nil, "topic", "T"))
		if ans.Code == wire.TopicNotExist {
			break
		}
	}
}

// FuzzRegister: no body makes the name server panic, and it goes on afterwards.
func FuzzRegister(f *testing.F) {
	f.Add([]byte(`{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{}}}}`), int32(513))
	f.Add([]byte("x\x9c"), int32(513))
	f.Add([]byte(`{"topicConfigTable":null}`), int32(1))
	f.Fuzz(func(t *testing.T, body []byte, version int32) {
		s := New(Options{})
		req := request(wire.RegisterBroker, body, "brokerName", "b", "brokerAddr", "m", "clusterName", "c", "brokerId", "0", "haServerAddr", "h")
		req.Version = version
		ans := s.answer(new(netio.Conn), req)
		if known := len(s.table.brokers) == 1; known != (ans.Code == wire.Success) {
			t.Fatalf("code %d, registered %v", ans.Code, known)
		}
		if ans := s.answer(new(netio.Conn), request(wire.GetBrokerClusterInfo, nil)); ans.Code != wire.Success {
			t.Fatalf("afterwards: %d %s", ans.Code, ans.Remark)
		}
	})
}
