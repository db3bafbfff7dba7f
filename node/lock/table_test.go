package lock

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ringmq/netio/wire"
)

// world is a Table with a clock and a few names.
type world struct {
	*Table
	t   testing.TB
	now time.Time
}

func newWorld(t testing.TB, o Options) *world {
	w := &world{t: t, now: time.UnixMilli(1_800_000_000_000)}
	o.Now = func() time.Time { return w.now }
	w.Table = New(o)
	return w
}

func queue(id int32) wire.MessageQueue {
	return wire.MessageQueue{BrokerName: "b", QueueID: id, Topic: "T"}
}

func queues(ids ...int32) (all []wire.MessageQueue) {
	for _, id := range ids {
		all = append(all, queue(id))
	}
	return all
}

// lock asks for queues of group G and says which were granted.
func (w *world) lock(conn, id string, ids ...int32) []int32 {
	w.t.Helper()
	granted, err := w.Lock(conn, id, "G", queues(ids...))
	if err != nil {
		w.t.Fatal(err)
	}
	got := []int32{}
	for _, q := range granted {
		got = append(got, q.QueueID)
	}
	return got
}

func (w *world) wantLock(conn, id string, ask, want []int32) {
	w.t.Helper()
	if got := w.lock(conn, id, ask...); !slices.Equal(got, want) {
		w.t.Fatalf("%s asked for %v and holds %v, want %v", id, ask, got, want)
	}
}

func TestOneHolder(t *testing.T) {
	w := newWorld(t, Options{})
	w.wantLock("1", "a", []int32{0, 1}, []int32{0, 1})
	w.wantLock("2", "b", []int32{0, 1, 2}, []int32{2})
	w.wantLock("1", "a", []int32{2, 1, 0}, []int32{1, 0})
	if got, err := w.Lock("2", "b", "Other", queues(0)); err != nil || len(got) != 1 {
		t.Errorf("the same queue of another group: %v, %v", got, err)
	}
	other := wire.MessageQueue{BrokerName: "b2", QueueID: 0, Topic: "T"}
	if got, err := w.Lock("2", "b", "G", []wire.MessageQueue{other}); err != nil || len(got) != 1 {
		t.Errorf("a queue of another broker: %v, %v", got, err)
	}
}

// TestOrderly: each message that a group sends to its retry topic asks whether the group consumes in order. Others'
// locks are none of its business, and locks that are over do not stay in the way.
func TestOrderly(t *testing.T) {
	w := newWorld(t, Options{})
	if w.Orderly("G") {
		t.Error("orderly without a lock")
	}
	w.lock("1", "a", 0, 1, 2)
	if !w.Orderly("G") || w.Orderly("Other") {
		t.Errorf("orderly: G %v, Other %v", w.Orderly("G"), w.Orderly("Other"))
	}
	w.now = w.now.Add(time.Minute)
	w.lock("1", "a", 3)
	w.now = w.now.Add(time.Second)
	if !w.Orderly("G") {
		t.Error("one lock of four is not over")
	}
	w.now = w.now.Add(time.Minute)
	if w.Orderly("G") || w.Len() != 0 {
		t.Errorf("orderly, %d locks, and all are over", w.Len())
	}
	w.wantLock("1", "a", []int32{0}, []int32{0})
	w.Unlock("a", "G", queues(0))
	if w.Orderly("G") {
		t.Error("orderly, and all was given back")
	}
}

// TestUnlock: the holder alone gives a lock back, and then whoever asks next has it.
func TestUnlock(t *testing.T) {
	w := newWorld(t, Options{})
	w.lock("1", "a", 0, 1)
	w.lock("2", "b", 2)
	w.Unlock("b", "G", queues(0, 1, 7))
	w.Unlock("a", "Other", queues(0))
	w.Unlock("nobody", "G", queues(0))
	w.wantLock("2", "b", []int32{0, 1}, nil)
	w.Unlock("a", "G", queues(0))
	w.wantLock("2", "b", []int32{0, 1}, []int32{0})
	w.wantLock("1", "a", []int32{0, 1}, []int32{1})
}

