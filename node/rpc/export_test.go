package rpc

import "ringmq/netio/wire"

// WorkerQueue is how many requests wait for one worker at most.
const WorkerQueue = workerQueue

// ConnQueue is how many of them, the one that is served among them, are of one connection at most.
const ConnQueue = connQueue

// Workers is how many workers there are; the n-th and the (n+Workers)-th connection share one.
const Workers = workers

// NoticeEvery is how often the members of a group are told of changes at most.
const NoticeEvery = noticeEvery

// SetRoute makes a test's function serve a code; undo it after the node was stopped.
func SetRoute(code wire.Code, worker bool, serve func(c *Call) *wire.Command) (undo func()) {
	was, known := routes[code]
	r := route{onLoop, func(_ *Server, c *Call) *wire.Command { return serve(c) }}
	if worker {
		r.lane = onWorker
	}
	routes[code] = r
	return func() {
		delete(routes, code)
		if known {
			routes[code] = was
		}
	}
}

// Codes lists what is served.
func Codes() (codes []wire.Code) {
	for code := range routes {
		codes = append(codes, code)
	}
	return codes
}
