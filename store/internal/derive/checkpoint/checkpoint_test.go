package checkpoint

import (
	"bytes"
	"errors"
	"testing"

	"ringmq/store/record"
	"ringmq/store/vfs"
	"ringmq/store/vfs/memfs"
)

var (
	stock1 = Stock{PhysicMs: 1, LogicsMs: 2, IndexMs: 3, MasterFlushed: 4, ConfirmPhy: 5, LogicsPhys: 6}
	stock2 = Stock{PhysicMs: 10, LogicsMs: 20, IndexMs: 3, MasterFlushed: 4, ConfirmPhy: 5, LogicsPhys: 60}
	point  = Checkpoint{Position: 700, Last: 600, Durable: 700, StoreMs: 20, Clean: true, Check: record.CheckProperty, Stock: stock2, QueueFileBytes: 400, IndexPosition: 650, IndexEnd: 600, QueueEnds: 1 << 63}
)

// TestTrust: our file counts while the stock one is the one that we wrote with it, or the one before.
func TestTrust(t *testing.T) {
	for _, tc := range []struct {
		name    string
		spoil   func(*testing.T, vfs.FS)
		trusted bool
		stock   Stock
	}{
		{"as written", func(*testing.T, vfs.FS) {}, true, stock2},
		{"power cut between the files", func(t *testing.T, f vfs.FS) { mustWriteStock(t, f, stock1) }, true, stock1},
		{"a stock broker was here", func(t *testing.T, f vfs.FS) { mustWriteStock(t, f, Stock{PhysicMs: 99}) }, false, Stock{PhysicMs: 99}},
		{"stock file missing", func(t *testing.T, f vfs.FS) { remove(t, f, stockName) }, false, Stock{}},
		{"ours missing", func(t *testing.T, f vfs.FS) { remove(t, f, ownName) }, false, stock2},
		{"one bit of ours", flipBit, false, stock2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fsys := memfs.New(1)
			if err := Write(fsys, "/", point, stock1); err != nil {
				t.Fatal(err)
			}
			tc.spoil(t, fsys)
			got, trusted, err := Read(fsys, "/")
			if err != nil || trusted != tc.trusted || got.Stock != tc.stock {
				t.Fatalf("%+v %v %v", got, trusted, err)
			}
			want := point
			want.Stock = tc.stock
			if trusted && got != want {
				t.Errorf("read %+v, want %+v", got, want)
			}
		})
	}
}

func mustWriteStock(t *testing.T, f vfs.FS, s Stock) {
	if err := writeStock(f, "/", s); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, f vfs.FS, name string) {
	if err := f.Remove("/" + name); err != nil {
		t.Fatal(err)
	}
}

func flipBit(t *testing.T, f vfs.FS) {
	h, err := f.Open("/" + ownName)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	var b [1]byte
	if _, err := h.ReadAt(b[:], 20); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 4
	if _, err := h.WriteAt(b[:], 20); err != nil {
		t.Fatal(err)
	}
}

// TestNewerIsRefused: a version that is not known is read before anything else.
func TestNewerIsRefused(t *testing.T) {
	fsys := memfs.New(1)
	f, err := fsys.Create("/" + ownName)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("ringmqck\x00\x00\x00\x04and whatever else"), 0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Read(fsys, "/"); !errors.Is(err, ErrNewer) {
		t.Errorf("got %v", err)
	}
}

// FuzzValid: what is valid and of our version is read and written again as the same bytes.
func FuzzValid(f *testing.F) {
	f.Add(point.append(nil, stock1))
	f.Add([]byte("ringmqck\x00\x00\x00\x02"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if valid(b) != nil || version(b) != ownVersion {
			return
		}
		c, before := parse(b)
		if again := c.append(nil, before); !bytes.Equal(again[:48], b[:48]) || !bytes.Equal(again[56:184], b[56:184]) {
			t.Errorf("%x became %x", b, again)
		}
	})
}
