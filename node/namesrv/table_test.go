package namesrv

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ringmq/netio"
	"ringmq/netio/wire"
)

// town is a name server with a clock and named connections, told as a story.
type town struct {
	t     *testing.T
	s     *Server
	now   time.Time
	conns map[string]*netio.Conn
}

func newTown(t *testing.T) *town {
	w := &town{t: t, now: time.UnixMilli(1_700_000_000_000), conns: map[string]*netio.Conn{}}
	w.s = New(Options{Now: func() time.Time { return w.now }})
	return w
}

func (w *town) conn(name string) *netio.Conn {
	if w.conns[name] == nil {
		w.conns[name] = new(netio.Conn)
	}
	return w.conns[name]
}

// identity reads "name/id@addr".
func identity(text string) wire.BrokerIdentity {
	b := wire.BrokerIdentity{ClusterName: "c"}
	name, at, _ := strings.Cut(text, "/")
	b.BrokerName = name
	id, addr, _ := strings.Cut(at, "@")
	fmt.Sscan(id, &b.BrokerID)
	b.BrokerAddr = addr
	return b
}

func topics(names ...string) map[string]wire.TopicConfig {
	m := map[string]wire.TopicConfig{}
	for _, t := range names {
		m[t] = wire.TopicConfig{TopicName: t, Perm: 6, ReadQueueNums: 4, WriteQueueNums: 4}
	}
	return m
}

// register registers a broker on a connection of the name of its address.
func (w *town) register(b string, counter, state int64, names ...string) (wire.RegisterBrokerAnswer, error) {
	w.t.Helper()
	r := &wire.RegisterBrokerRequest{BrokerIdentity: identity(b), HAServerAddr: "ha-" + b}
	return w.s.table.register(r, &wire.TopicConfigWrapper{
		DataVersion: wire.DataVersion{Counter: counter, StateVersion: state}, TopicConfigTable: topics(names...),
	}, w.conn(r.BrokerAddr), w.now)
}

func (w *town) registers(b string, counter int64, names ...string) {
	w.t.Helper()
	if _, err := w.register(b, counter, 0, names...); err != nil {
		w.t.Fatal(err)
	}
}

// route compares the brokers of a topic, each as "name id=addr id=addr".
func (w *town) route(topic string, want ...string) {
	w.t.Helper()
	r, ok := w.s.table.route(topic)
	var got []string
	for i, b := range r.BrokerDatas {
		line := b.BrokerName
		for id := range int64(4) {
			if addr := b.BrokerAddrs[id]; addr != "" {
				line += fmt.Sprintf(" %d=%s", id, addr)
			}
		}
		if got = append(got, line); r.QueueDatas[i].BrokerName != b.BrokerName {
			w.t.Errorf("route of %s: queues of %s beside broker %s", topic, r.QueueDatas[i].BrokerName, b.BrokerName)
		}
	}
	if !slices.Equal(got, want) || ok != (len(want) > 0) {
		w.t.Errorf("route of %s: %q, want %q", topic, got, want)
	}
}

func TestMasterAndSlave(t *testing.T) {
	w := newTown(t)
	w.registers("a/0@m", 1, "T", "U")
	w.route("T", "a 0=m")
	w.route("nothing")
	got, err := w.register("a/1@s", 1, 0, "V", "W")
	if want := (wire.RegisterBrokerAnswer{HAServerAddr: "ha-a/0@m", MasterAddr: "m"}); err != nil || got != want {
		t.Errorf("the slave is told %+v, %v, want %+v", got, err, want)
	}
	w.route("T", "a 0=m 1=s")
	w.route("V") // a slave does not say which topics there are

	w.s.Closed(w.conn("m"))
	w.route("T", "a 1=s") // still readable
	if got, err := w.register("a/1@s", 1, 0, "T", "U"); err != nil || got != (wire.RegisterBrokerAnswer{}) {
		t.Errorf("without a master the slave is told %+v, %v", got, err)
	}
	w.s.Closed(w.conn("s"))
	w.route("T")
}

