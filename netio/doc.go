// Package netio serves the RocketMQ remoting protocol: it reads frames, hands requests to a Handler on
// the loop of their connection, keeps answers back until the log has come as far as they claim, and
// sends bytes and stretches of files without ever waiting for a peer.
//
//	socket -> gnet reads -> received -> serve -> Handler.Serve ... EndTurn      inbound.go inbuf.go
//	                                      |  Later: stays undecoded, tried again when a mark moves
//	           Send, SendRanges, SendMem  |  Owe
//	socket <- sendmsg, sendfile <- queue <-+- fifo <- Advance(written, visible)  outqueue.go owed.go
//	                                 ^ Post, from any goroutine
//
// gnet supplies the event loops and the reads; events.go says what of it is relied on. Accepting is
// ours (accept.go), so are the output (outqueue.go, waker.go) and the way work comes to a loop from
// outside (loop.go: inbox and bell), and what becomes of a peer that sends no more but reads
// (halfclosed.go). Start at loop.go; inbuf.go and limits.go are what keeps a bad
// peer cheap.
//
// # Memory
//
// What this package holds is at most the sum of
//
//	Loops × 8 MiB            read buffer 64 KiB, idle buffers for reuse 2.3 MiB, empty queues 0.9 MiB, what
//	                         two empty fifos keep (1.2 MiB each), scratch of two commands (1 MiB each)
//	MaxConns × 2 KiB         Conn, gnet's own record of it, places in lists
//	MaxInBytes               undecoded bytes; a buffer that would go beyond is refused
//	MaxOutBytes              answers, owed and queued
//	  + MaxConns × answers   beyond MaxOutBytes a connection with nothing waiting is still served one
//	                         request: those answers come on top
//	  + posts                what others post; over MaxConnOutBytes + 16 MiB in memory the connection
//	                         is closed
//
// and what the garbage collector has not yet taken back of buffers over 256 KiB, which it is asked to
// once the live heap has doubled. Not counted, because it is the kernel's: socket buffers
// (net.ipv4.tcp_rmem, tcp_wmem) and the page cache behind file ranges; nor the memory behind
// SendMem, whose owner bounds it.
//
// A peer that sends without end, or half frames, or reads nothing, costs at most its own bound
// (MaxConnInBytes; MaxConnOutBytes and one answer), is served nothing further when it reaches that
// (Conn.overOut), and is closed when it gets no further (StallWait, IdleWait). When all together reach
// theirs, requests that were put off are answered "busy", and then the connections that hold most are
// closed (Loop.crowdOut, Loop.relieve).
package netio
