package netio

import (
	"strings"
	"testing"
	"time"

	"ringmq/netio/wire"
)

// TestSlowTurn: a handler that takes its time keeps all connections of its loop waiting. That is counted, and said.
func TestSlowTurn(t *testing.T) {
	var now clock
	r := start(t, &script{serve: func(c *Conn, req *wire.Command) Verdict {
		now.advance(time.Second)
		return echo(c, req)
	}}, func(o *Options) { o.Now = now.now })
	p := r.dial()
	p.write(request(1, nil))
	p.answer()
	r.settled()
	s := r.Stats()
	if n := s.TurnTimes.Counts[20]; n != 1 { // up to 2^20 µs
		t.Errorf("%d turns of a second: %v", n, s.TurnTimes)
	}
	if text := r.log.with("a turn of a loop was slow"); len(text) != 1 || !strings.Contains(text[0], "took=1s") {
		t.Errorf("the log says %q", text)
	}
}
