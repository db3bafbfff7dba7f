package rpc_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
)

func lockBody(id, group string, queues []int32) []byte {
	body := wire.LockBody{ClientID: id, ConsumerGroup: group, MQSet: []wire.MessageQueue{}}
	for _, q := range queues {
		body.MQSet = append(body.MQSet, wire.MessageQueue{BrokerName: "b", QueueID: q, Topic: "T"})
	}
	b, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return b
}

// locked asks for locks in group G and returns the queues that the client holds then.
func locked(t *testing.T, c *nodetest.Client, id string, queues ...int32) (held []int32) {
	t.Helper()
	ans := c.Must(wire.LockBatchMQ, nil, lockBody(id, "G", queues))
	var body wire.LockAnswerBody
	if err := json.Unmarshal(ans.Body, &body); err != nil {
		t.Fatal(err)
	}
	if body.LockOKMQSet == nil {
		t.Errorf("%s: the list must be there, empty as it may be", ans.Body)
	}
	for _, q := range body.LockOKMQSet {
		held = append(held, q.QueueID)
	}
	return held
}

func wantLocked(t *testing.T, c *nodetest.Client, id string, ask, want []int32) {
	t.Helper()
	if got := locked(t, c, id, ask...); !slices.Equal(got, want) {
		t.Fatalf("%s asked for %v and holds %v, want %v", id, ask, got, want)
	}
}

func unlock(c *nodetest.Client, id string, queues ...int32) {
	c.Must(wire.UnlockBatchMQ, nil, lockBody(id, "G", queues))
}

// wantRefused fails the test unless the answer is that code with a remark that has text in it.
func wantRefused(t *testing.T, ans *wire.Command, code wire.Code, text string) {
	t.Helper()
	if ans.Code != code || !strings.Contains(string(ans.Remark), text) {
		t.Errorf("answered %d %q, want %d with %q", ans.Code, ans.Remark, code, text)
	}
}

// TestLocks: a queue has one holder in a group; who asks again keeps it, for 60 s after the last time.
func TestLocks(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	a, b := n.Client(), n.Client()
	wantLocked(t, a, "a", []int32{0, 1}, []int32{0, 1})
	wantLocked(t, b, "b", []int32{0, 1, 2}, []int32{2})
	unlock(b, "b", 0) // not his
	wantLocked(t, b, "b", []int32{0}, nil)
	unlock(a, "a", 0)
	wantLocked(t, b, "b", []int32{0, 1}, []int32{0})
	if got := n.Stats().Locks; got != 3 {
		t.Errorf("%d locks counted, want 3", got)
	}
	n.Clock.Advance(time.Minute)
	wantLocked(t, b, "b", []int32{1}, nil)
	n.Clock.Advance(time.Millisecond)
	wantLocked(t, b, "b", []int32{1}, []int32{1})
	wantLocked(t, a, "a", []int32{0, 1}, []int32{0})
}

// TestLockOfNothing: a queue, topic and group that do not exist are locked as any other (stock broker 5.5.0), and
// none of them comes into being.
func TestLockOfNothing(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	c := n.Client()
	wantLocked(t, c, "a", []int32{-1, 0, 1 << 30}, []int32{-1, 0, 1 << 30})
	wantLocked(t, c, "a", nil, nil)
	if got := topicNames(t, n); slices.Contains(got, "T") {
		t.Errorf("topics %v", got)
	}
	unlock(c, "a", 5)
	unlock(c, "nobody", 0)
}

// topicNames lists what the name server knows.
func topicNames(t *testing.T, n *nodetest.Node) []string {
	t.Helper()
	addr, _ := n.NamesrvAddr()
	ans := nodetest.Dial(t, addr.String()).Must(wire.GetAllTopicListFromNameserver, nil, nil)
	var list wire.TopicList
	if err := wire.Unmarshal(ans.Body, &list); err != nil {
		t.Fatal(err)
	}
	return list.TopicList
}

// TestLockBodies: what is missing is named.
func TestLockBodies(t *testing.T) {
	c := nodetest.Start(t, nodetest.Setup{}).Client()
	for body, want := range map[string]string{
		"":                                     "no value",
		"null":                                 "no value",
		"{":                                    "JSON",
		`{"consumerGroup":"G","mqSet":[]}`:     "clientId: missing",
		`{"clientId":"a","mqSet":[]}`:          "consumerGroup: missing",
		`{"clientId":"a","consumerGroup":"G"}`: "mqSet: missing",
		`{"clientId":"a","consumerGroup":"G","mqSet":null}`:      "mqSet: missing",
		`{"clientId":"a","consumerGroup":"G","mqSet":["queue"]}`: "JSON",
	} {
		for _, code := range []wire.Code{wire.LockBatchMQ, wire.UnlockBatchMQ} {
			wantRefused(t, c.Ask(code, nil, []byte(body)), wire.SystemError, want)
		}
	}
}