func TestTopicsAreTakenWithANewVersion(t *testing.T) {
	w := newTown(t)
	w.registers("a/0@m", 1, "T", "U")
	w.registers("a/0@m", 1, "T", "V")
	w.route("V") // the version says that nothing has changed
	w.registers("a/0@m", 2, "V")
	w.route("V", "a 0=m")
	w.route("T", "a 0=m") // a broker may send only what has changed
	w.registers("b/0@n", 1, "T", "X")
	w.route("T", "a 0=m", "b 0=n")
	if got := w.s.table.topicNames(); !slices.Equal(got, []string{"T", "U", "V", "X"}) {
		t.Errorf("topics: %v", got)
	}
	c := w.s.table.cluster()
	if !slices.Equal(c.ClusterAddrTable["c"], []string{"a", "b"}) || c.BrokerAddrTable["b"].BrokerAddrs[0] != "n" {
		t.Errorf("cluster: %+v", c)
	}
}

func TestSingleTopicOfAStranger(t *testing.T) {
	w := newTown(t)
	if _, err := w.register("a/0@m", 1, 0, "T"); !errors.Is(err, errUnknownBroker) {
		t.Errorf("registered: %v", err)
	}
	if c := w.s.table.cluster(); len(c.BrokerAddrTable) != 0 {
		t.Errorf("cluster: %+v", c)
	}
}

