package namesrv

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"ringmq/netio"
	"ringmq/netio/wire"
)

// otherwise lists the exchanges that are answered in another way than the stock name server 5.5.0 does.
var otherwise = map[string]string{
	// The stock name server cannot read what a stock broker with compressedRegister=true sends it.
	"103 compressed registration (body is zlib, header says false) 1": "code 0",
	// It was captured at a name server that knew the broker; here nobody has registered at that address.
	"322 heart beat to the name server": "fields changed=true, no body",
	// The stock cluster list has broker ids without quotes, which is no JSON.
	"106 create-topic": "quoted ids", "106 cluster info": "quoted ids",
}

// TestExchangesAsStock answers captured requests in the order of testdata/exchanges.jsonl and compares code,
// fields and body with what the stock name server answered.
func TestExchangesAsStock(t *testing.T) {
	f, err := os.Open("testdata/exchanges.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, conn, seen := New(Options{}), new(netio.Conn), 0
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for ; lines.Scan(); seen++ {
		var x struct {
			Scenario string
			Request  string `json:"request_hex"`
			Response string `json:"response_hex"`
		}
		if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
			t.Fatal(err)
		}
		got, want := s.answer(conn, parse(t, x.Request)), parse(t, x.Response)
		t.Run(x.Scenario, func(t *testing.T) { compare(t, got, want, otherwise[x.Scenario]) })
	}
	if seen == 0 {
		t.Fatal("no exchanges")
	}
}

func parse(t *testing.T, text string) *wire.Command {
	t.Helper()
	frame, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	c := new(wire.Command)
	if err := c.Parse(frame); err != nil {
		t.Fatal(err)
	}
	return c
}

func compare(t *testing.T, got, want *wire.Command, exempt string) {
	t.Helper()
	if got.Opaque != want.Opaque || !got.IsAnswer() || got.Version != wire.BrokerVersion {
		t.Errorf("opaque %d, answer %v, version %d", got.Opaque, got.IsAnswer(), got.Version)
	}
	switch exempt {
	case "":
		if got.Code != want.Code || fmt.Sprint(fields(got)) != fmt.Sprint(fields(want)) || string(got.Body) != string(want.Body) {
			t.Errorf("code %d fields %v body %s\nstock: code %d fields %v body %s", got.Code, fields(got), got.Body, want.Code, fields(want), want.Body)
		}
		if first, _, _ := strings.Cut(string(want.Remark), "\n"); want.Code != wire.Success && string(got.Remark) != first {
			t.Errorf("remark %q, stock says %q", got.Remark, first)
		}
	case "quoted ids":
		var ours, theirs any
		if json.Unmarshal(got.Body, &ours) != nil || wire.Unmarshal(want.Body, &theirs) != nil || !reflect.DeepEqual(ours, theirs) {
			t.Errorf("body %s\nstock: %s", got.Body, want.Body)
		}
	default:
		if got := fmt.Sprintf("code %d", got.Code); strings.HasPrefix(exempt, "code") && got != exempt {
			t.Errorf("%s, want %s", got, exempt)
		}
		if v, _ := got.Get("changed"); strings.HasPrefix(exempt, "fields") && (string(v) != "true" || len(got.Body) > 0) {
			t.Errorf("changed=%s, body %q", v, got.Body)
		}
	}
}

func fields(c *wire.Command) map[string]string {
	m := map[string]string{}
	for _, f := range c.Fields {
		m[string(f.Key)] = string(f.Value)
	}
	return m
}
