package remoting

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"ringmq/netio/wire"
)

const readBufferBytes = 32 << 10

// read is the client's one goroutine.
func (c *Client) read() {
	defer close(c.done)
	in := bufio.NewReaderSize(c.conn, readBufferBytes)
	for {
		cmd, err := readCommand(in)
		if err != nil {
			if cause, first := c.end(fmt.Errorf("%w: %w", ErrClosed, err)); first {
				c.opts.Log.Debug("remoting: connection ended", "addr", c.addr, "err", cause)
			}
			return
		}
		if cmd.IsAnswer() {
			c.deliver(cmd)
		} else {
			c.serve(cmd)
		}
	}
}

// readCommand reads one frame into memory of its own.
func readCommand(in *bufio.Reader) (*wire.Command, error) {
	prefix, err := in.Peek(4)
	if err != nil {
		return nil, err
	}
	n, err := wire.FrameBytes(prefix)
	if err != nil {
		return nil, err
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(in, frame); err != nil {
		return nil, err
	}
	cmd := &wire.Command{}
	return cmd, cmd.Parse(frame)
}

// deliver hands an answer to the call that waits for it. Nobody may be left to want it.
func (c *Client) deliver(answer *wire.Command) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w, ok := c.waiting[answer.Opaque]; ok {
		delete(c.waiting, answer.Opaque) // a second answer is dropped
		w <- answer
	}
}

func (c *Client) serve(req *wire.Command) {
	if c.opts.OnRequest == nil {
		return
	}
	answer := c.opts.OnRequest(req)
	if answer == nil || req.Oneway() {
		return
	}
	answer.Opaque = req.Opaque
	if err := c.write(context.Background(), answer); err != nil {
		c.opts.Log.Warn("remoting: answer not sent", "err", err)
	}
}
