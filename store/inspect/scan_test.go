package inspect

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"

	"ringmq/store/record"
)

func open(t testing.TB, fsys FS) *Dir {
	t.Helper()
	d, err := Open(fsys, Options{Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// scan returns where the records between two offsets stand, and the gaps that are not all zeros.
func scan(t testing.TB, d *Dir, from, to int64) (at []int64, gaps []Gap) {
	t.Helper()
	err := d.Scan(t.Context(), from, to, func(off int64, _ *record.Record) error {
		at = append(at, off)
		return nil
	}, func(g Gap) error {
		if g.Used > 0 {
			gaps = append(gaps, g)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return at, gaps
}

// TestScanRange: any range gives the records that begin in it, whether a record begins at its bounds or
// not.
func TestScanRange(t *testing.T) {
	d := open(t, unpack(t, theirs+"roll.tar.gz"))
	all, _ := scan(t, d, 0, 1<<40)
	if len(all) != 424 {
		t.Fatalf("%d records", len(all))
	}
	for _, i := range []int{0, 1, 80, 200, 423} {
		for _, j := range []int{i, i + 1, i + 100, 423} {
			j = min(j, 423)
			for _, shift := range []int64{0, 1} { // at the record, and inside it
				from, to := all[i]+shift, all[j]+shift
				want := all[i+int(shift) : max(j+int(shift), i+int(shift))]
				if got, gaps := scan(t, d, from, to); !slices.Equal(got, want) || len(gaps) > 0 {
					t.Errorf("[%d,%d): %d records, want %d; gaps %v", from, to, len(got), len(want), gaps)
				}
			}
		}
	}
}

func TestScanOverDamage(t *testing.T) {
	d := open(t, unpack(t, ours+"tornmid.tar.gz"))
	at, gaps := scan(t, d, 0, 1<<40)
	if len(at) != 739 || len(gaps) != 1 || gaps[0].At != 195710 || gaps[0].Bytes != 266 {
		t.Errorf("%d records, gaps %+v", len(at), gaps)
	}
}

// TestScanFrom: no message stored at a time or later is before the place that is named.
func TestScanFrom(t *testing.T) {
	d := open(t, unpack(t, theirs+"roll.tar.gz"))
	var stored []struct{ at, ms int64 }
	_ = d.Scan(t.Context(), 0, 1<<40, func(at int64, r *record.Record) error {
		stored = append(stored, struct{ at, ms int64 }{at, r.StoreMs})
		return nil
	}, func(Gap) error { return nil })
	last := int64(0)
	for _, s := range stored {
		if from := d.ScanFrom(s.ms); from > s.at {
			t.Fatalf("from %d, but the message at %d was stored then", from, s.at)
		} else {
			last = from
		}
	}
	if last == 0 {
		t.Error("no file was ever skipped")
	}
}

func TestQueue(t *testing.T) {
	fsys := unpack(t, theirs+"roll.tar.gz")
	edit(t, fsys, rollQueue, flip(20*5+7))
	d := open(t, fsys)
	var got []int64
	bad := map[int64]error{}
	err := d.Queue(t.Context(), "RollA", 0, 3, 8, func(_ int64, r *record.Record) error {
		got = append(got, r.QueueOffset)
		return nil
	}, func(offset int64, err error) error {
		bad[offset] = err
		return nil
	})
	if err != nil || !slices.Equal(got, []int64{3, 4, 6, 7}) || len(bad) != 1 || bad[5] == nil {
		t.Errorf("%v %v %v", got, bad, err)
	}
	for _, topic := range []string{"None", "..", "", "a/b"} {
		if err := d.Queue(t.Context(), topic, 0, 0, 1, nil, nil); !errors.Is(err, ErrNoQueue) {
			t.Errorf("topic %q: %v", topic, err)
		}
	}
}

// TestBody unpacks what stock clients packed, and as much of it as is wanted.
func TestBody(t *testing.T) {
	f, err := os.Open("testdata/compressed.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := 0
	for s := bufio.NewScanner(f); s.Scan(); lines++ {
		var v struct {
			Type                    string
			SysFlagBits             int32
			PlainHex, CompressedHex string
		}
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		plain, packed := unhex(t, v.PlainHex), unhex(t, v.CompressedHex)
		r := &record.Record{SysFlag: record.SysCompressed | v.SysFlagBits, Body: packed}
		if got, all, err := Body(r, 1<<20); err != nil || !all || !bytes.Equal(got, plain) {
			t.Errorf("%s: %d bytes, %v, %v", v.Type, len(got), all, err)
		}
		if got, all, err := Body(r, len(plain)); err != nil || !all || !bytes.Equal(got, plain) {
			t.Errorf("%s to its length: %d bytes, %v, %v", v.Type, len(got), all, err)
		}
		if got, all, err := Body(r, 10); err != nil || all || !bytes.Equal(got, plain[:10]) {
			t.Errorf("%s to 10: %d bytes, %v, %v", v.Type, len(got), all, err)
		}
		r.Body = packed[:len(packed)/2]
		if _, all, err := Body(r, 1<<20); err == nil || all {
			t.Errorf("%s cut: no error", v.Type)
		}
	}
	if lines == 0 {
		t.Fatal("no vectors")
	}
}

func TestBodyKinds(t *testing.T) {
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	_, err := z.Write([]byte("old client"))
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	r := &record.Record{SysFlag: record.SysCompressed, Body: packed.Bytes()} // without a kind
	if got, all, err := Body(r, 100); err != nil || !all || string(got) != "old client" {
		t.Errorf("%q %v %v", got, all, err)
	}
	r.SysFlag = record.SysCompressed | 0x500
	if got, _, err := Body(r, 100); !errors.Is(err, ErrCompression) || !bytes.Equal(got, packed.Bytes()) {
		t.Errorf("%q %v", got, err)
	}
	r = &record.Record{Body: []byte("plain")}
	if got, all, err := Body(r, 2); err != nil || all || string(got) != "pl" {
		t.Errorf("%q %v %v", got, all, err)
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
