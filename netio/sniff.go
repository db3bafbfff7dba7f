package netio

import (
	"bytes"
	"fmt"
)

// strangers are the first bytes of what else is often pointed at this port: browsers, gRPC clients,
// port scanners, clients with TLS switched on. Read as a frame length they all come out huge.
var strangers = []struct{ prefix, name string }{
	{"PRI ", "HTTP/2 or gRPC"},
	{"GET ", "HTTP"}, {"POST", "HTTP"}, {"HEAD", "HTTP"}, {"PUT ", "HTTP"}, {"DELE", "HTTP"},
	{"OPTI", "HTTP"}, {"PATC", "HTTP"}, {"CONN", "HTTP"}, {"TRAC", "HTTP"},
	{"\x16\x03", "a TLS ClientHello (this port takes no TLS)"},
	{"SSH-", "SSH"},
	{"PROX", "the PROXY protocol"}, {"\r\n\r\n\x00\r\nQUIT\n", "the PROXY protocol"},
}

// looksLike names what the first bytes of a garbled stream are, for one line in the log.
func looksLike(b []byte) string {
	for _, s := range strangers {
		if bytes.HasPrefix(b, []byte(s.prefix)) {
			return s.name
		}
	}
	return fmt.Sprintf("unknown: % x", b[:min(len(b), 16)])
}
