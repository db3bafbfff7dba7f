package record

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// goldenMessage is what the stock broker 5.5.0 shows of one record that it wrote.
type goldenMessage struct {
	Offset                    int64
	Size                      int
	Magic                     string
	Topic                     string
	QueueID                   int32
	QueueOffset               int64
	PhysicalOffset            int64
	Flag                      int32
	SysFlag                   int32
	BornTimestamp             int64
	BornHost                  string
	StoreTimestamp            int64
	StoreHost                 string
	ReconsumeTimes            int32
	PreparedTransactionOffset int64
	BodyCRC                   uint32
	BodyLen                   int
	Properties                map[string]string
	TagsHash                  int64
	MsgID                     string
	SHA256                    string
}

type goldenLog struct {
	log      []byte
	fileSize int64
	end      int64
	blanks   map[int64]int
	messages []goldenMessage
}

// TestGoldenRecords walks through logs that a stock broker wrote: each record must say what the broker
// says about it, and writing it again must give the same bytes.
func TestGoldenRecords(t *testing.T) {
	for name, check := range map[string]Check{
		"plain": CheckOff, "roll": CheckOff, "batch": CheckOff, "bcq": CheckOff, "ipv6": CheckOff,
		"v2props": CheckOff, "lz4zstd": CheckOff, "crc": CheckProperty, "crcbatch": CheckProperty,
	} {
		t.Run(name, func(t *testing.T) {
			g := loadGolden(t, name)
			var r Record
			at, messages, blanks := int64(0), 0, 0
			for at < g.end {
				err := Verify(g.log[at:], at, &r)
				if errors.Is(err, ErrBlank) {
					if g.blanks[at] != r.Size {
						t.Fatalf("blank of %d bytes at %d, want %v", r.Size, at, g.blanks)
					}
					blanks++
					at += int64(r.Size)
					continue
				}
				if err != nil {
					t.Fatalf("at %d: %v", at, err)
				}
				want := g.messages[messages]
				if got := asGolden(at, &r, g.log, want.Properties); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("at %d:\n got %+v\nwant %+v", at, got, want)
				}
				if r.Check != check || r.Lacks(check) {
					t.Fatalf("at %d: check %v, want %v", at, r.Check, check)
				}
				rewriteGolden(t, &r, g.log[at:at+int64(r.Size)], check)
				messages++
				at += int64(r.Size)
			}
			if messages != len(g.messages) || blanks != len(g.blanks) || messages == 0 {
				t.Fatalf("%d records and %d blanks, want %d and %d", messages, blanks, len(g.messages), len(g.blanks))
			}
			if at%g.fileSize != 0 {
				if err := Parse(g.log[at:], &r); !errors.Is(err, ErrEmpty) {
					t.Fatalf("after the last record: %v", err)
				}
			}
		})
	}
}

// asGolden tells about r in the broker's words; long property values are in want as their hash.
func asGolden(at int64, r *Record, log []byte, want map[string]string) goldenMessage {
	props := map[string]string{}
	for name, value := range Props(r.Props) {
		v := string(value)
		if strings.HasPrefix(want[string(name)], "sha256:") {
			v = fmt.Sprintf("sha256:%x", sha256.Sum256(value))
		}
		props[string(name)] = v
	}
	tags, _ := Prop(r.Props, "TAGS")
	raw := sha256.Sum256(log[at : at+int64(r.Size)])
	return goldenMessage{
		Offset: at, Size: r.Size, Magic: fmt.Sprintf("%08x", r.Magic), Topic: string(r.Topic), QueueID: r.QueueID,
		QueueOffset: r.QueueOffset, PhysicalOffset: r.PhysOffset, Flag: r.Flag, SysFlag: r.SysFlag,
		BornTimestamp: r.BornMs, BornHost: r.Born.String(), StoreTimestamp: r.StoreMs, StoreHost: r.Store.String(),
		ReconsumeTimes: r.ReconsumeTimes, PreparedTransactionOffset: r.PreparedOffset, BodyCRC: r.BodyCRC,
		BodyLen: len(r.Body), Properties: props, TagsHash: TagsCode(tags),
		MsgID: string(AppendMsgID(nil, r.Store, r.PhysOffset)), SHA256: hex.EncodeToString(raw[:]),
	}
}

// rewriteGolden writes r again. Its properties still hold the broker's check, which Append removes.
func rewriteGolden(t *testing.T, r *Record, want []byte, check Check) {
	t.Helper()
	m := messageOf(r)
	if size, err := m.Size(check); err != nil || size != len(want) {
		t.Fatalf("size %d, %v, want %d", size, err, len(want))
	}
	if got := m.Append(nil, check, r.QueueOffset, r.PhysOffset, r.StoreMs); !bytes.Equal(got, want) {
		t.Fatalf("written again:\n got %x\nwant %x", got, want)
	}
}

func messageOf(r *Record) Message {
	return Message{
		Topic: string(r.Topic), QueueID: r.QueueID, Flag: r.Flag, SysFlag: r.SysFlag,
		ReconsumeTimes: r.ReconsumeTimes, BornMs: r.BornMs, Born: r.Born, Store: r.Store,
		PreparedOffset: r.PreparedOffset, Body: r.Body, Props: r.Props, BodyCRC: BodyCRC(r.Body),
	}
}

func loadGolden(t testing.TB, name string) goldenLog {
	t.Helper()
	var facts struct {
		FileSize, MaxOffset int64
		Blanks              []struct {
			Offset int64
			Size   int
		}
		Messages []goldenMessage
	}
	if err := json.Unmarshal(gunzip(t, name+".json.gz"), &facts); err != nil {
		t.Fatal(err)
	}
	g := goldenLog{
		log: gunzip(t, name+".log.gz"), fileSize: facts.FileSize, end: facts.MaxOffset,
		blanks: map[int64]int{}, messages: facts.Messages,
	}
	for i := range g.messages { // Java writes IPv6 addresses in full
		g.messages[i].BornHost = netip.MustParseAddrPort(g.messages[i].BornHost).String()
		g.messages[i].StoreHost = netip.MustParseAddrPort(g.messages[i].StoreHost).String()
	}
	for _, b := range facts.Blanks {
		g.blanks[b.Offset] = b.Size
	}
	return g
}

func gunzip(t testing.TB, name string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "golden", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
