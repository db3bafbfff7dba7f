package checkpoint

import "fmt"

// What tools that only look need to know of the files.
const (
	Name       = ownName
	StockBytes = stockBytes // the shortest stock file that counts
)

// Valid says why b is no checkpoint of ours.
func Valid(b []byte) error { return valid(b) }

// Judge is Read for who has the bytes of the files already, nil for a missing one, and must not touch
// them. own is intact: Valid.
func Judge(own, stock []byte) (c Checkpoint, trusted bool, err error) {
	var s Stock
	if len(stock) >= stockBytes {
		s = parseStock(stock)
	}
	if own == nil {
		return Checkpoint{Stock: s}, false, nil
	}
	if v := version(own); v > ownVersion {
		return c, false, fmt.Errorf("%w: %s has format %d, this one knows %d", ErrNewer, ownName, v, ownVersion)
	}
	c, before := parse(own)
	if s != c.Stock && s != before {
		return Checkpoint{Stock: s, QueueFileBytes: c.QueueFileBytes}, false, nil
	}
	c.Stock = s
	return c, true, nil
}
