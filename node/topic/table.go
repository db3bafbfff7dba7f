// Package topic is the table of topics: what exists, with how many queues, and who may do what.
//
// It is kept in memory as one immutable map that readers load without a lock, and on disk as topics.json in
// the shape of the stock broker 5.5.0. A change is durable before anybody can see it. Start with Table;
// names.go, perm.go and system.go hold the rules for names, permissions and the broker's own topics.
package topic

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ringmq/netio/wire"
	"ringmq/store/vfs"
)

// Why a topic cannot be created from a template.
var (
	ErrNoTemplate     = errors.New("topic: template does not exist")
	ErrNotInheritable = errors.New("topic: template may not be inherited")
)

// Options says how a Table works; the zero value of a field means "choose for me".
type Options struct {
	System SystemOptions
	Now    func() time.Time
	Log    *slog.Logger
}

// Table holds all topics of a broker.
type Table struct {
	// Set by Load, constant afterwards.
	fsys vfs.FS
	path string
	opts Options
	own  map[string]bool // names of this broker's system topics

	// Stored by whoever holds mu, loaded by anyone.
	now atomic.Pointer[state]

	// mu is held by one writer over the whole change, its file included, so that the file never falls behind
	// the memory or runs ahead of a concurrent change. Readers never wait for it.
	mu       sync.Mutex
	onChange []func()
}

// state is one version of the table. Nobody changes it once it is published.
type state struct {
	topics  map[string]*Config
	version wire.DataVersion
}

// Get returns the topic, or nil. Callers never change what it points to. It takes no lock and allocates
// nothing.
func (t *Table) Get(name []byte) *Config { return t.now.Load().topics[string(name)] }

// Snapshot returns all topics and the version of the table as of one moment. Callers never change either.
func (t *Table) Snapshot() (map[string]*Config, wire.DataVersion) {
	s := t.now.Load()
	return s.topics, s.version
}

// IsSystem tells whether name is a system topic of this broker, which clients may not create or delete.
func (t *Table) IsSystem(name string) bool { return IsSystem(name) || t.own[name] }

// OnChange has fn called after each change, once it is durable and visible, on the goroutine that made it.
// A call may stand for a later change as well: fn reads a Snapshot.
func (t *Table) OnChange(fn func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.onChange = append(t.onChange, fn)
}

// Put creates or replaces a topic. It is durable on return; an equal one that exists already costs nothing.
func (t *Table) Put(c Config) error {
	_, err := t.change(c.Name, func(*Config, map[string]*Config) (*Config, error) { return &c, nil })
	return err
}

// Ensure returns the topic named c.Name, which it creates as c if it does not exist; durable on return.
func (t *Table) Ensure(c Config) (*Config, error) {
	if old := t.now.Load().topics[c.Name]; old != nil {
		return old, nil
	}
	return t.change(c.Name, func(old *Config, _ map[string]*Config) (*Config, error) { return cmp.Or(old, &c), nil })
}

// EnsureRetry ensures the retry topic of a group, which its consumers subscribe to beside their own topics. unit is the
// client's unit mode.
func (t *Table) EnsureRetry(group string, queues int32, unit bool) (*Config, error) {
	c := simple(Retry(group), queues, PermRead|PermWrite)
	if unit {
		c.SysFlag = unitFlag(c.Name)
	}
	return t.Ensure(c)
}

// unitFlag is what a topic has that a client in unit mode made (stock broker 5.5.0).
func unitFlag(name string) int32 {
	if strings.HasPrefix(name, RetryPrefix) {
		return FlagUnitSub
	}
	return FlagUnit
}

// EnsureDLQ ensures the topic that takes the messages which a group failed to handle too often.
func (t *Table) EnsureDLQ(group string) (*Config, error) {
	return t.Ensure(simple(DLQ(group), 1, PermRead|PermWrite))
}

// AutoCreate returns the topic of that name, which it creates after a template if it does not exist: with
// min(wantQueues, the template's write queues) queues and the template's permissions without the right to
// inherit. unit is the client's unit mode. Durable on return. ErrNoTemplate and ErrNotInheritable say that
// the topic cannot be had this way; unlike a stock broker a refusal changes nothing.
func (t *Table) AutoCreate(name, template string, wantQueues int32, unit bool) (*Config, error) {
	if old := t.now.Load().topics[name]; old != nil {
		return old, nil
	}
	return t.change(name, func(old *Config, all map[string]*Config) (*Config, error) {
		if old != nil {
			return old, nil
		}
		from := all[template]
		switch {
		case from == nil:
			return nil, fmt.Errorf("%w: %s", ErrNoTemplate, template)
		case !from.Perm.Inherits() || template == Default && !t.opts.System.AutoCreate:
			return nil, fmt.Errorf("%w: %s perm %v", ErrNotInheritable, template, from.Perm)
		}
		c := simple(name, max(0, min(wantQueues, from.WriteQueues)), from.Perm&^PermInherit)
		c.FilterType = from.FilterType
		if unit {
			c.SysFlag = unitFlag(name)
		}
		return &c, nil
	})
}

// change asks decide what the topic shall be, given what it is (nil: missing) and all others. If that is a
// difference it is made durable, then visible, then announced.
func (t *Table) change(name string, decide func(old *Config, all map[string]*Config) (*Config, error)) (*Config, error) {
	got, changed, err := t.changeLocked(name, decide)
	if err != nil || changed == nil {
		return got, err
	}
	for _, fn := range changed {
		fn()
	}
	return got, nil
}

// changeLocked takes mu itself and returns what to call after it is released; nil if nothing changed.
func (t *Table) changeLocked(name string, decide func(old *Config, all map[string]*Config) (*Config, error)) (*Config, []func(), error) {
	if err := CheckName(name); err != nil {
		return nil, nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.now.Load()
	old := was.topics[name]
	c, err := decide(old, was.topics)
	if err != nil {
		return nil, nil, err
	}
	if c.Attributes == nil {
		c.Attributes = map[string]string{}
	}
	if old != nil && (c == old || c.equal(old)) {
		return old, nil, nil
	}
	topics := maps.Clone(was.topics)
	topics[name] = c
	next := &state{topics, t.nextVersion(was.version)}
	if err := t.write(next); err != nil {
		return nil, nil, fmt.Errorf("topic: create or change %s: %w", name, err)
	}
	t.now.Store(next)
	return c, append(make([]func(), 0, len(t.onChange)), t.onChange...), nil
}

func (t *Table) nextVersion(v wire.DataVersion) wire.DataVersion {
	v.Counter++
	v.Timestamp = t.opts.Now().UnixMilli()
	return v
}
