package record

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
)

// An offset message id names a record by where it is: the upper-case hex digits of the store host's
// address (4 or 16 bytes), its port (4 bytes) and the physical offset (8 bytes).

const upperHex = "0123456789ABCDEF"

// AppendMsgID appends the offset message id of the record at offset phys of host's CommitLog: 32
// characters for an IPv4 host, 56 for IPv6.
func AppendMsgID(dst []byte, host netip.AddrPort, phys int64) []byte {
	var room [16 + 4 + 8]byte
	raw := appendHost(room[:0], host)
	raw = binary.BigEndian.AppendUint64(raw, uint64(phys))
	for _, b := range raw {
		dst = append(dst, upperHex[b>>4], upperHex[b&15])
	}
	return dst
}

// ParseMsgID is the opposite of AppendMsgID. It takes lower case as well.
func ParseMsgID(id string) (host netip.AddrPort, phys int64, err error) {
	if len(id) != 2*(4+4+8) && len(id) != 2*(16+4+8) {
		return host, 0, fmt.Errorf("record: message id of %d characters, want 32 or 56", len(id))
	}
	raw, err := hex.DecodeString(id)
	if err != nil {
		return host, 0, fmt.Errorf("record: message id %q: %w", id, err)
	}
	p := parser{b: raw}
	host = p.host(len(raw) > 16)
	phys = p.int64()
	if p.bad {
		return netip.AddrPort{}, 0, fmt.Errorf("record: message id %q: its port is above 65535", id)
	}
	return host, phys, nil
}
