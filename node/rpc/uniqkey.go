package rpc

import (
	"encoding/hex"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"time"
)

// uniqKeys makes client message ids for messages that came without, in the form of the stock
// clients: upper-case hex of address (4 or 16 bytes), process id (2), a number that stands for the
// class loader (4; here: random per loop), ms since the start of the month (4), counter (2).
type uniqKeys struct {
	prefix string
	month  int64 // ms since 1970 of the month's start
	next   int64 // of the next month's
	count  uint16
}

func newUniqKeys(host netip.Addr) uniqKeys {
	pid, loader := os.Getpid(), rand.Uint32()
	raw := append(host.Unmap().AsSlice(), byte(pid>>8), byte(pid),
		byte(loader>>24), byte(loader>>16), byte(loader>>8), byte(loader))
	return uniqKeys{prefix: strings.ToUpper(hex.EncodeToString(raw)), count: uint16(rand.Uint32())}
}

func (u *uniqKeys) append(dst []byte, nowMs int64) []byte {
	if nowMs >= u.next || nowMs < u.month {
		now := time.UnixMilli(nowMs)
		start := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, now.Location())
		u.month, u.next = start.UnixMilli(), start.AddDate(0, 1, 0).UnixMilli()
	}
	u.count++
	dst = append(dst, u.prefix...)
	dst = appendHex(dst, uint32(nowMs-u.month), 8)
	return appendHex(dst, uint32(u.count), 4)
}

// appendHex adds the lowest digits of v, upper-case.
func appendHex(dst []byte, v uint32, digits int) []byte {
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		dst = append(dst, "0123456789ABCDEF"[v>>shift&15])
	}
	return dst
}
