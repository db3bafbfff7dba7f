package netio

import "ringmq/netio/wire"

// Verdict is what becomes of a request after Serve.
type Verdict uint8

const (
	Done  Verdict = iota // taken: answered, owed, or somebody else will answer it by Post (see Conn.Promise)
	Later                // nothing was done; try again when marks advance, and say "busy" after BusyWait
	Drop                 // close the connection; nothing further of it is served
)

// Handler is what a Server feeds. All methods run on the connection's loop and must not block: a
// loop serves many connections. Calls for one loop never overlap; different loops call at once.
type Handler interface {
	// Opened is the first call for a connection.
	Opened(c *Conn)
	// Serve is called once per request frame, oneway ones included (which must not be answered), in
	// the order of arrival per connection. req is reused for the next frame, but what its slices
	// point at (texts, Body) stays valid until EndTurn returns. A request that gets Later is served
	// again from its bytes.
	Serve(c *Conn, req *wire.Command) Verdict
	// EndTurn follows every group of Serve calls and of functions given to Loop.Execute. The bytes
	// of the requests are gone when it returns.
	EndTurn(l *Loop)
	// Closed is called once for each Opened, when the connection has ended or its peer has ended its side. In
	// the latter case what is owed can still be sent, and requests that had arrived and were put off are still
	// served; otherwise it is the last call for the connection.
	Closed(c *Conn)
}

// Mark names the position of the log that an owed answer waits for.
type Mark uint8

const (
	AtWritten Mark = iota // the record was handed to the file
	AtVisible             // the record may be read by consumers
	marks
)

// Answer is a frame that is yet to be encoded, such as a *wire.Command.
type Answer interface {
	// Append adds the whole frame to dst.
	Append(dst []byte) []byte
}
