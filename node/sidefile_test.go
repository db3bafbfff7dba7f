package node_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
	"ringmq/store/vfs"
	"ringmq/store/vfs/memfs"
)

// sideFiles are the tables that a node keeps beside its messages.
var sideFiles = []string{"topics.json", "subscriptionGroup.json", "consumerOffset.json"}

// withSideFiles makes a directory that a node was closed in twice, so that each table has a backup. Consumer
// G of topic T has read up to 2.
func withSideFiles(t *testing.T) *memfs.FS {
	t.Helper()
	disk := memfs.New(1)
	for at := range int64(2) {
		n := nodetest.Start(t, nodetest.Setup{FS: disk})
		c := n.Client()
		for range 3 {
			c.Send("T", 0, "x")
		}
		c.Pull("G", "T", 0, 0)
		c.Must(wire.UpdateConsumerOffset, &wire.UpdateOffsetRequest{ConsumerGroup: []byte("G"), Topic: []byte("T"), CommitOffset: at + 1}, nil)
		c.Send([]string{"A", "B"}[at], 0, "x") // another topic: the table changes
		c.Pull([]string{"H", "I"}[at], "T", 0, 0)
		n.Stop()
	}
	return disk
}

func readSide(t *testing.T, disk vfs.FS, name string) []byte {
	t.Helper()
	f, err := disk.OpenRead("/data/config/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

func writeSide(t *testing.T, disk vfs.FS, name, text string) {
	t.Helper()
	f, err := disk.Open("/data/config/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		t.Fatal(err)
	}
}

func offsetOf(t *testing.T, n *nodetest.Node) int64 {
	t.Helper()
	ans := n.Client().Must(wire.QueryConsumerOffset, &wire.QueryOffsetRequest{ConsumerGroup: []byte("G"), Topic: []byte("T")}, nil)
	var h wire.OffsetAnswer
	if err := h.Parse(ans); err != nil {
		t.Fatal(err)
	}
	return h.Offset
}

// TestDamagedSideFile: a node starts with the backup of a damaged table and says so; with neither it does not start,
// and says what to do.
func TestDamagedSideFile(t *testing.T) {
	for _, name := range sideFiles {
		t.Run(name, func(t *testing.T) {
			disk := withSideFiles(t)
			writeSide(t, disk, name, `{"dataVersion":{`)
			n := nodetest.Start(t, nodetest.Setup{FS: disk})
			if said := n.Log.String(); !strings.Contains(said, "read its backup") || !strings.Contains(said, name) {
				t.Errorf("the log does not tell of the damage:\n%s", said)
			}
			if got := offsetOf(t, n); got < 1 {
				t.Errorf("the consumer is at %d", got)
			}
			n.Client().Send("T", 0, "y")
			n.Stop()

			disk = withSideFiles(t)
			writeSide(t, disk, name, `{"dataVersion":{`)
			writeSide(t, disk, name+".bak", "\x00\x00")
			broken, err := nodetest.TryStart(t, nodetest.Setup{FS: disk})
			if err == nil {
				broken.Stop()
				t.Fatal("a node started without " + name)
			}
			for _, want := range []string{name, "repair one of them, or move both away"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
		})
	}
}

// TestKeysWithoutQuotes: stock brokers write the numbers of queues without quotes, which no JSON parser reads. A node
// starts with such files, and keeps what they say.
func TestKeysWithoutQuotes(t *testing.T) {
	disk := withSideFiles(t)
	for _, name := range sideFiles {
		text := regexp.MustCompile(`"(\d+)"\s*:`).ReplaceAllString(string(readSide(t, disk, name)), "$1:")
		if name == "consumerOffset.json" && json.Valid([]byte(text)) {
			t.Fatalf("no key lost its quotes: %s", text)
		}
		writeSide(t, disk, name, text)
	}
	n := nodetest.Start(t, nodetest.Setup{FS: disk})
	if said := n.Log.String(); strings.Contains(said, "backup") {
		t.Errorf("a file was not read:\n%s", said)
	}
	if got := offsetOf(t, n); got != 2 {
		t.Errorf("the consumer is at %d, want 2", got)
	}
}
