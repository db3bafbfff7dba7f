package nodetest_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"ringmq/netio/wire"
	"ringmq/node/nodetest"
	"ringmq/store/record"
	"ringmq/store/vfs"
)

// delayStory is a story of messages that wait and of failed ones that are tried again.
type delayStory struct {
	*story
	promised map[string]promise // by body: it was acknowledged
}

// promise is where a message has to be found, and the store time that it cannot be delivered by.
type promise struct {
	topic string
	dueMs int64
}

var delayConfig = map[string]string{
	"mappedFileSizeCommitLog": "65536", "mappedFileSizeConsumeQueue": "80", "messageDelayLevel": "1s 5s", "flushDelayOffsetInterval": "2000",
}

func newDelayStory(t testing.TB, seed uint64) *delayStory {
	s := &delayStory{newStory(t, seed), map[string]promise{}}
	s.config = delayConfig
	return s
}

func (s *delayStory) tell() {
	for round := range 2 {
		if s.start() != nil {
			return
		}
		err := s.round(round)
		if err == nil {
			err = s.stop()
		}
		if s.node.Kill(); err != nil {
			return
		}
	}
}

func (s *delayStory) round(round int) error {
	body := func(text string) string { return fmt.Sprint(text, " of round ", round) }
	for _, step := range []func() error{
		func() error { return s.create("T") },
		func() error { return s.send("T", body("fails"), 0) },
		func() error { return s.send("T", body("dies"), 0) },
		func() error { return s.delay(2, body("later")) },
		func() error { return s.delay(1, body("soon")) },
		func() error { return s.back("T", body("fails"), 1, "%RETRY%G") },
		func() error { return s.back("T", body("dies"), -1, "%DLQ%G") },
		func() error { return s.pass(time.Second, "T", body("soon")) },
		func() error { return s.pass(time.Second, "%RETRY%G", body("fails")) },
		func() error { return s.back("%RETRY%G", body("fails"), 2, "%RETRY%G") },
		func() error { return s.pass(4*time.Second, "T", body("later")) },
		func() error { return s.pull("T") },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (s *delayStory) promise(name, body string, level int) {
	due := int64(0)
	if level > 0 {
		due = s.clock.Now().UnixMilli() + []int64{1000, 5000}[level-1]
	}
	s.promised[body] = promise{name, due}
}

// delay sends a message with a delay level.
func (s *delayStory) delay(level int, body string) error {
	h := nodetest.SendHeader("T", 0)
	h.Properties = record.AppendProp(nil, "DELAY", fmt.Sprint(level))
	if _, err := s.call(wire.SendMessageV2, h, body); err != nil {
		return err
	}
	s.promise("T", body, level)
	return nil
}

// back sends a message back that is in a topic.
func (s *delayStory) back(from, body string, level int, to string) error {
	records, err := s.find(from, body)
	if err != nil {
		return err
	}
	if len(records) == 0 {
		return s.must(fmt.Errorf("%q is not in %s", body, from))
	}
	h := wire.SendBackRequest{Offset: records[len(records)-1].PhysOffset, Group: []byte("G"), DelayLevel: int32(level), MaxReconsumeTimes: -1}
	if _, err := s.call(wire.ConsumerSendMsgBack, &h, ""); err != nil {
		return err
	}
	s.promise(to, body, level)
	return nil
}

// find returns all records of a topic with a body.
func (s *delayStory) find(name, body string) (found []record.Record, err error) {
	for from := int64(0); ; {
		ans, err := s.c.Try(nodetest.NewRequest(wire.PullMessage, nodetest.PullHeader("G", name, 0, from), nil))
		if err != nil {
			return nil, s.must(err)
		}
		if ans.Code != wire.Success {
			return found, nil
		}
		for _, r := range nodetest.Records(s.t, ans.Body) {
			if from = r.QueueOffset + 1; string(r.Body) == body {
				found = append(found, r)
			}
		}
	}
}

// pass lets time go by and waits for a message that is due then.
func (s *delayStory) pass(d time.Duration, name, body string) (err error) {
	s.clock.Advance(d + time.Millisecond)
	nodetest.Until(s.t, body, func() bool {
		var found []record.Record
		found, err = s.find(name, body)
		return err != nil || len(found) > 0 || s.power.IsCut()
	})
	if err == nil && s.power.IsCut() {
		return errCut
	}
	return err
}

// check starts a node on what a power cut has left and returns what is wrong: every promised message comes in the
// end, none before its time, and what was seen stays.
func (s *delayStory) check(after vfs.FS) (wrong []string) {
	n, err := nodetest.TryStart(s.t, nodetest.Setup{FS: after, Clock: s.clock, Config: delayConfig})
	if err != nil {
		return []string{err.Error()}
	}
	defer n.Kill()
	wrong = s.checkOn(n)
	s.c = n.Client()
	s.clock.Advance(time.Minute)
	for body, p := range s.promised {
		var found []record.Record
		nodetest.Until(s.t, fmt.Sprintf("%q in %s", body, p.topic), func() bool {
			if found, err = s.find(p.topic, body); err != nil {
				s.t.Fatal(err)
			}
			return len(found) > 0 && found[len(found)-1].StoreMs > p.dueMs
		})
		if p.topic == "T" && found[0].StoreMs <= p.dueMs {
			wrong = append(wrong, fmt.Sprintf("%q was due after %d and came at %d", body, p.dueMs, found[0].StoreMs))
		}
	}
	return wrong
}

// TestCrashWhileDelivering cuts the power at the k-th disk call of a story of delayed and failed messages, for
// every k: each that was acknowledged is delivered in the end.
func TestCrashWhileDelivering(t *testing.T) {
	seeds := uint64(1)
	if os.Getenv("RINGMQ_PROVE") != "" {
		seeds = 4
	}
	for seed := range seeds {
		for k := 0; ; k++ {
			s := newDelayStory(t, seed)
			s.power.CutAt(k)
			s.tell()
			keep := []int{0, 50, 100}[k%3]
			after := s.disk.AfterCrash(rand.New(rand.NewPCG(seed, uint64(k))), keep)
			if wrong := s.check(after); len(wrong) > 0 {
				t.Fatalf("cut at call %d, seed %d, %d%% of the unsynced kept: %s\n%s", k, seed, keep, strings.Join(wrong, "; "), s.node.Log)
			}
			if !s.power.IsCut() {
				t.Logf("seed %d: %d places, %d promises", seed, k, len(s.promised))
				break
			}
		}
	}
}