// TestKilledHolder: the day a consumer is killed its queues are free as soon as its connection is closed, and the
// others are told to share anew after that. A stock broker keeps them locked for a minute.
func TestKilledHolder(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	a, b := n.Client(), n.Client()
	newTopic(t, a, "T", "")
	beat(t, a, "a", "G", nil)
	told(t, a, "G")
	rest(n)
	beat(t, b, "b", "G", nil)
	told(t, b, "G")
	rest(n)
	wantLocked(t, a, "a", []int32{0, 1, 2}, []int32{0, 1, 2})
	a.Close()
	told(t, b, "G")
	wantLocked(t, b, "b", []int32{0, 1, 2}, []int32{0, 1, 2})
}

// TestReconnectedHolder: a client whose old connection dies after it has come back by a new one keeps its locks. It has
// not asked for them by the new one yet; its heartbeat is enough.
func TestReconnectedHolder(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	old, again, b := n.Client(), n.Client(), n.Client()
	newTopic(t, b, "T", "")
	beat(t, b, "b", "G", nil)
	told(t, b, "G")
	rest(n)
	beat(t, old, "a", "G", nil)
	told(t, b, "G")
	rest(n)
	wantLocked(t, old, "a", []int32{0}, []int32{0})
	beat(t, again, "a", "G", nil)
	told(t, b, "G")
	rest(n)
	old.Close()
	told(t, b, "G")
	rest(n)
	wantLocked(t, b, "b", []int32{0}, nil)
	again.Close()
	told(t, b, "G")
	wantLocked(t, b, "b", []int32{0}, []int32{0})
}

// TestLeavingHolder: who leaves the group gives its locks back, asked or not.
func TestLeavingHolder(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	a, b := n.Client(), n.Client()
	newTopic(t, a, "T", "")
	beat(t, a, "a", "G", nil)
	wantLocked(t, a, "a", []int32{0}, []int32{0})
	a.Must(wire.UnregisterClient, &wire.UnregisterRequest{ClientID: "a", ConsumerGroup: "G"}, nil)
	wantLocked(t, b, "b", []int32{0}, []int32{0})
}

// TestTakeoverInOrder: what a consumer has committed before it gave a lock back is what the next one finds, however the
// requests are spread over loops and workers. Both are one-way, as stock consumers send them.
func TestTakeoverInOrder(t *testing.T) {
	n := nodetest.Start(t, nodetest.Setup{})
	members := []*nodetest.Client{n.Client(), n.Client(), n.Client()}
	newTopic(t, members[0], "T", "")
	for i, c := range members {
		beat(t, c, fmt.Sprint(i), "G", nil)
	}
	for round := range int64(200) {
		c, id := members[round%3], fmt.Sprint(round%3)
		nodetest.Until(t, "the lock", func() bool { return len(locked(t, c, id, 0)) == 1 })
		if at, _ := committed(c, "G", "T", 0); round > 0 && at != round {
			t.Fatalf("the next holder begins at %d, the one before had committed %d", at, round)
		}
		for _, req := range []*wire.Command{
			nodetest.NewRequest(wire.UpdateConsumerOffset, commitHeader("G", "T", 0, round+1), nil),
			nodetest.NewRequest(wire.UnlockBatchMQ, nil, lockBody(id, "G", []int32{0})),
		} {
			if err := c.Oneway(req); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestLockAfterClose: a request that a worker gets to after its connection is closed leaves nothing locked.
func TestLockAfterClose(t *testing.T) {
	served, release := blocker(t)
	n := nodetest.Start(t, nodetest.Setup{})
	var clients [5]*nodetest.Client // the first and the last one have the same worker
	for i := range clients {
		clients[i] = n.Client()
		newTopic(t, clients[i], "T", "") // is there: so that connections are counted in this order
	}
	gone, witness, last := clients[0], clients[1], clients[4]
	beat(t, witness, "witness", "G", nil)
	told(t, witness, "G")
	rest(n)
	beat(t, gone, "gone", "G", nil)
	told(t, witness, "G")
	rest(n)
	if err := gone.Oneway(nodetest.NewRequest(codeOfTest, nil, nil)); err != nil { // keeps the worker busy
		t.Fatal(err)
	}
	<-served
	was := n.Stats().Requests
	if err := gone.Oneway(nodetest.NewRequest(wire.LockBatchMQ, nil, lockBody("gone", "G", []int32{0}))); err != nil {
		t.Fatal(err)
	}
	nodetest.Until(t, "the request waits for the worker", func() bool { return n.Stats().Requests == was+1 })
	gone.Close()
	told(t, witness, "G")
	release()
	wantLocked(t, last, "last", []int32{0}, []int32{0})
}
