package group

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"ringmq/netio/wire"
)

// conn is a Channel that swallows what is posted.
type conn struct{ name string }

func (*conn) Post(*wire.Command) {}

// room is a Members with named connections and a clock, told as a story.
type room struct {
	t   testing.TB
	m   *Members
	tab *Table
	now time.Time
	ch  map[string]*conn
}

// newRoom knows the groups g, h and quiet; quiet does not want to be notified.
func newRoom(t testing.TB) *room {
	tab := open(t, disk(t, []byte(`{"subscriptionGroupTable":{"g":{},"h":{},"quiet":{"notifyConsumerIdsChangedEnable":false}}}`)), false)
	return &room{t: t, m: NewMembers(tab), tab: tab, now: time.UnixMilli(1_700_000_000_000), ch: map[string]*conn{}}
}

func (r *room) conn(name string) *conn {
	if r.ch[name] == nil {
		r.ch[name] = &conn{name}
	}
	return r.ch[name]
}

// consumer is one group of a heartbeat with topics such as "T" or "T:7:TagA" (version, expression).
func consumer(group string, topics ...string) wire.ConsumerData {
	c := wire.ConsumerData{GroupName: group, ConsumeType: wire.ConsumePassively, MessageModel: wire.Clustering, SubscriptionDataSet: []wire.SubscriptionData{}}
	for _, topic := range topics {
		d := wire.SubscriptionData{Topic: topic, SubString: "*"}
		if parts := strings.SplitN(topic, ":", 3); len(parts) == 3 {
			d.Topic, d.SubString, d.TagsSet = parts[0], parts[2], []string{parts[2]}
			fmt.Sscan(parts[1], &d.SubVersion)
		}
		c.SubscriptionDataSet = append(c.SubscriptionDataSet, d)
	}
	return c
}

func broadcast(c wire.ConsumerData) wire.ConsumerData {
	c.MessageModel = wire.Broadcasting
	return c
}

// beat sends a heartbeat whose client id is the connection's name, and compares the groups to notify.
func (r *room) beat(name string, want []string, groups ...wire.ConsumerData) {
	r.t.Helper()
	r.body(name, &wire.HeartbeatBody{ClientID: name, ConsumerDataSet: groups}, want, false)
}

func (r *room) body(name string, b *wire.HeartbeatBody, want []string, subChange bool) {
	r.t.Helper()
	got := r.m.Heartbeat(r.conn(name), b, r.now)
	if !slices.Equal(got.Notify, want) || got.SubChange != subChange {
		r.t.Errorf("heartbeat of %s: %+v, want notify %v, subscription change %v", name, got, want, subChange)
	}
}

func (r *room) ids(group string, want ...string) {
	r.t.Helper()
	if got := r.m.ClientIDs(group); !slices.Equal(got, want) {
		r.t.Errorf("clients of %s: %v, want %v", group, got, want)
	}
	if got := len(r.m.Channels(group)); (got == 0) != (len(want) == 0) {
		r.t.Errorf("%s has %d connections and the clients %v", group, got, want)
	}
}

func (r *room) expr(group, topic, want string) {
	r.t.Helper()
	got := "none"
	if s, ok := r.m.Subscription([]byte(group), []byte(topic)); ok {
		got = s.Expr
	}
	if got != want {
		r.t.Errorf("%s of %s: %s, want %s", topic, group, got, want)
	}
}

func (r *room) notify(what string, got, want []string) {
	r.t.Helper()
	if !slices.Equal(got, want) {
		r.t.Errorf("%s: notify %v, want %v", what, got, want)
	}
}

func TestJoinAndLeave(t *testing.T) {
	r := newRoom(t)
	r.beat("a", []string{"g"}, consumer("g", "T"))
	r.beat("a", nil, consumer("g", "T"))
	r.beat("b", []string{"g", "h"}, consumer("g", "T"), consumer("h", "T"))
	r.ids("g", "a", "b")
	r.ids("h", "b")

	r.notify("b closes", r.m.Gone(r.conn("b")), []string{"g"}) // nobody is left in h
	r.ids("g", "a")
	r.ids("h")
	r.notify("b closes again", r.m.Gone(r.conn("b")), nil)
	r.notify("a leaves", r.m.Unregister(r.conn("a"), "", "g"), nil)
	r.ids("g")
}

