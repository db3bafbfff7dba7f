package load

import (
	"net"
	"testing"
	"time"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
)

// TestOpen: as many messages as the rate says are sent, and each is answered once.
func TestOpen(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, nodetest.Setup{RealTime: true})
	o := Open{Send: Send{Addr: n.Addr(), Conns: 3, Bytes: 100, For: countFor}, Rate: 300, Wait: time.Minute}
	r, err := o.Run(t.Context())
	if err != nil || r.OK < 297 || r.OK > 303 || r.Missing != 0 || r.Late.TotalCount() < 297 {
		t.Fatalf("%+v %v", r, err)
	}
	if stored := stored(t, n, "LoadTopic"); stored != r.OK {
		t.Errorf("%d messages are stored, %d were answered", stored, r.OK)
	}
}

// server takes frames on one connection after the other until the end of the test.
func server(t *testing.T, serve func(conn net.Conn, in *frames)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn, &frames{conn: conn, buf: make([]byte, 4<<10)})
			}()
		}
	}()
	return l.Addr().String()
}

func answer(req *wire.Command, code wire.Code) []byte {
	var a wire.Command
	a.Answer(req, code)
	return a.Append(nil)
}

// TestNothingIsOmitted: a broker stands still until the last of a second's messages has come, and answers all at once. A
// closed loop would have sent one message and seen one bad latency; here each message has waited for as long as it did.
func TestNothingIsOmitted(t *testing.T) {
	t.Parallel()
	const rate = 100
	addr := server(t, func(conn net.Conn, in *frames) {
		var answers []byte
		for range rate {
			f, err := in.next()
			var req wire.Command
			if err != nil || req.Parse(f) != nil {
				return
			}
			answers = append(answers, answer(&req, wire.Success)...)
		}
		_, _ = conn.Write(answers)
		_, _ = in.next()
	})
	r, err := Open{Send: Send{Addr: addr, Conns: 1, Bytes: 100, For: time.Second}, Rate: rate, Wait: time.Minute}.Run(t.Context())
	if err != nil || r.OK != rate {
		t.Fatalf("%+v %v", r, err)
	}
	if r.P50() < 480*time.Millisecond || r.Latency.Min() > int64(r.P50()) || r.Latency.Max() < int64(980*time.Millisecond) {
		t.Errorf("p50 %v, max %v", r.P50(), time.Duration(r.Latency.Max()))
	}
}

// TestMissingAnswersAreCounted: a broker that answers every other message owes the rest.
func TestMissingAnswersAreCounted(t *testing.T) {
	t.Parallel()
	addr := server(t, func(conn net.Conn, in *frames) {
		for i := 0; ; i++ {
			f, err := in.next()
			var req wire.Command
			if err != nil || req.Parse(f) != nil {
				return
			}
			if i%2 == 0 {
				_, _ = conn.Write(answer(&req, wire.SystemBusy))
			}
		}
	})
	r, err := Open{Send: Send{Addr: addr, Conns: 1, Bytes: 100, For: 200 * time.Millisecond}, Rate: 100, Wait: 50 * time.Millisecond}.Run(t.Context())
	if err != nil || r.Missing < 10 || r.Missing+r.Refused[wire.SystemBusy] != 20 || r.OK != 0 {
		t.Errorf("%+v %v", r, err)
	}
}
