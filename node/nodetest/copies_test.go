package nodetest_test

import (
	"fmt"
	"strings"
	"testing"

	"ringmq/node/nodetest"
	"ringmq/store/vfs/osfs"
)

// TestPullsCopyNothing: what is in the page cache goes out of it to the consumer, short runs and long ones, and not one byte
// through a buffer. On a disk in memory, which has no descriptors, every byte is copied, and that is counted.
func TestPullsCopyNothing(t *testing.T) {
	for name, inMemory := range map[string]bool{"disk": false, "memory": true} {
		t.Run(name, func(t *testing.T) {
			setup := nodetest.Setup{Config: map[string]string{"adminListen": "127.0.0.1:0"}}
			if !inMemory {
				setup.FS = osfs.New(osfs.Options{})
				setup.Config["storePathRootDir"] = t.TempDir()
			}
			n := nodetest.Start(t, setup)
			c := n.Client()
			for i := range 40 {
				c.Send("T", int32(i%2), strings.Repeat("short", 100)) // queues take turns: each record is a run
			}
			for range 3 {
				c.Send("Long", 0, strings.Repeat("long", 25_000))
			}
			var bytes int
			for _, q := range []struct {
				topic string
				queue int32
				want  int
			}{{"T", 0, 20}, {"T", 1, 20}, {"Long", 0, 2}} { // of the long ones two fit a pull
				records, ans := c.Pull("G", q.topic, q.queue, 0)
				if len(records) != q.want {
					t.Fatalf("%d messages of %s queue %d, want %d", len(records), q.topic, q.queue, q.want)
				}
				bytes += len(ans.Body)
			}
			_, page := get(t, "http://"+n.AdminAddr()+"/metrics")
			ways := map[string]int{}
			for _, way := range []string{"mapping", "sendfile", "copy"} {
				for line := range strings.Lines(page) {
					full, value, _ := strings.Cut(strings.TrimSpace(line), " ")
					if strings.HasPrefix(full, "ringmq_net_out_file_bytes_total{") && strings.Contains(full, fmt.Sprintf("by=%q", way)) {
						var bytes int
						if _, err := fmt.Sscan(value, &bytes); err != nil {
							t.Fatalf("%q: %v", line, err)
						}
						ways[way] += bytes
					}
				}
			}
			if inMemory {
				if ways["copy"] != bytes || ways["mapping"]+ways["sendfile"] != 0 {
					t.Errorf("%d bytes were pulled: %v", bytes, ways)
				}
				return
			}
			if ways["copy"] != 0 || ways["mapping"] == 0 || ways["sendfile"] == 0 || ways["mapping"]+ways["sendfile"] != bytes {
				t.Errorf("%d bytes were pulled: %v", bytes, ways)
			}
		})
	}
}