func TestUnregister(t *testing.T) {
	r := newRoom(t)
	r.beat("a", []string{"g"}, consumer("g", "T"))
	r.beat("b", []string{"g"}, consumer("g", "T"))
	r.notify("a stranger leaves", r.m.Unregister(r.conn("c"), "p", "g"), nil)
	r.notify("a leaves a group it is not in", r.m.Unregister(r.conn("a"), "", "h"), nil)
	r.notify("a leaves", r.m.Unregister(r.conn("a"), "p", "g"), []string{"g"})
	r.ids("g", "b")
	r.notify("a closes", r.m.Gone(r.conn("a")), nil)
}

func TestGroupsThatDoNotExist(t *testing.T) {
	r := newRoom(t)
	r.beat("a", []string{"g"}, consumer("unknown", "T"), consumer("g", "T"))
	r.ids("unknown")
	r.ids("g", "a")
}

func TestWhoIsNotNotified(t *testing.T) {
	r := newRoom(t)
	r.beat("a", nil, consumer("quiet", "T"))
	r.beat("b", nil, consumer("quiet", "T"))
	r.notify("b closes", r.m.Gone(r.conn("b")), nil)
	r.beat("c", nil, broadcast(consumer("g", "T")))
	r.beat("d", nil, broadcast(consumer("g", "T")))
	r.notify("d closes", r.m.Gone(r.conn("d")), nil)
	r.ids("g", "c")
}

