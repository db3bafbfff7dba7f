package load

import (
	"net"
	"strconv"
	"testing"
	"time"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
)

// TestRestart: a node goes and comes while messages are sent; nothing that it acknowledged is missing.
func TestRestart(t *testing.T) {
	t.Parallel()
	port := nodetest.FreePort(t)
	keys := map[string]string{"listenPort": strconv.Itoa(port), "namesrvListenPort": strconv.Itoa(port + 2)}
	first := nodetest.Start(t, nodetest.Setup{RealTime: true, Config: keys})
	live := new(Live)
	type outcome struct {
		r   Restarted
		err error
	}
	done := make(chan outcome)
	go func() {
		r, err := Restart{Send: Send{Addr: first.Addr(), Conns: 4, Bytes: 100, For: 3 * time.Second, Live: live}}.Run(t.Context())
		done <- outcome{r, err}
	}()
	nodetest.Until(t, "a message is acknowledged", func() bool { return live.Sent.Load() > 0 })
	first.Stop()
	before := live.Sent.Load()
	nodetest.Start(t, nodetest.Setup{RealTime: true, Config: keys, FS: first.FS})
	nodetest.Until(t, "messages are acknowledged again", func() bool { return live.Sent.Load() > before })
	o := <-done
	r := o.r
	if o.err != nil || r.Lost != 0 || r.Wrong != 0 || r.Twice != 0 || r.Acked == 0 || r.Found != r.Acked+r.Unasked || r.Away <= 0 || r.Broken == 0 {
		t.Errorf("%+v %v", r, o.err)
	}
}

// TestRestartSeesALoss: a broker that acknowledges and keeps nothing is found out.
func TestRestartSeesALoss(t *testing.T) {
	t.Parallel()
	addr := server(t, func(conn net.Conn, in *frames) {
		for {
			f, err := in.next()
			var req wire.Command
			if err != nil || req.Parse(f) != nil {
				return
			}
			out := answer(&req, wire.Success)
			if req.Code == wire.PullMessage {
				var a wire.Command
				a.Answer(&req, wire.PullNotFound)
				(&wire.PullAnswer{}).Append(&a)
				out = a.Append(nil)
			}
			if _, err := conn.Write(out); err != nil {
				return
			}
		}
	})
	r, err := Restart{Send: Send{Addr: addr, Conns: 2, Bytes: 100, For: 100 * time.Millisecond}}.Run(t.Context())
	if err != nil || r.Acked == 0 || r.Lost != r.Acked || r.FirstLost == "" {
		t.Errorf("%+v %v", r, err)
	}
}
