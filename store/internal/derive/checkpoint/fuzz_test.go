package checkpoint

import (
	"encoding/hex"
	"errors"
	"testing"

	"ringmq/store/vfs/memfs"
)

// stockSeed is a checkpoint of a stock broker 5.5.0.
const stockSeed = "000001a22a6fe31100000000000000000000000000000000000000000000000000000000000000000000000000000000"

// FuzzRead reads any bytes as the two files. What is trusted is what was written; and after the next write
// nothing of the old is left.
func FuzzRead(f *testing.F) {
	stock, err := hex.DecodeString(stockSeed)
	if err != nil {
		f.Fatal(err)
	}
	own := point.append(nil, stock1)
	f.Add(own, stock)
	f.Add(own, stock2.append(nil))
	f.Add(own, stock1.append(nil))
	f.Add(own[:ownBytes-1], stock[:47])
	f.Add([]byte(nil), stock)
	f.Fuzz(func(t *testing.T, own, stock []byte) {
		fsys := memfs.New(1)
		for name, b := range map[string][]byte{"/" + ownName: own, "/" + stockName: stock} {
			file, err := fsys.Create(name)
			if err == nil {
				_, err = file.WriteAt(b, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		c, trusted, err := Read(fsys, "/")
		if err != nil && !errors.Is(err, ErrNewer) {
			t.Fatal(err)
		}
		if trusted {
			before := c
			_, before.Stock = parse(own)
			if again, second := parse(c.append(nil, before.Stock)); again != c || second != before.Stock {
				t.Fatalf("read %+v, writes as %+v", c, again)
			}
		}
		if err != nil {
			return
		}
		if err := Write(fsys, "/", point, c.Stock); err != nil {
			t.Fatal(err)
		}
		if got, trusted, err := Read(fsys, "/"); err != nil || !trusted || got != point {
			t.Fatalf("after a write: %+v %v %v", got, trusted, err)
		}
	})
}