// TestExpiry: a lock lives for its whole time, to the last moment, and each request renews it.
func TestExpiry(t *testing.T) {
	w := newWorld(t, Options{})
	w.lock("1", "a", 0, 1)
	w.now = w.now.Add(40 * time.Second)
	w.lock("1", "a", 1)
	w.now = w.now.Add(20 * time.Second)
	w.wantLock("2", "b", []int32{0, 1}, nil)
	w.now = w.now.Add(time.Millisecond)
	w.wantLock("2", "b", []int32{0, 1}, []int32{0})
	w.wantLock("1", "a", []int32{0, 1}, []int32{1})
	w.now = w.now.Add(time.Hour)
	w.wantLock("1", "a", []int32{1}, []int32{1}) // late, but nobody else came
	w.Unlock("a", "G", queues(0))
	w.wantLock("3", "c", []int32{1}, nil)
}

// TestGone: the locks of a client end with its last connection, of whatever it was heard on, and before
// that with none. A client that has reconnected is known by both connections until the broker has
// noticed that the old one is dead; it must not lose what it goes on with.
func TestGone(t *testing.T) {
	w := newWorld(t, Options{})
	w.lock("old", "a", 0)
	w.Heard("new", "a")
	w.Heard("new", "a")
	w.Gone("old")
	w.wantLock("2", "b", []int32{0}, nil)
	w.Gone("new")
	w.Gone("new")
	w.wantLock("2", "b", []int32{0}, []int32{0})

	w.lock("proxy", "c", 1)
	w.lock("proxy", "d", 2)
	w.lock("direct", "d", 2)
	w.Gone("proxy")
	w.wantLock("2", "b", []int32{1, 2}, []int32{1})
}

func TestLeave(t *testing.T) {
	w := newWorld(t, Options{})
	w.lock("1", "a", 0, 1)
	if _, err := w.Lock("1", "a", "Other", queues(0)); err != nil {
		t.Fatal(err)
	}
	w.Leave("a", "G")
	w.Leave("nobody", "G")
	w.wantLock("2", "b", []int32{0, 1}, []int32{0, 1})
	if got, err := w.Lock("2", "b", "Other", queues(0)); err != nil || len(got) != 0 {
		t.Errorf("the lock of another group: %v, %v", got, err)
	}
}

// TestBounds: what has no room is refused, what is held stays, and room comes back.
func TestBounds(t *testing.T) {
	w := newWorld(t, Options{MaxBytes: 2000})
	held := w.lock("1", "a", 0)
	for id := int32(1); ; id++ {
		_, err := w.Lock("1", "a", "G", queues(id))
		if errors.Is(err, ErrFull) {
			break
		}
		if err != nil || id > 10 {
			t.Fatalf("after %d locks of %d bytes: %v", id, w.bytes, err)
		}
		held = append(held, id)
	}
	w.wantLock("1", "a", held, held)
	w.Heard("2", "b")
	if _, err := w.Lock("2", "b", "G", queues(99)); !errors.Is(err, ErrFull) {
		t.Errorf("another client: %v", err)
	}
	w.Gone("1")
	w.wantLock("2", "b", []int32{99}, []int32{99})
}

// TestManyClientsOfOneConnection: a connection that says it is somebody else each time takes no more than its share.
func TestManyClientsOfOneConnection(t *testing.T) {
	w := newWorld(t, Options{})
	for i := range 2 * maxClients {
		w.Heard("1", fmt.Sprint(i))
	}
	if got := len(w.conns["1"]); got != maxClients {
		t.Errorf("%d clients are known by one connection, want %d", got, maxClients)
	}
	if _, err := w.Lock("1", "one more", "G", queues(0)); !errors.Is(err, ErrFull) {
		t.Errorf("one more: %v", err)
	}
	w.wantLock("2", "a", []int32{0}, []int32{0})
}

