package inspect

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"ringmq/store/record"
)

// Compression is how a body was compressed by its sender.
type Compression string

// The kinds of compression; an old client sets no kind and means zlib.
const (
	Plain Compression = ""
	Zlib  Compression = "zlib"
	LZ4   Compression = "lz4"
	ZSTD  Compression = "zstd"
)

// Bits 8 to 10 of SysFlag tell the kind (stock clients 5.5.0).
const (
	sysKindMask int32 = 0x700
	sysKindLZ4  int32 = 0x100
	sysKindZSTD int32 = 0x200
	sysKindZlib int32 = 0x300
)

// ErrCompression means that a body's compression is of no known kind.
var ErrCompression = errors.New("inspect: unknown compression")

// CompressionOf tells how r's body is compressed.
func CompressionOf(r *record.Record) (Compression, error) {
	if r.SysFlag&record.SysCompressed == 0 {
		return Plain, nil
	}
	switch r.SysFlag & sysKindMask {
	case 0, sysKindZlib:
		return Zlib, nil
	case sysKindLZ4:
		return LZ4, nil
	case sysKindZSTD:
		return ZSTD, nil
	}
	return Plain, fmt.Errorf("%w: sysFlag %#x", ErrCompression, r.SysFlag)
}

// Body returns the first limit bytes of r's body as its sender meant it, and whether that is all. A
// body that cannot be unpacked to its end comes with the error, as far as it could.
func Body(r *record.Record, limit int) (body []byte, all bool, err error) {
	kind, err := CompressionOf(r)
	if err != nil || kind == Plain {
		return r.Body[:min(limit, len(r.Body))], limit >= len(r.Body), err
	}
	unpack, err := unpacker(kind, r.Body)
	if err != nil {
		return nil, false, fmt.Errorf("inspect: body of %s: %w", kind, err)
	}
	defer unpack.Close()
	body, err = io.ReadAll(io.LimitReader(unpack, int64(limit)+1)) // never all of a body that blows up
	if err != nil {
		err = fmt.Errorf("inspect: body of %s: %w", kind, err)
	}
	if len(body) > limit {
		return body[:limit], false, nil
	}
	return body, err == nil, err
}

func unpacker(kind Compression, b []byte) (io.ReadCloser, error) {
	switch kind {
	case LZ4:
		return io.NopCloser(lz4.NewReader(bytes.NewReader(b))), nil
	case ZSTD:
		z, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxWindowBytes))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}
	return zlib.NewReader(bytes.NewReader(b))
}

// maxWindowBytes is what unpacking a body may keep: the largest window of the zstd levels that clients
// offer.
const maxWindowBytes = 128 << 20
