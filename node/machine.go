package node

import (
	"log/slog"
	"os"
	"syscall"

	"ringmq/netio"
	"ringmq/node/cgroup"
)

// memoryBytes is the memory that this process may use: the machine's, or what its control groups leave of it. Where
// the kernel does not tell, little is assumed.
func memoryBytes(log *slog.Logger) int64 {
	var info syscall.Sysinfo_t
	if err := syscall.Sysinfo(&info); err != nil {
		log.Warn("node: the size of the memory is unknown, assuming 1 GiB", "error", err)
		return 1 << 30
	}
	limit, _ := cgroup.Limits(os.DirFS("/"))
	return min(int64(info.Totalram)*int64(info.Unit), limit)
}

// spareFiles is how many descriptors are left to what is not a connection: 1024 queue files that the store keeps open,
// a few for each segment, side files, listeners.
const spareFiles = 2048

// fit lowers the bounds of the network where the machine is small: what waits undecoded and what waits to be sent may take
// a quarter of the memory each, and connections may take the descriptors that the store does not need, or a quarter where
// there are few.
func fit(o *netio.Options, memory, files int64) {
	o.Fill()
	o.MaxInBytes = max(min(o.MaxInBytes, memory/4), o.MaxConnInBytes)
	o.MaxConnOutBytes = min(o.MaxConnOutBytes, max(memory/16, 1<<20))
	o.MaxOutBytes = max(min(o.MaxOutBytes, memory/4), o.MaxConnOutBytes)
	o.MaxConns = int(min(int64(o.MaxConns), max(files-spareFiles, files/4)))
}

// fileLimit is how many descriptors this process may open. The Go runtime has raised the soft limit to the hard one.
func fileLimit() int64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return int64(min(limit.Cur, 1<<30))
}