// model is the table in its simplest form.
type model struct {
	now   time.Time
	locks map[string]modelLock // by group and queue
	heard map[string]map[string]bool
}

type modelLock struct {
	id    string
	asked time.Time
}

func (m *model) lock(conn, id, at string) bool {
	m.hear(conn, id)
	l, ok := m.locks[at]
	if ok && l.id != id && m.now.Sub(l.asked) <= time.Minute {
		return false
	}
	m.locks[at] = modelLock{id, m.now}
	return true
}

func (m *model) hear(conn, id string) {
	if m.heard[conn] == nil {
		m.heard[conn] = map[string]bool{}
	}
	m.heard[conn][id] = true
}

func (m *model) gone(conn string) {
	delete(m.heard, conn)
	for at, l := range m.locks {
		there := false
		for _, ids := range m.heard {
			there = there || ids[l.id]
		}
		if !there {
			delete(m.locks, at)
		}
	}
}

// live counts the locks of a group whose time is not over.
func (m *model) live(group string) (n int) {
	for at, l := range m.locks {
		if strings.HasPrefix(at, group+"/") && m.now.Sub(l.asked) <= time.Minute {
			n++
		}
	}
	return n
}

// FuzzTable: the table may be slower than a map, never different from it, and is empty in the end.
func FuzzTable(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 1, 0, 16, 3, 0, 0, 1, 0, 0, 1, 1})
	f.Add([]byte{0, 0, 0, 0, 5, 0, 0, 61, 0, 1, 1, 0, 4, 1, 0, 0, 1, 0, 0, 0, 2, 1, 1, 0})
	f.Fuzz(func(t *testing.T, prog []byte) {
		w := newWorld(t, Options{})
		m := &model{now: w.now, locks: map[string]modelLock{}, heard: map[string]map[string]bool{}}
		for ; len(prog) >= 4; prog = prog[4:] {
			conn, id := fmt.Sprint(prog[1]%4), fmt.Sprint(prog[2]%3)
			group, q := fmt.Sprint(prog[3]>>4%2), int32(prog[3]%4)
			at := fmt.Sprint(group, "/", q)
			switch prog[0] % 7 {
			case 0:
				got, err := w.Lock(conn, id, group, queues(q))
				if want := m.lock(conn, id, at); err != nil || (len(got) == 1) != want {
					t.Fatalf("lock %s by %s: %v, %v, want %v", at, id, got, err, want)
				}
			case 1:
				w.Unlock(id, group, queues(q))
				if m.locks[at].id == id {
					delete(m.locks, at)
				}
			case 2:
				w.Leave(id, group)
				for q := range 4 {
					if at := fmt.Sprint(group, "/", q); m.locks[at].id == id {
						delete(m.locks, at)
					}
				}
			case 3:
				w.Gone(conn)
				m.gone(conn)
			case 4:
				w.Heard(conn, id)
				m.hear(conn, id)
			case 5:
				w.now = w.now.Add(time.Duration(prog[3]) * time.Second)
				m.now = w.now
			case 6:
				if got, want := w.Orderly(group), m.live(group) > 0; got != want {
					t.Fatalf("group %s is orderly: %v, want %v", group, got, want)
				}
			}
			if least := m.live("0") + m.live("1"); w.Len() < least || w.Len() > len(m.locks) {
				t.Fatalf("%d locks, want %d, and up to %d with those whose time is over", w.Len(), least, len(m.locks))
			}
		}
		for conn := range 4 {
			w.Gone(fmt.Sprint(conn))
		}
		if w.bytes != 0 || w.count+len(w.groups)+len(w.clients)+len(w.conns) != 0 {
			t.Errorf("left: %d bytes, %d locks, %d clients, %d connections", w.bytes, w.count, len(w.clients), len(w.conns))
		}
	})
}
