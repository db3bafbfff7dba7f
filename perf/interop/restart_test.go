package interop

import (
	"fmt"
	"testing"
)

// TestRestart: over orderly restarts and kills under load, every acknowledged message is read back at the queue offset
// that its acknowledgement named, with equal bytes and no gap in any queue, and consumers that stay miss none.
func TestRestart(t *testing.T) {
	t.Parallel()
	for _, flush := range []string{flushSync, flushBuf} {
		for name, end := range map[string]func(*node) error{
			"stop": (*node).stop,
			"kill": func(n *node) error { n.kill(); return nil },
		} {
			t.Run(name+"-"+flush, func(t *testing.T) {
				t.Parallel()
				restartUnderLoad(t, flush, end)
			})
		}
	}
}

// traffic is one library's part in a restart story.
type traffic struct {
	client
	*group
	*load
}

func restartUnderLoad(t *testing.T, flush string, end func(*node) error) {
	const rounds, perRound = 3, 700
	n := ownNode(t, nodeOptions{flush: flush, segmentBytes: 8 << 20}) // several files within the story
	var all []traffic
	for _, c := range clients {
		g := newGroup(t, n, c, 4)
		g.join(t, c)
		all = append(all, traffic{c, g, startLoad(t, g.ledger.Load(), c.producer(t, n), g.sub.topic)})
	}
	for range rounds {
		for _, tr := range all {
			tr.more(t, perRound)
		}
		if err := end(n); err != nil {
			t.Fatal(err)
		}
		n.mustStart(t)
	}
	for _, tr := range all {
		tr.more(t, perRound)
	}
	for _, tr := range all {
		tr.finish()
		acked, _ := tr.l.counts()
		t.Logf("%s: %d acknowledged, %d sends failed", tr.name(), acked, tr.failed.Load())
		tr.l.waitVisible(t, n, tr.sub.topic)
		tr.l.checkReadBack(t, readAll(t, n, tr.client, tr.sub.topic))
	}
	for _, tr := range all {
		// The Go client notices a lost connection only when its long poll times out, after 30 s.
		eventually(t, patience, "the "+tr.name()+" consumer", tr.l.allHandled)
		tr.l.checkFaults(t)
	}
	if err := n.stop(); err != nil {
		t.Fatal("the last stop:", err)
	}
	n.mustStart(t)
	for i, tr := range all {
		reader := all[len(all)-1-i].client // the other library
		tr.l.checkReadBack(t, readAll(t, n, reader, tr.sub.topic))
	}
}

// TestResumeAfterRestart: a group's committed offsets survive an orderly restart of the node, so nothing is read twice.
func TestResumeAfterRestart(t *testing.T) {
	eachClient(t, func(t *testing.T, c client) {
		n := ownNode(t, nodeOptions{})
		resume(t, n, c, func() {
			if err := n.stop(); err != nil {
				t.Fatal(err)
			}
			n.mustStart(t)
		})
	})
}

// TestTopicsSurviveKill: topics, made by hand or on the way, are there after a kill right behind their first
// acknowledgement.
func TestTopicsSurviveKill(t *testing.T) {
	t.Parallel()
	n := ownNode(t, nodeOptions{})
	l := map[string]*ledger{}
	for _, c := range clients {
		made, auto := unique(t, "made"), unique(t, "auto")
		c.createTopic(t, n, made, 3)
		p := c.producer(t, n)
		for _, topic := range []string{made, auto} {
			l[topic] = newLedger()
			sendAll(t, l[topic], p, topic, 12, 100)
		}
	}
	n.kill()
	n.mustStart(t)
	for topic, sent := range l {
		for _, c := range clients {
			sent.waitVisible(t, n, topic)
			stored := readAll(t, n, c, topic)
			sent.checkReadBack(t, stored)
			if len(stored) < 3 {
				t.Errorf("%s", fmt.Sprintf("%s has %d queues after the kill", topic, len(stored)))
			}
		}
	}
}
