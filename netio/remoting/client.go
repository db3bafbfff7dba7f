// Package remoting is a client of the RocketMQ remoting protocol: one connection to a broker or a
// name server, with many requests in flight. It knows frames, not what they mean.
//
// One goroutine per connection reads; callers write themselves, one at a time. There is no
// reconnecting: when Done is closed, Dial again.
package remoting

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"ringmq/netio/wire"
)

// ErrClosed is wrapped by every error that says: this connection is over, by Close or by the other
// side.
var ErrClosed = errors.New("connection closed")

// writeWait is how long a write may block before the other side counts as dead. Stock clients give
// a request 3 seconds in all.
const writeWait = 10 * time.Second

// Options sets up a Client. The zero value will do.
type Options struct {
	// OnRequest serves what the other side asks on this connection, one request at a time in the
	// order of arrival, on the goroutine that reads: while it runs no answer arrives, so it may not
	// wait for a Call of this client, nor close it. The request is its own to keep. What it returns
	// is sent, unless the request is one-way; nil means no answer.
	OnRequest func(req *wire.Command) *wire.Command

	// Log gets a line when the connection ends by anything but Close, and when an answer of OnRequest
	// could not be sent. Nil: nowhere.
	Log *slog.Logger
}

// Client is one connection. Any goroutine may use it.
type Client struct {
	// Set by Dial, constant afterwards.
	conn net.Conn
	addr string
	opts Options

	writing chan struct{} // holds one token: whoever has it may write to conn
	done    chan struct{} // closed by the reader as its last deed

	// mu guards what follows. Leaf lock: no I/O under it.
	mu      sync.Mutex
	cause   error // why the connection is over; the first reason stays
	opaque  int32
	waiting map[int32]chan *wire.Command // calls in flight; each channel has room for its one answer
}

// Dial connects to addr, host:port.
func Dial(ctx context.Context, addr string, opts Options) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("remoting: dial %s: %w", addr, err)
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	c := &Client{
		conn:    conn,
		addr:    addr,
		opts:    opts,
		writing: make(chan struct{}, 1),
		done:    make(chan struct{}),
		waiting: make(map[int32]chan *wire.Command),
	}
	c.writing <- struct{}{}
	go c.read()
	return c, nil
}

// Call sends req, whose opaque it sets, and waits for the answer, which the caller then owns. When
// ctx ends first the call is forgotten: an answer that comes later is dropped, and the connection
// stays usable. An answer of any code is no error.
func (c *Client) Call(ctx context.Context, req *wire.Command) (*wire.Command, error) {
	answer := make(chan *wire.Command, 1)
	req.Opaque = c.register(answer)
	defer c.forget(req.Opaque)
	if err := c.write(ctx, req); err != nil {
		return nil, err
	}
	select {
	case a := <-answer:
		return a, nil
	case <-ctx.Done():
		return nil, c.failed(req, ctx.Err())
	case <-c.done:
	}
	select {
	case a := <-answer: // it came just before the end
		return a, nil
	default:
		return nil, c.failed(req, c.over())
	}
}

// Oneway sends req as a request that wants no answer. It returns once the kernel has the bytes.
func (c *Client) Oneway(req *wire.Command) error {
	req.SetOneway()
	c.mu.Lock()
	req.Opaque = c.nextOpaqueLocked()
	c.mu.Unlock()
	return c.write(context.Background(), req)
}

// Close ends the connection and all calls in flight. It waits until OnRequest has returned; nothing
// of the client runs afterwards. Closing again does no harm.
func (c *Client) Close() error {
	c.end(ErrClosed)
	<-c.done
	return nil
}

// Done is closed when the connection has ended, for whatever reason.
func (c *Client) Done() <-chan struct{} { return c.done }

// end hangs up, unless that has happened, and returns why the connection is over. First is false when
// there was a reason before this one.
func (c *Client) end(why error) (cause error, first bool) {
	c.mu.Lock()
	if first = c.cause == nil; first {
		c.cause = why
	}
	cause = c.cause
	c.mu.Unlock()
	_ = c.conn.Close() // whatever it says, the reader notices
	return cause, first
}

// over returns why the connection is over, nil when it is not.
func (c *Client) over() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// failed tells which request failed where.
func (c *Client) failed(req *wire.Command, err error) error {
	return fmt.Errorf("remoting: %s: %s: %w", c.addr, req.Name(), err)
}

func (c *Client) register(answer chan *wire.Command) int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	opaque := c.nextOpaqueLocked()
	c.waiting[opaque] = answer
	return opaque
}

// nextOpaqueLocked counts up, past those that are still waited for after a lap.
func (c *Client) nextOpaqueLocked() int32 {
	for {
		c.opaque++
		if _, taken := c.waiting[c.opaque]; !taken {
			return c.opaque
		}
	}
}

func (c *Client) forget(opaque int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, opaque)
}

// write sends one frame whole. A write that ctx or writeWait cuts short ends the connection, since
// nobody could tell where the next frame begins.
func (c *Client) write(ctx context.Context, cmd *wire.Command) error {
	frame := cmd.Append(nil)
	if _, err := wire.FrameBytes(frame); err != nil {
		return c.failed(cmd, err)
	}
	select {
	case <-c.writing:
	case <-ctx.Done():
		return c.failed(cmd, ctx.Err())
	}
	defer func() { c.writing <- struct{}{} }()
	if err := cmp.Or(c.over(), ctx.Err()); err != nil {
		return c.failed(cmd, err) // before the first byte giving up costs nothing
	}
	until := time.Now().Add(writeWait)
	late := os.ErrDeadlineExceeded
	if d, ok := ctx.Deadline(); ok && d.Before(until) {
		until, late = d, context.DeadlineExceeded
	}
	_ = c.conn.SetWriteDeadline(until) // fails on a closed connection only, and so will Write
	_, err := c.conn.Write(frame)
	if err == nil {
		return nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = late
	}
	cause, _ := c.end(fmt.Errorf("%w: write: %w", ErrClosed, err))
	return c.failed(cmd, cause)
}
