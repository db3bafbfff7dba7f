package config

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// Env is what a Config depends on beside the file: the machine and its environment.
type Env struct {
	Lookup   func(name string) (string, bool)        // environment variables
	Resolve  func(host string) ([]netip.Addr, error) // addresses of a host name
	Hostname string
	Home     string       // of the user
	Addrs    []netip.Addr // of the interfaces that are up
}

// resolveWait is how long the start may wait for the address of our own name.
const resolveWait = 5 * time.Second

// Machine returns the Env of this process.
func Machine() Env {
	hostname, _ := os.Hostname()
	home, _ := os.UserHomeDir()
	return Env{Lookup: os.LookupEnv, Resolve: resolve, Hostname: hostname, Home: home, Addrs: addrs()}
}

func resolve(host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(context.Background(), resolveWait)
	defer cancel()
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// addrs lists the addresses of all interfaces that are up, those of bridges (container networks) last.
func addrs() []netip.Addr {
	var own, bridged []netip.Addr
	interfaces, _ := net.Interfaces()
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		list := &own
		if _, err := os.Stat(filepath.Join("/sys/class/net", i.Name, "bridge")); err == nil {
			list = &bridged
		}
		nets, _ := i.Addrs()
		for _, n := range nets {
			if p, err := netip.ParsePrefix(n.String()); err == nil {
				*list = append(*list, p.Addr())
			}
		}
	}
	return append(own, bridged...)
}

// pick returns the address that others can most probably reach: the first IPv4 address that is neither
// loopback nor link-local, else such an IPv6 address, else loopback.
func pick(addrs []netip.Addr) netip.Addr {
	for _, want4 := range []bool{true, false} {
		for _, a := range addrs {
			a = a.Unmap()
			if a.Is4() == want4 && a.IsGlobalUnicast() {
				return a.WithZone("")
			}
		}
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}
