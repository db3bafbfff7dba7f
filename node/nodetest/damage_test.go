package nodetest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
	"ringmq/store/vfs/memfs"
)

// TestDamagedLog: bytes that were durable go bad while the node is down. It comes up, serves what is whole,
// and refuses sends with the way out, which health and routes tell too. With recoveryOnDamage=cut it
// goes on from before the damage.
func TestDamagedLog(t *testing.T) {
	fsys := memfs.New(1)
	n := nodetest.Start(t, nodetest.Setup{FS: fsys})
	c := n.Client()
	var spoiled []int64
	for i := range 5 {
		offset := c.Send("T", 0, fmt.Sprint("message ", i)).QueueOffset
		if offset != int64(i) {
			t.Fatalf("message %d has offset %d", i, offset)
		}
	}
	records, _ := c.Pull("G", "T", 0, 0)
	n.Stop()
	for _, i := range []int{2, 4} {
		spoiled = append(spoiled, records[i].PhysOffset+int64(records[i].Size)/2)
	}
	f, err := fsys.Open("/data/commitlog/00000000000000000000")
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range spoiled {
		if _, err := f.WriteAt([]byte{0xEE}, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}

	n = nodetest.Start(t, nodetest.Setup{FS: fsys, Config: map[string]string{"adminListen": "127.0.0.1:0"}})
	c = n.Client()
	ans := c.Ask(wire.SendMessageV2, nodetest.SendHeader("T", 0), []byte("more"))
	if ans.Code != wire.ServiceNotAvailable || !strings.Contains(string(ans.Remark), "store repair") {
		t.Errorf("a send is answered %d %q", ans.Code, ans.Remark)
	}
	var got []string
	for from := int64(0); from < 5; {
		records, ans := c.Pull("G", "T", 0, from)
		var h wire.PullAnswer
		if err := h.Parse(ans); err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			got = append(got, string(r.Body))
		}
		if h.NextBeginOffset <= from {
			break
		}
		from = h.NextBeginOffset
	}
	if want := "message 0,message 1,message 3"; strings.Join(got, ",") != want {
		t.Errorf("pulled %q, want %s", got, want)
	}
	if status, text := get(t, "http://"+n.AdminAddr()+"/healthz"); status != http.StatusServiceUnavailable || !strings.Contains(text, "store repair /data") {
		t.Errorf("health: %d %q", status, text)
	}
	n.Stop()

	n = nodetest.Start(t, nodetest.Setup{FS: fsys, Config: map[string]string{"recoveryOnDamage": "cut"}})
	if at := n.Client().Send("T", 0, "more").QueueOffset; at != 2 {
		t.Errorf("after the cut a message has offset %d, want 2", at)
	}
}

func get(t *testing.T, url string) (status int, text string) {
	t.Helper()
	ans, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer ans.Body.Close()
	body, err := io.ReadAll(ans.Body)
	if err != nil {
		t.Fatal(err)
	}
	return ans.StatusCode, string(body)
}