func TestTwoMastersOfOneName(t *testing.T) {
	w := newTown(t)
	if _, err := w.register("a/0@new", 1, 7, "T", "U"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.register("a/0@old", 9, 6, "V", "W"); err != nil {
		t.Fatal(err)
	}
	w.route("T", "a 0=new")
	w.route("V")
	if _, err := w.register("a/0@newest", 1, 8, "V", "W"); err != nil {
		t.Fatal(err)
	}
	w.route("V", "a 0=newest")
	w.s.Closed(w.conn("new")) // must not take its successor along
	w.route("V", "a 0=newest")
}

func TestSlaveBecomesMaster(t *testing.T) {
	w := newTown(t)
	w.registers("a/0@m", 1, "T", "U")
	w.registers("a/1@s", 1)
	w.s.Closed(w.conn("m"))
	w.registers("a/0@s", 2, "T", "U")
	w.route("T", "a 0=s")
}

// A broker that lost its connection registers on a new one before the name server hears of the old one's end.
func TestOldConnectionEndsLate(t *testing.T) {
	w := newTown(t)
	w.registers("a/0@m", 1, "T", "U")
	old := w.conn("m")
	delete(w.conns, "m")
	w.registers("a/0@m", 1, "T", "U")
	w.s.Closed(old)
	w.route("T", "a 0=m")
}

func TestUnregister(t *testing.T) {
	w := newTown(t)
	w.registers("a/0@m", 1, "T", "U")
	w.registers("b/0@n", 1, "T", "X")
	w.s.table.unregister(identity("a/0@elsewhere"))
	w.route("T", "a 0=m", "b 0=n")
	w.s.table.unregister(identity("a/0@m"))
	w.route("T", "b 0=n")
	w.route("U")
}

func TestExpire(t *testing.T) {
	w := newTown(t)
	w.s.Local(identity("local/0@here"), "", topics("T"))
	w.registers("a/0@m", 1, "T", "U")
	quick := &wire.RegisterBrokerRequest{BrokerIdentity: identity("q/0@q"), HeartbeatTimeoutMillis: 1000}
	if _, err := w.s.table.register(quick, &wire.TopicConfigWrapper{TopicConfigTable: topics("T", "Q")}, w.conn("q"), w.now); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(time.Second)
	w.s.expire()
	w.route("T", "a 0=m", "local 0=here", "q 0=q")
	w.now = w.now.Add(time.Millisecond)
	w.s.expire()
	w.route("T", "a 0=m", "local 0=here")

	w.now = w.now.Add(expireAfter)
	w.s.table.touch(address{"c", "m"}, w.now) // a heartbeat
	w.now = w.now.Add(expireAfter)
	w.s.expire()
	w.route("T", "a 0=m", "local 0=here")
	w.now = w.now.Add(time.Millisecond)
	w.s.expire()
	w.route("T", "local 0=here")
}

func TestLocal(t *testing.T) {
	w := newTown(t)
	w.registers("a/1@s", 1)
	w.s.Local(identity("a/0@here"), "ha", topics("T", "U"))
	w.route("T", "a 0=here 1=s")
	w.s.Local(identity("a/0@here"), "ha", topics("U", "V"))
	w.route("T") // deleted
	w.route("V", "a 0=here 1=s")
	if got, err := w.register("a/1@s", 1, 0); err != nil || got.MasterAddr != "here" || got.HAServerAddr != "ha" {
		t.Errorf("a slave of the local broker is told %+v, %v", got, err)
	}
	if _, err := w.register("a/0@thief", 1, 9, "V", "W"); !errors.Is(err, errLocalBroker) {
		t.Errorf("a stranger took the place of the local broker: %v", err)
	}
	w.s.RemoveLocal()
	w.route("V", "a 1=s")
}

// TestStrangersBesideTheLocalBroker has others do what would take the broker of this process out of its routes, which
// would never come back: it does not register again.
func TestStrangersBesideTheLocalBroker(t *testing.T) {
	w := newTown(t)
	w.s.Local(identity("a/0@here"), "ha", topics("T", "U"))
	for _, thief := range []struct{ cluster, broker string }{
		{"c", "a/0@thief"},
		{"other", "a/0@thief"},
		{"other", "a/1@slave"}, // the routes would name another cluster
		{"c", "a/1@here"},
		{"c", "b/0@here"},
		{"other", "b/0@here"},
	} {
		r := &wire.RegisterBrokerRequest{BrokerIdentity: identity(thief.broker)}
		r.ClusterName = thief.cluster
		_, err := w.s.table.register(r, &wire.TopicConfigWrapper{TopicConfigTable: topics("V", "W")}, w.conn("thief"), w.now)
		if !errors.Is(err, errLocalBroker) {
			t.Errorf("%+v registered: %v", thief, err)
		}
		w.s.table.unregister(r.BrokerIdentity)
	}
	w.s.table.unregister(identity("a/0@here"))
	w.s.Closed(w.conn("thief"))
	w.route("T", "a 0=here")
	w.route("V")
	if c := w.s.table.cluster(); len(c.ClusterAddrTable) != 1 || len(c.BrokerAddrTable) != 1 {
		t.Errorf("cluster: %+v", c)
	}
}

// TestBrokerComesBackElsewhere follows a broker whose machine got another address while the connection from the old one
// is still there. The two may end in any order.
func TestBrokerComesBackElsewhere(t *testing.T) {
	for _, order := range [][]string{{"new", "old"}, {"old", "new"}} {
		w := newTown(t)
		w.registers("a/0@old", 1, "T", "U")
		w.registers("a/0@new", 1, "T", "U")
		w.route("T", "a 0=new")
		for _, addr := range order {
			w.s.Closed(w.conn(addr))
		}
		w.route("T")
		if left := len(w.s.table.brokers) + len(w.s.table.groups) + len(w.s.table.topics); left != 0 {
			t.Errorf("closed %v: %d entries are left", order, left)
		}
	}
}

// A broker that is renamed registers from the address that it had. Nobody would ever take out the old name.
func TestBrokerIsRenamed(t *testing.T) {
	w := newTown(t)
	w.registers("a/0@m", 1, "T", "U")
	w.registers("b/0@m", 1, "T", "U")
	w.route("T", "b 0=m")
	w.s.Closed(w.conn("m"))
	w.route("T")
}