// Two connections with one client id are one client: stock lists it twice and skews the sharing on all sides.
func TestClientIDsAreCountedOnce(t *testing.T) {
	r := newRoom(t)
	for _, name := range []string{"x", "y"} {
		r.body(name, &wire.HeartbeatBody{ClientID: "same", ConsumerDataSet: []wire.ConsumerData{consumer("g", "T")}}, []string{"g"}, false)
	}
	r.ids("g", "same")
	if n := len(r.m.Channels("g")); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

func TestTopicSets(t *testing.T) {
	r := newRoom(t)
	r.beat("a", []string{"g"}, consumer("g", "T:5:TagA"))
	r.beat("a", nil, consumer("g", "T:6:TagB")) // a new expression alone is no reason to share out again
	r.expr("g", "T", "TagB")
	r.beat("a", nil, consumer("g", "T:6:TagC")) // the same version again: kept
	r.expr("g", "T", "TagB")
	r.beat("a", nil, consumer("g", "T:1:TagD")) // an older one
	r.expr("g", "T", "TagB")
	r.beat("a", []string{"g"}, consumer("g", "T:6:TagB", "U:1:x"))
	r.expr("g", "U", "x")
	r.beat("a", []string{"g"}, consumer("g", "U:1:x"))
	r.expr("g", "T", "none")

	// Members with different topics make the group flap, as on a stock broker.
	r.beat("b", []string{"g"}, consumer("g", "V"))
	r.beat("a", []string{"g"}, consumer("g", "U:1:x"))
	r.beat("b", []string{"g"}, consumer("g", "V"))
	r.expr("g", "U", "none")

	r.m.Gone(r.conn("a"))
	r.m.Gone(r.conn("b"))
	r.expr("g", "V", "none") // the subscriptions go with the last member
}

// Java clients send their hashes as numbers, Go clients as texts (wire reads both), some send none, and some
// leave expression and type empty.
func TestSubscriptionsFromHeartbeats(t *testing.T) {
	for _, w := range []struct {
		d    wire.SubscriptionData
		want Subscription
	}{
		{wire.SubscriptionData{Topic: "T", SubString: "TagA", TagsSet: []string{"TagA"}, CodeSet: []int32{2598919}}, Subscription{Topic: "T", Type: Tag, Expr: "TagA", Tags: []string{"TagA"}, Codes: []int32{2598919}}},
		{wire.SubscriptionData{Topic: "T", SubString: "TagA", TagsSet: []string{"TagA"}}, Subscription{Topic: "T", Type: Tag, Expr: "TagA", Tags: []string{"TagA"}, Codes: []int32{2598919}}},
		{wire.SubscriptionData{Topic: "T", SubString: "TagA", CodeSet: []int32{1, 1}}, Subscription{Topic: "T", Type: Tag, Expr: "TagA", Codes: []int32{1}}},
		{wire.SubscriptionData{Topic: "T"}, Subscription{Topic: "T", Type: Tag, Expr: All}},
		{wire.SubscriptionData{Topic: "T", ExpressionType: "SQL92", SubString: "a > 1", SubVersion: 9}, Subscription{Topic: "T", Type: "SQL92", Expr: "a > 1", Version: 9}},
	} {
		if got := subscription(&w.d); fmt.Sprint(*got) != fmt.Sprint(w.want) {
			t.Errorf("%+v: %+v, want %+v", w.d, *got, w.want)
		}
	}
}

// A subscription may list as many tags as a frame holds. Each is kept once, and every entry of a queue is judged by them.
func TestEndlessSubscription(t *testing.T) {
	const many = 1 << 20
	d := wire.SubscriptionData{Topic: "T", SubString: "many"}
	for i := range int32(many) {
		d.CodeSet = append(d.CodeSet, 2*(many-i), 2*(many-i))
	}
	s := subscription(&d)
	if len(s.Codes) != many || !s.Match(2*many) || !s.Match(2) || s.Match(3) {
		t.Errorf("%d codes, want %d", len(s.Codes), many)
	}
	if _, err := NewSubscription("T", strings.Repeat("a||", maxExprBytes), Tag, 0); err == nil {
		t.Error("a pull may bring as many")
	}
}

// The second form of heartbeat leaves the subscriptions out while they stay the same.
func TestHeartbeatV2(t *testing.T) {
	r := newRoom(t)
	full := func(print int32, c wire.ConsumerData) *wire.HeartbeatBody {
		return &wire.HeartbeatBody{ClientID: "a", HeartbeatFingerprint: print, ConsumerDataSet: []wire.ConsumerData{c}}
	}
	without := func(print int32) *wire.HeartbeatBody {
		b := full(print, consumer("g"))
		b.WithoutSub = true
		return b
	}
	r.body("a", full(1, consumer("g", "T:1:TagA")), []string{"g"}, false)
	r.body("a", without(1), nil, false)
	r.expr("g", "T", "TagA") // kept though not repeated
	r.body("b", without(1), []string{"g"}, false)
	r.body("a", full(2, consumer("g", "T:1:TagA", "U:1:x")), []string{"g"}, true)
	r.body("a", without(2), nil, false)

	// A restarted broker knows nothing: it asks for the subscriptions.
	r = newRoom(t)
	r.body("a", without(2), []string{"g"}, true)
	r.expr("g", "T", "none")
	r.body("a", full(2, consumer("g", "T:1:TagA")), []string{"g"}, false)
	r.expr("g", "T", "TagA")
}

func TestInfoIsTheNewest(t *testing.T) {
	r := newRoom(t)
	if _, ok := r.m.Info([]byte("g")); ok {
		t.Error("a group without members has an info")
	}
	r.beat("a", []string{"g"}, consumer("g", "T"))
	r.beat("b", nil, broadcast(consumer("g", "T")))
	got, ok := r.m.Info([]byte("g"))
	if want := (Info{Type: wire.ConsumePassively, Model: wire.Broadcasting}); !ok || got != want {
		t.Errorf("info: %+v, want %+v", got, want)
	}
}

func TestExpire(t *testing.T) {
	r := newRoom(t)
	r.beat("old", []string{"g", "h"}, consumer("g", "T"), consumer("h", "T"))
	r.body("producer", &wire.HeartbeatBody{ClientID: "p", ProducerDataSet: []wire.ProducerData{{GroupName: "P"}}}, nil, false)
	r.now = r.now.Add(ExpireAfter)
	r.beat("young", []string{"g"}, consumer("g", "T"))
	r.notify("at the limit", r.m.Expire(r.now), nil)
	r.now = r.now.Add(time.Nanosecond)
	r.notify("past it", r.m.Expire(r.now), []string{"g"})
	r.ids("g", "young")
	r.ids("h")
	r.beat("old", []string{"g", "h"}, consumer("g", "T"), consumer("h", "T")) // back as a new member
}

func TestNothingStaysOfThoseWhoLeft(t *testing.T) {
	r := newRoom(t)
	for i := range 50 {
		name := fmt.Sprint(i)
		r.m.Heartbeat(r.conn(name), &wire.HeartbeatBody{
			ClientID: name, HeartbeatFingerprint: int32(i + 1), ProducerDataSet: []wire.ProducerData{{GroupName: "P" + name}, {GroupName: "P"}},
			ConsumerDataSet: []wire.ConsumerData{consumer("g", "T"), consumer("h", "T"+name)},
		}, r.now)
	}
	for i := range 50 {
		r.m.Gone(r.conn(fmt.Sprint(i)))
	}
	m := r.m
	if n := len(m.consumers) + len(m.producers) + len(m.present) + len(m.fingerprints); n != 0 {
		t.Errorf("%d entries are left", n)
	}
}

// TestModel plays random joins, leaves and closes against a map of who is where.
func TestModel(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	r := newRoom(t)
	model := map[string]map[string]bool{"g": {}, "h": {}}
	for step := range 2000 {
		name, group := fmt.Sprint("c", rng.IntN(6)), []string{"g", "h"}[rng.IntN(2)]
		var notify []string
		switch was := model[group][name]; rng.IntN(4) {
		case 0, 1:
			notify = r.m.Heartbeat(r.conn(name), &wire.HeartbeatBody{ClientID: name, ConsumerDataSet: []wire.ConsumerData{consumer(group, "T")}}, r.now).Notify
			model[group][name] = true
			if got := slices.Contains(notify, group); got == was {
				t.Fatalf("seed %d step %d: %s joins %s (there before: %v): notify %v", seed, step, name, group, was, notify)
			}
		case 2:
			notify = r.m.Unregister(r.conn(name), "", group)
			delete(model[group], name)
			if got := slices.Contains(notify, group); got != (was && len(model[group]) > 0) {
				t.Fatalf("seed %d step %d: %s leaves %s: notify %v", seed, step, name, group, notify)
			}
		case 3:
			r.m.Gone(r.conn(name))
			delete(model["g"], name)
			delete(model["h"], name)
		}
		for group, members := range model {
			ids := r.m.ClientIDs(group)
			if len(ids) != len(members) {
				t.Fatalf("seed %d step %d: %s is %v, want %v", seed, step, group, ids, members)
			}
			for _, id := range ids {
				if !members[id] {
					t.Fatalf("seed %d step %d: %s is %v, want %v", seed, step, group, ids, members)
				}
			}
		}
	}
}

func TestLookupsAllocateNothing(t *testing.T) {
	r := newRoom(t)
	r.beat("a", []string{"g"}, consumer("g", "T"))
	g, topic := []byte("g"), []byte("T")
	if n := testing.AllocsPerRun(100, func() {
		r.m.Subscription(g, topic)
		r.m.Info(g)
	}); n != 0 {
		t.Errorf("Subscription and Info allocate %v times", n)
	}
}

// TestProducerGroupsAreBounded: the producer groups of a connection were kept until it closed, however many and
// however long the names that its heartbeats brought.
func TestProducerGroupsAreBounded(t *testing.T) {
	r := newRoom(t)
	beat := func(names ...string) {
		b := &wire.HeartbeatBody{ClientID: "a"}
		for _, name := range names {
			b.ProducerDataSet = append(b.ProducerDataSet, wire.ProducerData{GroupName: name})
		}
		r.body("a", b, nil, false)
	}
	beat(strings.Repeat("x", maxProducerBytes+1))
	for i := range 2 * maxProducers {
		beat(fmt.Sprint("p", i), "p0")
	}
	if n, p := len(r.m.producers), len(r.m.present[r.conn("a")].producers); n != maxProducers || p != maxProducers {
		t.Errorf("%d groups, %d of the connection, want %d", n, p, maxProducers)
	}
	r.m.Unregister(r.conn("a"), "p0", "")
	beat("late")
	if r.m.producers["p0"] != nil || r.m.producers["late"] == nil {
		t.Error("a group that was left makes no room for another one")
	}
	r.m.Gone(r.conn("a"))
	if len(r.m.producers) != 0 {
		t.Errorf("%d groups of nobody", len(r.m.producers))
	}
}
