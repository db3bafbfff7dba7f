package netio

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"time"

	"ringmq/netio/wire"
	"ringmq/uring"
)

// readBytes is how much one read(2) of a loop takes from a socket at most.
const readBytes = 64 << 10

// Options sets up a Server. A zero field means "choose for me".
type Options struct {
	Addrs []string // what to listen on, such as "0.0.0.0:10911"; port 0 is chosen by the kernel
	Loops int      // event loops, each a goroutine; one per CPU but one is left for the disk

	// Bounds. The package comment has the sum they make.
	MaxConns        int   // open connections; further ones are accepted and closed at once
	MaxConnInBytes  int64 // bytes of one connection that are received and not yet decoded
	MaxInBytes      int64 // the same of all connections, in memory held for them
	MaxConnOutBytes int64 // answers of one connection, owed or queued, file ranges included
	MaxOutBytes     int64 // answers of all connections in memory, file ranges excluded

	// SendfileBytes is the length from which a range of a file is sent by sendfile(2). Shorter ones go out from a mapping,
	// many of them in one call. 1 MiB at most; 1 maps nothing.
	SendfileBytes int

	// Time limits. They are looked at every 50 ms (BusyWait, OweWait) or every second (the others).
	FirstFrameWait time.Duration // from accept to the first whole frame
	IdleWait       time.Duration // without a byte in either direction
	StallWait      time.Duration // with something queued and no byte of it taken by the peer
	BusyWait       time.Duration // a request that the handler puts off (Later) gets code 2 afterwards
	OweWait        time.Duration // an owed answer goes out with code 10 afterwards

	SlowTurn time.Duration // a turn of a loop that takes longer has a line in the log

	Now func() time.Time // the clock for all limits above
	Log *slog.Logger

	tickEvery time.Duration // tests set it out of reach and call Server.tick themselves
}

// Fill sets defaults, so that Check sees every field with a value. Addrs has none.
func (o *Options) Fill() {
	o.Loops = cmp.Or(o.Loops, max(1, runtime.GOMAXPROCS(0)-1))
	o.MaxConns = cmp.Or(o.MaxConns, 65536)
	o.MaxConnInBytes = cmp.Or(o.MaxConnInBytes, minConnInBytes)
	o.MaxInBytes = cmp.Or(o.MaxInBytes, 256<<20)
	o.MaxConnOutBytes = cmp.Or(o.MaxConnOutBytes, 32<<20)
	o.MaxOutBytes = cmp.Or(o.MaxOutBytes, 256<<20)
	o.SendfileBytes = cmp.Or(o.SendfileBytes, 32<<10)
	o.FirstFrameWait = cmp.Or(o.FirstFrameWait, 10*time.Second)
	o.IdleWait = cmp.Or(o.IdleWait, 120*time.Second)
	o.StallWait = cmp.Or(o.StallWait, 60*time.Second)
	o.BusyWait = cmp.Or(o.BusyWait, 200*time.Millisecond)
	o.OweWait = cmp.Or(o.OweWait, 5*time.Second)
	o.SlowTurn = cmp.Or(o.SlowTurn, 200*time.Millisecond)
	o.tickEvery = cmp.Or(o.tickEvery, 50*time.Millisecond)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
}

// minConnInBytes lets every connection hold the largest frame with what one read brings behind it.
const minConnInBytes = wire.MaxFrameBytes + readBytes

// Check changes nothing and reports all complaints.
func (o Options) Check() error {
	var bad []error
	if len(o.Addrs) == 0 {
		bad = append(bad, errors.New("netio: no address to listen on"))
	}
	for _, a := range o.Addrs {
		if _, _, err := net.SplitHostPort(a); err != nil {
			bad = append(bad, fmt.Errorf("netio: listen address %q: %w", a, err))
		}
	}
	atLeast := func(name string, value, least int64) {
		if value < least {
			bad = append(bad, fmt.Errorf("netio: %s=%d: want at least %d", name, value, least))
		}
	}
	atLeast("loops", int64(o.Loops), 1)
	atLeast("max_conns", int64(o.MaxConns), 1)
	atLeast("max_conn_in_bytes", o.MaxConnInBytes, minConnInBytes)
	atLeast("max_in_bytes", o.MaxInBytes, o.MaxConnInBytes)
	atLeast("max_conn_out_bytes", o.MaxConnOutBytes, 1)
	atLeast("max_out_bytes", o.MaxOutBytes, o.MaxConnOutBytes)
	if o.SendfileBytes < 1 || o.SendfileBytes > uring.MappedRangeMax {
		bad = append(bad, fmt.Errorf("netio: sendfile_bytes=%d: want 1 to %d", o.SendfileBytes, uring.MappedRangeMax))
	}
	for _, t := range []struct {
		name string
		wait time.Duration
	}{
		{"first_frame_wait", o.FirstFrameWait}, {"idle_wait", o.IdleWait}, {"stall_wait", o.StallWait},
		{"busy_wait", o.BusyWait}, {"owe_wait", o.OweWait},
	} {
		if t.wait < 0 {
			bad = append(bad, fmt.Errorf("netio: %s=%v: want a positive duration", t.name, t.wait))
		}
	}
	return errors.Join(bad...)
}
