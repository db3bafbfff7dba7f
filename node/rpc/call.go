package rpc

import (
	"encoding/json"
	"fmt"
	"runtime/debug"

	"ringmq/netio"
	"ringmq/netio/wire"
)

// handler serves one request and returns its answer; nil means that there is none to send now: it
// is owed, held, on its way to a worker, or the request has to come again.
type handler func(s *Server, c *Call) *wire.Command

// Call is one request on its way through its handler. It is reused after the handler returned.
type Call struct {
	Conn *netio.Conn
	Req  *wire.Command

	ans   *wire.Command
	turn  *turn // scratch of the loop; nil on the worker lane
	later bool  // the request did not fit: it has to come again
	round int   // how often a worker has made something that the request lacked
	held  bool  // it was held and is looked at for the last time
}

// OK returns an empty answer of success, to be filled by the handler.
func (c *Call) OK() *wire.Command { return c.Answer(wire.Success) }

// Answer returns an empty answer, to be filled by the handler.
func (c *Call) Answer(code wire.Code) *wire.Command {
	c.ans.Answer(c.Req, code)
	return c.ans
}

// Fail returns an answer with a remark for the client's log.
func (c *Call) Fail(code wire.Code, remark string) *wire.Command {
	c.ans.Answer(c.Req, code)
	c.ans.SetRemark(remark)
	return c.ans
}

// Failf is Fail with a format.
func (c *Call) Failf(code wire.Code, format string, args ...any) *wire.Command {
	return c.Fail(code, fmt.Sprintf(format, args...))
}

// JSON returns an answer of success whose body is v as JSON.
func (c *Call) JSON(v any) *wire.Command {
	body, err := json.Marshal(v)
	if err != nil {
		return c.Fail(wire.SystemError, err.Error())
	}
	ans := c.OK()
	ans.Body = body
	return ans
}

// Later makes netio offer the same request again when there may be room.
func (c *Call) Later() *wire.Command {
	c.later = true
	return nil
}

// panicked contains a bug of ours in the request that met it.
func (s *Server) panicked(c *Call, p any) *wire.Command {
	s.stats.panics.Add(1)
	s.opts.Log.Error("rpc: a handler panicked", "code", int(c.Req.Code), "name", c.Req.Code.String(),
		"client", c.Conn.Remote(), "panic", p, "stack", string(debug.Stack()))
	if c.turn != nil {
		s.takeBack(c.turn, c.turn.unjoined()) // of this request, half-way to an append
	}
	return c.Fail(wire.SystemError, fmt.Sprintf("internal error in the handler of %v: %v", c.Req.Code, p))
}
