package rpc_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
	"ringmq/node/topic"
	"ringmq/store/record"
)

// await pulls from a queue until it has so many messages from an offset on.
func await(t *testing.T, c *nodetest.Client, name string, queue int32, from int64, count int) (records []record.Record) {
	t.Helper()
	nodetest.Until(t, fmt.Sprintf("%d messages in %s/%d from %d on", count, name, queue, from), func() bool {
		records, _ = c.Pull("G", name, queue, from)
		return len(records) >= count
	})
	return records
}

// TestDelayedSend: a message with a level waits in the queue of that level and is then found in its own
// (answers, properties and bounds of the stock broker 5.5.0).
func TestDelayedSend(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	c := n.Client()
	newTopic(t, c, "T", "")
	for _, tc := range []struct {
		props        []byte
		queue, level int32
	}{
		{props("DELAY", "2", "TAGS", "a", "UNIQ_KEY", "u1", "TIMER_DELAY_SEC", "9", "REAL_TOPIC", "../x", "REAL_QID", "-3"), 1, 2},
		{props("DELAY", "99", "UNIQ_KEY", "u1"), 2, 18},
	} {
		h := nodetest.SendHeader("T", tc.queue)
		h.Properties = tc.props
		var ans wire.SendAnswer
		if err := ans.Parse(c.Must(wire.SendMessageV2, h, []byte("later"))); err != nil {
			t.Fatal(err)
		}
		_, at, err := record.ParseMsgID(string(ans.MsgID))
		if err != nil || ans.QueueID != tc.queue || ans.QueueOffset != 0 || string(ans.TransactionID) != "u1" {
			t.Errorf("answer %+v, %v", ans, err)
		}
		records, _ := c.Pull("G", topic.Schedule, tc.level-1, 0)
		if len(records) != 1 || records[0].PhysOffset != at {
			t.Fatalf("level %d: %d records, want the one at %d", tc.level, len(records), at)
		}
		want := map[string]string{
			"DELAY": fmt.Sprint(tc.level), "REAL_TOPIC": "T", "REAL_QID": fmt.Sprint(tc.queue), "UNIQ_KEY": "u1",
			"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster",
		}
		if tc.level == 2 {
			want["TAGS"] = "a"
		}
		if got := propMap(records[0].Props); !maps.Equal(got, want) {
			t.Errorf("waiting: properties %v, want %v", got, want)
		}
		n.Clock.Advance(2*time.Hour + time.Millisecond)
		got := await(t, c, "T", tc.queue, 0, 1)[0]
		if string(got.Body) != "later" || !maps.Equal(propMap(got.Props), want) || got.StoreMs <= records[0].StoreMs {
			t.Errorf("delivered %+v, properties %v", got, propMap(got.Props))
		}
	}
}

// TestNoDelay: level 0 and below is none.
func TestNoDelay(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	newTopic(t, c, "T", "")
	for i, level := range []string{"0", "-1"} {
		h := nodetest.SendHeader("T", 0)
		h.Properties = props("DELAY", level)
		c.Must(wire.SendMessageV2, h, []byte("now"))
		if records, _ := c.Pull("G", "T", 0, int64(i)); len(records) != 1 || propMap(records[0].Props)["DELAY"] != level {
			t.Errorf("level %s: %d records", level, len(records))
		}
	}
}

// TestDelayedRetry: the clients' fall-back for a failed message goes by way of a delay level to its retry topic,
// even if it was of a transaction that is long decided.
func TestDelayedRetry(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	c := n.Client()
	h := nodetest.SendHeader("%RETRY%G", 0)
	h.ReconsumeTimes, h.Properties = 1, props("DELAY", "1", "RETRY_TOPIC", "T", "TRAN_MSG", "true")
	c.Must(wire.SendMessageV2, h, []byte("again"))
	if records, _ := c.Pull("G", "%RETRY%G", 0, 0); len(records) != 0 {
		t.Errorf("%d records before the delay", len(records))
	}
	n.Clock.Advance(time.Second + time.Millisecond)
	if r := await(t, c, "%RETRY%G", 0, 0, 1)[0]; string(r.Body) != "again" || r.ReconsumeTimes != 1 || propMap(r.Props)["RETRY_TOPIC"] != "T" {
		t.Errorf("delivered %+v", r)
	}
}
