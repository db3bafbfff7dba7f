package doctor

import (
	"fmt"
	"strconv"
	"strings"
)

func (h *Host) acceptQueue() Line {
	l := Line{Name: "net.core.somaxconn", Value: h.sysctl("net.core.somaxconn"), Why: "how many connections may wait to be accepted when all clients come back at once after a restart; what is over it tries again a second later"}
	if n, ok := h.number("net.core.somaxconn"); ok && n < 1024 {
		l.Verdict, l.Do, l.Sysctl = Warn, "sysctl -w net.core.somaxconn=4096", []Setting{{"net.core.somaxconn", "4096"}}
	}
	return l
}

// socketBuffers judges the largest size to which the kernel lets buffers grow. The node sets none of its own, since
// that would switch this growth off (tcp(7), tcp_moderate_rcvbuf).
func (h *Host) socketBuffers() Line {
	l := Line{Name: "socket buffers", Why: "rate of one connection = buffer / round trip: 4 MiB carry 400 MB/s over 10 ms. The node leaves the size to the kernel"}
	const least = 4 << 20
	for _, s := range []struct{ key, value string }{
		{"net.ipv4.tcp_rmem", "4096 131072 6291456"}, {"net.ipv4.tcp_wmem", "4096 16384 4194304"},
	} {
		fields := strings.Fields(h.sysctl(s.key))
		if len(fields) != 3 {
			continue
		}
		most, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil {
			continue
		}
		if l.Value != "" {
			l.Value += ", "
		}
		l.Value += fmt.Sprintf("%s up to %s", s.key, bytesText(most))
		if most < least {
			l.Verdict = Note
			l.Do = "if clients are far away: the settings of ringmq doctor --sysctl"
			l.Sysctl = append(l.Sysctl, Setting{s.key, s.value})
		}
	}
	if l.Value == "" {
		l.Value = "unknown"
	}
	if h.sysctl("net.ipv4.tcp_moderate_rcvbuf") == "0" {
		l.Value += ", tcp_moderate_rcvbuf=0"
		l.Verdict, l.Do = Warn, "sysctl -w net.ipv4.tcp_moderate_rcvbuf=1"
		l.Sysctl = append(l.Sysctl, Setting{"net.ipv4.tcp_moderate_rcvbuf", "1"})
	}
	return l
}
