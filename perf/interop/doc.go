// Package interop runs stock RocketMQ clients, the Java one and the Go one, against a real ringmq process: what users
// run is what is tested. It holds only tests and is a module of its own, so that the clients' dependencies stay out of
// the node's; it starts the node as a binary and imports nothing of it.
//
// Read in this order:
//
//	main_test.go                     what is built once, and what decides on skipping
//	node_test.go                     a node under test: start, stop, kill; targets ringmq_test.go and stock_test.go
//	client_test.go                   what a story needs of a client; goclient_test.go and javaclient_test.go fit it
//	ledger_test.go                   what was acknowledged and what was handled, compared at the end
//	send, consume, group, topic, restart, namesrv, swap, hostile: the stories
//
// The same suite runs against the stock broker 5.5.0 (RINGMQ_INTEROP_TARGET=stock): a story that fails there is wrong.
package interop
